package web

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/dashboards/queries"
)

// defaultRange is the time range of a page whose URL names none.
const defaultRange = "1h"

// ranges are the time ranges offered on every page, all until now.
var ranges = []string{"15m", "1h", "6h", "24h", "7d", "30d"}

// filterNames are the parameters of a URL that restrict all statements of a page, in display order.
var filterNames = []string{"service", "stage", "environment", "version", "provider", "model", "status", "user", "attr"}

// callFilters are the parameters that restrict lists of calls, besides filterNames.
var callFilters = []string{"failed", "cause", "tool", "seconds", "tokens", "cost", "text", "conversation", "run"}

// zoneCookie is the cookie in which the script stores the time zone of the browser.
const zoneCookie = "llmtap_zone"

// A View is the state of a page: its path and the parameters of its URL.
type View struct {
	Path     string
	Range    string    // relative time range; empty if From and To are set by the URL
	From, To time.Time // in UTC
	Now      time.Time
	Zone     *time.Location // of the viewer
	params   url.Values
	hashUser func(name string) []string // labels of a user with this name; nil: names are not known
}

// newView returns the view of a request, or an error about its parameters.
func newView(r *http.Request, now time.Time) (*View, error) {
	return newViewSince(r, now, defaultRange)
}

// newViewSince is newView for a page with another default of the time range.
func newViewSince(r *http.Request, now time.Time, since string) (*View, error) {
	v := &View{Path: r.URL.Path, Now: now.UTC(), To: now.UTC(), Zone: time.UTC, params: r.URL.Query()}
	if c, err := r.Cookie(zoneCookie); err == nil && len(c.Value) < 64 {
		if name, err := url.QueryUnescape(c.Value); err == nil && name != "Local" {
			if zone, err := time.LoadLocation(name); err == nil {
				v.Zone = zone
			}
		}
	}
	now = now.In(v.Zone)
	var err error
	from, to := v.params.Get("from"), v.params.Get("to")
	if to != "" {
		if v.To, err = queries.ParseTime(to, now); err != nil {
			return v.reset(), fmt.Errorf("to: %w", err)
		}
	}
	if from == "" {
		from = v.params.Get("range")
		if from == "" {
			from = since
		}
		if to == "" {
			v.Range = from
		} else {
			now = v.To
		}
	}
	if v.From, err = queries.ParseTime(from, now); err != nil {
		return v.reset(), fmt.Errorf("time range: %w", err)
	}
	if !v.From.Before(v.To) {
		return v.reset(), fmt.Errorf("the time range ends (%s) before it begins (%s)", v.To.Format(time.RFC3339), v.From.Format(time.RFC3339))
	}
	return v, nil
}

// reset returns v with the default time range, so that the page of an error has valid links.
func (v *View) reset() *View {
	v.Range, v.From, v.To = defaultRange, v.Now.Add(-time.Hour), v.Now
	for _, name := range []string{"from", "to", "range"} {
		v.params.Del(name)
	}
	return v
}

// Live reports whether the page shows the newest data.
func (v *View) Live() bool { return v.Range != "" }

// A Field is a hidden field of a form.
type Field struct{ Name, Value string }

// Fields returns the parameters of the URL except for these, for a form that changes these.
func (v *View) Fields(except ...string) []Field {
	var out []Field
	for _, name := range slices.Sorted(maps.Keys(v.params)) {
		for _, value := range v.params[name] {
			if value != "" && !slices.Contains(except, name) {
				out = append(out, Field{name, value})
			}
		}
	}
	return out
}

// Get returns a parameter of the URL.
func (v *View) Get(name string) string { return v.params.Get(name) }

// values are the parameters of statements: the time range and the filters.
func (v *View) values() queries.Values {
	out := queries.Values{"since": {v.From.Format(time.RFC3339Nano)}, "until": {v.To.Format(time.RFC3339Nano)}}
	if v.Live() {
		delete(out, "until") // the clock of an agent may be fast
	}
	for _, name := range filterNames {
		if all := slices.DeleteFunc(slices.Clone(v.params[name]), func(s string) bool { return s == "" }); len(all) > 0 {
			out[name] = all
		}
	}
	if v.hashUser != nil {
		for _, name := range out["user"] { // a hash, or the name of a person as hooks hash it
			out["user"] = append(out["user"], v.hashUser(name)...)
		}
	}
	return out
}

// A Filter is a filter that is set, and the URL without it.
type Filter struct{ Name, Value, Without string }

