package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const (
	// sectionTimeout bounds the time for one section, so that a slow statement does not hold a page.
	sectionTimeout = 15 * time.Second
	// flushAfter is the time after which what is known is sent although the rest is still being read.
	flushAfter = 50 * time.Millisecond
)

// fragmentHeader is set by the script when it refreshes a page: the answer then contains only the sections.
const fragmentHeader = "Llmtap-Fragment"

// A section is one part of a page. Sections are loaded concurrently and sent in order.
type section struct {
	id       string // of the element
	template string
	title    string // heading; the template may show it in another form
	load     func(ctx context.Context) (any, error)
}

// A page is the data of the frame around the sections.
type page struct {
	*View
	Title     string
	Active    string // path of the current entry of the navigation
	Form      string // value of the hidden field of forms
	Login     bool   // a session can be ended
	Version   string
	Static    bool // neither a time range nor filters apply
	Timeless  bool // no time range applies
	Own       bool // the page has a form with the filters
	Still     bool // not refreshed: it shows the answer to one question
	Tail      bool // refreshed every 2 seconds
	Problem   string
	Notice    string // what the person has just done
	Person    access.Person
	Scope     *access.Scope
	Who       string            // the name that the person has typed, if it is known
	Elsewhere string            // where alerts are silenced if silences made here have no effect
	typed     map[string]string // values of fields of a form that was refused
	begun     bool              // the frame was sent
}

// Acts reports whether the person may acknowledge, silence and decide.
func (p *page) Acts() bool { return p.Person.Role >= access.Responder }

// Role returns the role of the person, and of which teams they are if they see the services of these only.
func (p *page) Role() string {
	if p.Scope.All() {
		return p.Person.Role.String()
	}
	return p.Person.Role.String() + " of " + strings.Join(p.Scope.Teams, ", ")
}

// Admin reports whether the person may read the audit.
func (p *page) Admin() bool { return p.Person.Role >= access.Admin }

// Typed returns what the person has typed into a field of a form that was refused.
func (p *page) Typed(field string) string { return p.typed[field] }

// navigation lists the pages in the order of the navigation.
var navigation = []Link{
	{Text: "Problems", URL: problemsPath},
	{Text: "Fleet", URL: "/"},
	{Text: "Calls", URL: trafficPath + "calls"},
	{Text: "Alerts", URL: "/alerts"},
	{Text: "Versions", URL: "/versions"},
	{Text: "Tool calls", URL: "/calls"},
	{Text: "Providers", URL: "/providers"},
	{Text: "Explore", URL: explorePath},
}

// Nav returns the entries of the navigation.
func (p *page) Nav() []Link {
	var out []Link
	for _, l := range navigation {
		out = append(out, Link{l.Text, p.With(l.URL), l.URL == p.Active})
	}
	return out
}

// sectionData is the data of a section's template.
type sectionData struct {
	Page      *page
	ID, Title string
	Data      any
	Err       string // what could not be read, and what to do
	Down      bool   // Err is about a source that does not answer now
}

// assetHash changes with the style sheet and the script.
var assetHash = func() string {
	h := sha256.New()
	_ = fs.WalkDir(staticFiles, ".", func(path string, _ fs.DirEntry, _ error) error {
		b, _ := fs.ReadFile(staticFiles, path) // a directory has no content
		h.Write(b)
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)[:6])
}()

// A site is what all pages share.
type site struct {
	templates  *template.Template
	sessions   sessions
	gate       access.Gate
	now        func() time.Time
	flushAfter time.Duration
	version    string
	elsewhere  func() (text string, only bool) // as in Controls; nil if there are none
	logger     *slog.Logger
	hashUser   func(name string) []string // as in Options
}

// serve writes a page. Sections are loaded and rendered concurrently; a page that takes longer than flushAfter is sent in parts.
func (s *site) serve(w http.ResponseWriter, r *http.Request, p *page, sections ...section) {
	s.serveStatus(w, r, http.StatusOK, p, sections...)
}

// serveStatus is serve with another status.
func (s *site) serveStatus(w http.ResponseWriter, r *http.Request, status int, p *page, sections ...section) {
	p.Form, p.Login, p.Version = s.sessions.form(r), s.gate.Closed, s.version
	ctx, cancel := context.WithTimeout(r.Context(), sectionTimeout)
	defer cancel()
	results := make([]chan []byte, len(sections))
	var all sync.WaitGroup
	for i, sec := range sections {
		results[i] = make(chan []byte, 1)
		all.Go(func() {
			var part bytes.Buffer
			s.execute(&part, sec.template, s.load(ctx, p, sec)) // hundreds of messages take long, too
			results[i] <- part.Bytes()
		})
	}
	defer all.Wait() // the sections read from ctx
	var out bytes.Buffer
	fragment := r.Header.Get(fragmentHeader) != ""
	if !p.begun {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		if !fragment {
			s.execute(&out, "head", p)
		}
	}
	if !fragment {
		s.execute(&out, "top", p)
	}
	flush := time.NewTimer(s.flushAfter)
	defer flush.Stop()
	late := p.begun
	for i, sec := range sections {
		var part []byte
		ready := true
		select {
		case part = <-results[i]:
		default:
			ready = false
		}
		if !ready && !late {
			select {
			case part = <-results[i]:
				ready = true
			case <-flush.C:
				late = true
			}
		}
		if !ready {
			if !fragment {
				s.execute(&out, "pending", sectionData{Page: p, Title: sec.title})
				if !send(w, &out) {
					return
				}
			}
			part = <-results[i]
		}
		out.Write(part)
	}
	if !fragment {
		s.execute(&out, "foot", p)
	}
	_, _ = out.WriteTo(w) // the client has left
}

