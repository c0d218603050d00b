/*
Package problems serves problems over HTTP, and shows and changes them on the command line.

	llmtap problems ─> List, Show, Decide ─> Client ─┐
	curl ────────────────────────────────────────────┴─> guard of the listener ─> Handler ─┐
	coding agent ──────────────────────────────────────────────────────────────────> Local ┴─> Source: the collector

Problems are stored in NATS, so all of this works while ClickHouse is down; only their history may then be incomplete.
*/
package problems

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/sinks"
)

// Path is the path of the list of problems. Those of single problems are below it.
const Path = "/api/v1/problems"

// Nobody is the assignee of a problem without one.
const Nobody = "nobody"

// A Source has the problems of an installation.
type Source interface {
	alerts.Problems
	// History returns what was done about the problem with a key, oldest first. missing says why some of it may be missing; it may be nil.
	History(ctx context.Context, key string) (rows []sinks.AlertAction, missing error)
}

// A Problem is a problem in a response.
type Problem struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Meaning string `json:"meaning"` // of the cause, in words
	alerts.Problem

	URL string `json:"url,omitempty"` // of the web page about it
}

// Details are a problem with its history.
type Details struct {
	Problem

	History []Action `json:"history"`                   // oldest first
	Missing string   `json:"history_missing,omitempty"` // why some of the history may be missing
}

// An Action is what somebody did about a problem.
type Action struct {
	At      time.Time `json:"at"`
	Action  string    `json:"action"` // as in the table alert_actions
	Refused bool      `json:"refused,omitempty"`
	By      string    `json:"by"`
	Via     string    `json:"via"` // slack, api
	Until   time.Time `json:"until,omitzero"`
	Comment string    `json:"comment,omitempty"`
}

// states are the states of problems, in the order of a list.
var states = []string{
	alerts.ProblemRegressed, alerts.ProblemNew, alerts.ProblemOngoing, alerts.ProblemAcknowledged, alerts.ProblemResolved, alerts.ProblemIgnored,
}

// Closed reports whether a problem in this state needs nobody.
func Closed(state string) bool {
	return state == alerts.ProblemResolved || state == alerts.ProblemIgnored
}

// A Filter selects problems: those with one of the values of each field, which are all if there are none.
type Filter struct{ Service, Environment, Stage, State, Assignee []string }

// fields returns the values of f, by parameter.
func (f *Filter) fields() map[string]*[]string {
	return map[string]*[]string{"service": &f.Service, "environment": &f.Environment, "stage": &f.Stage, "state": &f.State, "assignee": &f.Assignee}
}

// Validate returns an error if a problem can have no such state.
func (f *Filter) Validate() error {
	for _, s := range f.State {
		if !slices.Contains(states, s) {
			return fmt.Errorf("state: %.50q is not one of %s", s, strings.Join(states, ", "))
		}
	}
	return nil
}

// values returns the parameters of a request.
func (f *Filter) values() url.Values {
	v := url.Values{}
	for name, values := range f.fields() {
		v[name] = *values
	}
	return v
}

// filterOf returns the filter of a request.
func filterOf(v url.Values) (f Filter, err error) {
	fields := f.fields()
	for name, values := range v {
		if fields[name] == nil {
			return f, fmt.Errorf("unknown parameter %.50q: the parameters are service, environment, stage, state and assignee", name)
		}
		*fields[name] = values
	}
	return f, f.Validate()
}

func (f *Filter) matches(p *Problem) bool {
	has := func(values []string, value string) bool { return len(values) == 0 || slices.Contains(values, value) }
	return has(f.Service, p.Service) && has(f.Environment, p.Environment) && has(f.Stage, p.Stage) && has(f.State, p.State) &&
		has(f.Assignee, cmp.Or(p.Assignee, Nobody))
}

// An API reads the problems of an installation.
type API interface {
	// List returns the problems that match f, those that need somebody first.
	List(ctx context.Context, f Filter) ([]Problem, error)
	// Get returns one with its history. The error is alerts.ErrNoProblem, in words at least, if there is none.
	Get(ctx context.Context, id string) (Details, error)
	// Decide stores what a person decides about the problem with an id, and returns the problem. Its errors are those of Get, and
	// alerts.InvalidError, in words at least.
	Decide(ctx context.Context, id string, d alerts.ProblemDecision, by alerts.Actor) (Problem, error)
}

// A Local is the API of a Source in this process.
type Local struct {
	Source Source
	Pages  string // base URL of the web pages, or ""
}

var _ API = Local{}