// Filters returns the filters that are set.
func (v *View) Filters() []Filter {
	var out []Filter
	for _, name := range v.barNames() {
		for i, value := range v.params[name] {
			if value == "" {
				continue
			}
			rest := maps.Clone(v.params)
			rest[name] = slices.Delete(slices.Clone(rest[name]), i, i+1)
			out = append(out, Filter{name, value, v.Path + encode(rest)})
		}
	}
	return out
}

// A barField is a field of the filter bar.
type barField struct {
	Name, Value, Example string
	Suggested            bool
}

// barExamples are what the fields of the filter bar show until something is entered.
var barExamples = map[string]string{
	"status": "400, 4xx", "attr": "tenant=acme", "user": "name or hash", "failed": "yes, no", "seconds": "10, <10", "tokens": "10000, <10000", "cost": "0.50: dollars, or more",
	"text": "whole words",
}

// ofCalls reports whether callFilters apply to a page.
func ofCalls(path string) bool {
	return strings.HasPrefix(path, trafficPath) || path == explorePath || strings.HasPrefix(path, explorePath+"/calls")
}

// barNames are the filters that apply to the page.
func (v *View) barNames() []string {
	if ofCalls(v.Path) {
		return slices.Concat(filterNames, callFilters)
	}
	return filterNames
}

// Bar returns the fields of the filter bar. Further values of a filter, and further attributes, are among Rest.
func (v *View) Bar() []barField { return v.bar(v.barNames()) }

// CallsBar returns the fields of the filters that restrict only lists of calls, for a page that is none.
func (v *View) CallsBar() []barField {
	if len(v.barNames()) > len(filterNames) {
		return nil
	}
	return v.bar(callFilters)
}

// Kept returns the parameters of the URL that links to other pages keep.
func (v *View) Kept() []Field {
	return slices.DeleteFunc(v.Fields(), func(f Field) bool { return !slices.Contains(keptParams, f.Name) })
}

func (v *View) bar(names []string) []barField {
	var out []barField
	for _, name := range names {
		f := barField{Name: name, Example: barExamples[name], Suggested: slices.Contains(suggested, name)}
		if name != "attr" { // another attribute restricts further
			f.Value = v.params.Get(name)
		}
		out = append(out, f)
	}
	return out
}

// Rest returns the parameters of the URL that the filter bar does not contain.
func (v *View) Rest() []Field {
	out := v.Fields(append(v.barNames(), "after", "format")...)
	for _, name := range v.barNames() {
		all := v.params[name]
		if name != "attr" {
			all = all[min(1, len(all)):]
		}
		for _, value := range all {
			out = append(out, Field{name, value})
		}
	}
	return out
}

// keptParams are the parameters that links to other pages keep.
var keptParams = append([]string{"range", "from", "to"}, filterNames...)

// With returns the URL of a page with the time range and the filters of v, and further parameters as names and values. An empty
// value removes a parameter.
func (v *View) With(path string, pairs ...string) string {
	p := url.Values{}
	for _, name := range keptParams {
		if path == v.Path || slices.Contains(keptParams, name) {
			p[name] = slices.Clone(v.params[name])
		}
	}
	if ofCalls(path) || path == timelinePath {
		for _, name := range callFilters {
			p[name] = slices.Clone(v.params[name])
		}
	}
	if path == v.Path {
		for name, values := range v.params {
			p[name] = slices.Clone(values)
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		p.Set(pairs[i], pairs[i+1])
	}
	return path + encode(p)
}

// Calls returns the URL of the list of calls with the time range and the filters of v, and further filters as in With.
func (v *View) Calls(pairs ...string) string { return v.With(trafficPath+"calls", pairs...) }

// Here returns the URL of this page with other parameters, as in With.
func (v *View) Here(pairs ...string) string { return v.With(v.Path, pairs...) }

// Span returns the URL of this page for another time range.
func (v *View) Span(from, to time.Time) string {
	return v.Here("range", "", "from", from.UTC().Format(time.RFC3339), "to", to.UTC().Format(time.RFC3339))
}

// Ranges returns the offered time ranges.
func (v *View) Ranges() []Link {
	var out []Link
	for _, r := range ranges {
		out = append(out, Link{r, v.Here("range", r, "from", "", "to", ""), v.Range == r})
	}
	return out
}

// A Link is a link of a navigation.
type Link struct {
	Text, URL string
	Current   bool
}

// encode returns the query part of a URL, without empty parameters.
func encode(p url.Values) string {
	p = maps.Clone(p)
	maps.DeleteFunc(p, func(_ string, values []string) bool { return strings.Join(values, "") == "" })
	if len(p) == 0 {
		return ""
	}
	return "?" + p.Encode()
}
