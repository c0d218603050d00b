package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/llmtap/llmtap/dashboards/access"
)

const (
	viewsPath   = "/views"
	maxViews    = 100  // saved for all
	maxViewName = 60   // characters
	maxViewURL  = 4000 // bytes
)

// Views are the views that people have saved for all. They do not need ClickHouse.
type Views interface {
	// All returns the views, sorted by name.
	All(ctx context.Context) ([]SavedView, error)
	// Edit replaces the views by what edit makes of them. It calls edit again if others change them meanwhile, and returns its error.
	Edit(ctx context.Context, edit func(all []SavedView) ([]SavedView, error)) error
}

// A SavedView is a page with its time range and filters, under a name.
type SavedView struct {
	Name string    `json:"name"`
	URL  string    `json:"url"` // path and parameters
	By   string    `json:"by"`  // name of the person
	At   time.Time `json:"at"`
}

// A viewsPage lists saved views and changes them. The script adds those that only this browser has.
type viewsPage struct {
	*site
	views Views // nil: none
}

var errNoViews = fmt.Errorf("saved views are %w in this process", ErrUnavailable)

// A viewList is the data of the page.
type viewList struct {
	List []SavedView
	Of   string // URL of the page to save; empty if it is not known
}

// ServeHTTP serves the list.
func (s viewsPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serveViews(w, r, http.StatusOK, s.page(r, "Views", ""))
}

func (s viewsPage) serveViews(w http.ResponseWriter, r *http.Request, status int, p *page) {
	p.Static, p.Still = true, true
	s.serveStatus(w, r, status, p, section{id: "views", template: "views", title: "For all", load: func(ctx context.Context) (any, error) {
		out := &viewList{}
		if of := p.Get("of"); checkViewURL(of) == nil {
			out.Of = of
		}
		if s.views == nil {
			return out, errNoViews
		}
		var err error
		out.List, err = s.views.All(ctx)
		out.List = slices.DeleteFunc(out.List, func(v SavedView) bool { return !v.within(access.ScopeOf(ctx)) })
		return out, err
	}})
}

// act returns a handler of a form that changes the views.
func (s viewsPage) act(done string, edit func(r *http.Request, by string, all []SavedView) ([]SavedView, error)) http.HandlerFunc {
	do := func(ctx context.Context, r *http.Request, by string) (outcome, error) {
		if s.views == nil {
			return outcome{}, errNoViews
		}
		return outcome{done: done}, s.views.Edit(ctx, func(all []SavedView) ([]SavedView, error) { return edit(r, by, all) })
	}
	return func(w http.ResponseWriter, r *http.Request) {
		s.site.act(w, r, viewsPath, do, func(w http.ResponseWriter, refused *http.Request, status int, reason string) {
			p := s.page(refused, "Views", "")
			p.Problem = "Not done: " + reason + "."
			p.params.Set("of", r.PostFormValue("url"))
			p.typed["view"] = r.PostFormValue("view")
			s.serveViews(w, refused, status, p)
		})
	}
}

// save adds a view, or replaces the one with its name.
func (s viewsPage) save(r *http.Request, by string, all []SavedView) ([]SavedView, error) {
	v := SavedView{field(r, "view"), r.PostFormValue("url"), by, s.now().UTC()}
	scope := access.ScopeOf(r.Context())
	if err := errors.Join(checkViewName(v.Name), checkViewURL(v.URL)); err != nil {
		return nil, err
	}
	if !v.within(scope) {
		return nil, fmt.Errorf("you see %s: filter the page by one of them, service and environment, and save that", scope)
	}
	if slices.ContainsFunc(all, func(x SavedView) bool { return x.Name == v.Name && !x.within(scope) }) {
		return nil, fmt.Errorf("another view is called %q", v.Name)
	}
	all = without(all, v.Name)
	if len(all) >= maxViews {
		return nil, fmt.Errorf("there are %d views: delete one first", maxViews)
	}
	return sorted(append(all, v)), nil
}

// rename gives the view called old another name.
func (s viewsPage) rename(r *http.Request, _ string, all []SavedView) ([]SavedView, error) {
	name, old := field(r, "view"), r.PostFormValue("old")
	i := slices.IndexFunc(all, func(v SavedView) bool { return v.Name == old && v.within(access.ScopeOf(r.Context())) })
	switch {
	case i < 0:
		return nil, fmt.Errorf("there is no view %q any more", short(maxViewName, old))
	case checkViewName(name) != nil:
		return nil, checkViewName(name)
	case name != old && slices.ContainsFunc(all, func(v SavedView) bool { return v.Name == name }):
		return nil, fmt.Errorf("another view is called %q", name)
	}
	all = slices.Clone(all)
	all[i].Name = name
	return sorted(all), nil
}

func (s viewsPage) remove(r *http.Request, _ string, all []SavedView) ([]SavedView, error) {
	name := r.PostFormValue("old")
	if slices.ContainsFunc(all, func(v SavedView) bool { return v.Name == name && !v.within(access.ScopeOf(r.Context())) }) {
		return nil, fmt.Errorf("there is no view %q", short(maxViewName, name))
	}
	return without(all, name), nil
}

// within reports whether somebody with a scope may see v: it has filters that select what they see only.
func (v SavedView) within(scope *access.Scope) bool {
	u, err := url.Parse(v.URL)
	if scope.All() || err != nil {
		return scope.All()
	}
	services, environments := u.Query()["service"], u.Query()["environment"]
	if len(environments) == 0 {
		environments = []string{""}
	}
	for _, service := range services {
		for _, environment := range environments {
			named := map[string]string{"service": service, "environment": environment}
			maps.DeleteFunc(named, func(_, value string) bool { return value == "" })
			if !scope.Covers(named) {
				return false
			}
		}
	}
	return len(services) > 0
}

func without(all []SavedView, name string) []SavedView {
	return slices.DeleteFunc(slices.Clone(all), func(v SavedView) bool { return v.Name == name })
}

func sorted(all []SavedView) []SavedView {
	slices.SortFunc(all, func(a, b SavedView) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func checkViewName(name string) error {
	if name == "" || !utf8.ValidString(name) || utf8.RuneCountInString(name) > maxViewName || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("type a name of the view, of at most %d characters", maxViewName)
	}
	return nil
}

// checkViewURL returns an error if u is not the address of a page of this site.
func checkViewURL(u string) error {
	if u == "" || len(u) > maxViewURL || local(u) != u {
		return fmt.Errorf("a view is a page of this site, of at most %d characters", maxViewURL)
	}
	return nil
}

// Saving returns the URL of the page that saves this view, and lists the others.
func (v *View) Saving() string {
	return viewsPath + "?of=" + url.QueryEscape(v.Here("after", "", "format", ""))
}