// List implements API.
func (l Local) List(ctx context.Context, f Filter) ([]Problem, error) {
	now, out, scope := time.Now(), []Problem{}, access.ScopeOf(ctx)
	for _, p := range l.Source.All() {
		if x := l.problem(p, now); scope.Sees(p.Labels()) && f.matches(&x) {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b Problem) int { return slices.Index(states, a.State) - slices.Index(states, b.State) })
	return out, nil
}

// Get implements API.
func (l Local) Get(ctx context.Context, id string) (Details, error) {
	p, err := l.get(ctx, id)
	if err != nil {
		return Details{}, err
	}
	d := Details{Problem: l.problem(p, time.Now()), History: []Action{}}
	rows, missing := l.Source.History(ctx, p.Key)
	if missing != nil {
		d.Missing = missing.Error()
	}
	silenced := map[string]bool{} // ids of silences that ignore the problem, which the row about that says
	for _, r := range rows {
		if r.Action == alerts.ActionIgnore {
			silenced[r.SilenceID] = true
		}
	}
	for _, r := range rows {
		if r.Action == alerts.ActionIgnore || !silenced[r.SilenceID] {
			d.History = append(d.History, Action{r.At, r.Action, r.Refused, cmp.Or(r.ActorName, r.Actor), r.Via, r.EndsAt, r.Comment})
		}
	}
	return d, nil
}

// get returns a problem that the person of ctx sees.
func (l Local) get(ctx context.Context, id string) (alerts.Problem, error) {
	p, ok, err := l.Source.Get(ctx, id)
	if err == nil && (!ok || !access.ScopeOf(ctx).Sees(p.Labels())) {
		err = alerts.ErrNoProblem
	}
	return p, err
}

// Decide implements API.
func (l Local) Decide(ctx context.Context, id string, d alerts.ProblemDecision, by alerts.Actor) (Problem, error) {
	if _, err := l.get(ctx, id); err != nil {
		return Problem{}, err
	}
	p, err := l.Source.Decide(ctx, id, d, by)
	if err != nil {
		return Problem{}, err
	}
	return l.problem(p, time.Now()), nil
}

func (l Local) problem(p alerts.Problem, now time.Time) Problem {
	kind, text, fix := wording.Problem(p.Cause, p.Guessed)
	p.Kind, p.Fix = cmp.Or(p.Kind, kind), cmp.Or(p.Fix, fix)
	return Problem{p.ID(), p.State(now), text, p, wording.ProblemURL(l.Pages, p.ID())}
}

// A Handler serves Path and the paths below it. It does not control access.
type Handler struct {
	mux    *http.ServeMux
	source func() (Source, error)
}

// NewHandler returns a handler over the result of source, which fails while there is none. Links lead to the web pages that the
// header remote.PagesHeader of the response names.
func NewHandler(source func() (Source, error)) *Handler {
	h := &Handler{mux: http.NewServeMux(), source: source}
	handle := func(pattern string, serve func(Local, http.ResponseWriter, *http.Request) (any, error)) {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			src, err := h.source()
			if err != nil {
				remote.WriteJSON(w, http.StatusServiceUnavailable, err.Error())
				return
			}
			answer, err := serve(Local{src, w.Header().Get(remote.PagesHeader)}, w, r)
			if err != nil {
				remote.WriteError(w, err)
				return
			}
			remote.WriteJSON(w, http.StatusOK, answer)
		})
	}
	handle("GET "+Path, func(l Local, _ http.ResponseWriter, r *http.Request) (any, error) {
		f, err := filterOf(r.URL.Query())
		if err != nil {
			return nil, &remote.RequestError{Status: http.StatusBadRequest, Err: err}
		}
		return l.List(r.Context(), f)
	})
	handle("GET "+Path+"/{id}", func(l Local, _ http.ResponseWriter, r *http.Request) (any, error) {
		return l.Get(r.Context(), r.PathValue("id"))
	})
	handle("POST "+Path+"/{id}", decide)
	return h
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// decide stores the decision in r.
func decide(l Local, w http.ResponseWriter, r *http.Request) (any, error) {
	var d alerts.ProblemDecision
	if err := remote.ReadJSON(w, r, "a decision", &d); err != nil {
		return nil, err
	}
	by := remote.Actor(r)
	if strings.TrimSpace(by.ID) == "" {
		return nil, &remote.RequestError{Status: http.StatusBadRequest, Err: errors.New("the header " + remote.HeaderActor + " is required: others want to know who decided")}
	}
	access.Note(r.Context(), access.ChangeProblem, r.PathValue("id"), d.Action)
	return l.Decide(r.Context(), r.PathValue("id"), d, by)
}