// send sends out now, and reports whether the client is still there. A writer that cannot flush sends everything at the end.
func send(w http.ResponseWriter, out *bytes.Buffer) bool {
	if _, err := out.WriteTo(w); err != nil {
		return false
	}
	_ = http.NewResponseController(w).Flush()
	return true
}

// await calls f, whose result decides what the page shows. If f takes longer than flushAfter, the frame of the page is sent
// meanwhile; its status is then 200, whatever f returns.
func await[T any](s *site, w http.ResponseWriter, r *http.Request, p *page, f func() T) T {
	done := make(chan T, 1)
	go func() { done <- f() }()
	select {
	case v := <-done:
		return v
	case <-time.After(s.flushAfter):
	}
	if !p.begun && r.Header.Get(fragmentHeader) == "" {
		p.Form, p.Login, p.Version = s.sessions.form(r), s.gate.Closed, s.version
		var out bytes.Buffer
		s.execute(&out, "head", p)
		s.execute(&out, "pending", sectionData{Page: p, Title: p.Title})
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		send(w, &out)
		p.begun = true
	}
	return <-done
}

// load loads a section. Its error becomes the section's text.
func (s *site) load(ctx context.Context, p *page, sec section) (d sectionData) {
	d = sectionData{Page: p, ID: sec.id, Title: sec.title}
	if sec.load == nil {
		return d
	}
	var err error
	d.Data, err = sec.load(ctx)
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded):
		d.Err = "This took longer than " + quantity.Span(sectionTimeout) + ". Choose a shorter time range, or a filter."
	case errors.Is(err, ErrUnavailable):
		d.Err, d.Down = err.Error(), true
	default:
		d.Err = err.Error()
		if ctx.Err() == nil && !errors.Is(err, ErrNotFound) {
			s.logger.Error("cannot load a section of a page", "path", p.Path, "section", sec.id, "error", err)
		}
	}
	return d
}

// execute appends a template's output to out. A template that fails is a defect; the rest of the page is still useful.
func (s *site) execute(out *bytes.Buffer, name string, data any) {
	n := out.Len()
	if err := s.templates.ExecuteTemplate(out, name, data); err != nil {
		out.Truncate(n)
		s.logger.Error("cannot render a part of a page", "template", name, "error", err)
		out.WriteString(`<p class="problem">This part of the page cannot be shown; the log of llmtap has the reason.</p>`)
	}
	labelled := labelCells(out.Bytes()[n:])
	out.Truncate(n)
	out.Write(labelled)
}

// write writes a page without sections.
func (s *site) write(w http.ResponseWriter, status int, name string, data any) {
	var out bytes.Buffer
	s.execute(&out, name, data)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = out.WriteTo(w) // the client has left
}

// page returns the frame of a page. Invalid parameters are shown on the page, which then uses the defaults.
func (s *site) page(r *http.Request, title, active string) *page {
	return s.pageSince(r, title, active, defaultRange)
}

// pageSince is page with another default of the time range.
func (s *site) pageSince(r *http.Request, title, active, since string) *page {
	v, err := newViewSince(r, s.now(), since)
	v.hashUser = s.hashUser
	p := &page{View: v, Person: access.From(r.Context()), Scope: access.ScopeOf(r.Context()), Title: title, Active: active, Notice: notice(v), typed: map[string]string{}}
	if s.elsewhere != nil {
		if text, only := s.elsewhere(); only {
			p.Elsewhere = text
		}
	}
	if err != nil {
		p.Problem = err.Error()
	}
	if c, err := r.Cookie(nameCookie); err == nil {
		if name, err := url.QueryUnescape(c.Value); err == nil && len(name) <= maxName {
			p.Who = name
		}
	}
	return p
}

func (s *site) notFound(w http.ResponseWriter, r *http.Request) {
	p := s.page(r, "Not found", "")
	p.Static = true
	s.serveStatus(w, r, http.StatusNotFound, p, section{id: "missing", template: "missing", title: "There is no such page"})
}
