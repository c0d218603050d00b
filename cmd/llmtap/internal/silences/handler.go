/*
Package silences serves and manages silences over HTTP.

	llmtap alerts silence ─> Add, List, Expire ─┐
	amtool, karma ──────────────────────────────┴─> guard of the listener ─> Handler ─> Source: the collector

The API is Alertmanager's, version 2, as far as its tools read alerts and manage silences. It accepts no alerts.
*/
package silences

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/dashboards/access"
)

// Path is the prefix of the paths of the Handler.
const Path = "/api/v2/"

// A Source has the silences of an installation.
type Source interface {
	// All returns all silences, including expired ones.
	All() []silence.Silence
	// SetSilence adds a silence without an id, and otherwise changes the one with this id.
	SetSilence(ctx context.Context, s silence.Silence, by alerts.Actor) (silence.Silence, error)
	ExpireSilence(ctx context.Context, id string, by alerts.Actor) error
	// Firing returns the open groups of alerts.
	Firing() []alerts.Group
}

// A Handler serves paths below Path. It does not control access.
type Handler struct {
	mux    *http.ServeMux
	source func() (Source, error)
	opts   Options
}

// Options describe the installation to clients.
type Options struct {
	Access  alerts.Access
	GroupBy []string  // labels that group alerts, besides the alert's name
	Version string    // of llmtap
	Started time.Time // of the process
}

// NewHandler returns a handler over the result of source, which fails while there is none.
func NewHandler(source func() (Source, error), o Options) *Handler {
	h := &Handler{mux: http.NewServeMux(), source: source, opts: o}
	handle := func(pattern string, serve func(Source, http.ResponseWriter, *http.Request) error) {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s, err := h.source()
			if err != nil {
				remote.WriteJSON(w, http.StatusServiceUnavailable, err.Error())
				return
			}
			if err := serve(s, w, r); err != nil {
				remote.WriteError(w, err)
			}
		})
	}
	handle("GET "+Path+"silences", h.list)
	handle("POST "+Path+"silences", h.set)
	handle("GET "+Path+"silence/{id}", h.get)
	handle("DELETE "+Path+"silence/{id}", h.expire)
	handle("GET "+Path+"alerts", h.alerts)
	handle("GET "+Path+"alerts/groups", h.groups)
	handle("GET "+Path+"receivers", h.receivers)
	handle("GET "+Path+"status", h.status)
	return h
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// A Silence is a silence in a response.
type Silence struct {
	silence.Silence
	Status Status `json:"status"`
}

// A Status contains the state of a silence.
type Status struct {
	State silence.State `json:"state"`
}

func withStatus(s silence.Silence, now time.Time) Silence {
	return Silence{s, Status{s.State(now)}}
}

// filters returns the matchers of the parameters filter.
func filters(r *http.Request) (silence.Matchers, error) {
	ms, err := silence.ParseMatchers(r.URL.Query()["filter"])
	if err != nil {
		return nil, &remote.RequestError{Status: http.StatusBadRequest, Err: fmt.Errorf("filter: %w", err)}
	}
	return ms, nil
}

// list returns the silences whose matchers match the filters: active, pending and expired ones, each in the order of their
// next change.
func (h *Handler) list(src Source, w http.ResponseWriter, r *http.Request) error {
	filter, err := filters(r)
	if err != nil {
		return err
	}
	now, out, scope := time.Now(), []Silence{}, access.ScopeOf(r.Context())
	for _, s := range src.All() {
		if !Within(scope, s.Matchers) {
			continue
		}
		values := map[string]string{}
		for _, m := range s.Matchers {
			values[m.Name] = m.Value
		}
		if filter.Match(values[model.AlertNameLabel], values) {
			out = append(out, withStatus(s, now))
		}
	}
	sortSilences(out)
	remote.WriteJSON(w, http.StatusOK, out)
	return nil
}

// Within reports whether silences with these matchers silence nothing but what scope has.
func Within(scope *access.Scope, matchers silence.Matchers) bool {
	named := map[string]string{}
	for _, m := range matchers {
		if m.Op() == "=" {
			named[m.Name] = m.Value
		}
	}
	return scope.Covers(named)
}

// Refusal returns why somebody with this scope may not set a silence with these matchers, or nil.
func Refusal(scope *access.Scope, matchers silence.Matchers) error {
	if Within(scope, matchers) {
		return nil
	}
	add := "service=NAME"
	if scope.Constrains("environment") {
		add += " environment=NAME"
	}
	return &alerts.InvalidError{Err: fmt.Errorf("it could cover more than %s, which you see: add %s", scope, add)}
}

// own returns a silence that the person of r sees.
func own(src Source, r *http.Request, id string) (silence.Silence, error) {
	for _, s := range src.All() {
		if s.ID == id && Within(access.ScopeOf(r.Context()), s.Matchers) {
			return s, nil
		}
	}
	return silence.Silence{}, alerts.ErrNoSilence
}

func sortSilences(list []Silence) {
	rank := map[silence.State]int{silence.Active: 0, silence.Pending: 1, silence.Expired: 2}
	slices.SortStableFunc(list, func(a, b Silence) int {
		switch state := a.Status.State; {
		case state != b.Status.State:
			return rank[state] - rank[b.Status.State]
		case state == silence.Pending:
			return a.StartsAt.Compare(b.StartsAt)
		case state == silence.Expired:
			return b.EndsAt.Compare(a.EndsAt)
		default:
			return a.EndsAt.Compare(b.EndsAt)
		}
	})
}

// set adds or changes a silence.
func (h *Handler) set(src Source, w http.ResponseWriter, r *http.Request) error {
	var s silence.Silence
	if err := remote.ReadJSON(w, r, "a silence", &s); err != nil {
		return err
	}
	by := remote.ActorOr(r, s.CreatedBy)
	s.CreatedBy = by.ID
	id := s.ID
	matchers, until := s.Matchers.String(), s.EndsAt
	scope := access.ScopeOf(r.Context())
	err := Refusal(scope, s.Matchers)
	if err == nil && id != "" && !scope.All() {
		_, err = own(src, r, id)
	}
	if err == nil {
		s, err = src.SetSilence(r.Context(), s, by)
	}
	access.Note(r.Context(), access.ChangeSilence, cmp.Or(s.ID, id), matchers+" until "+until.UTC().Format(time.RFC3339))
	if err != nil {
		return err
	}
	remote.WriteJSON(w, http.StatusOK, added{s.ID})
	return nil
}

// added is the response to a new silence.
type added struct {
	ID string `json:"silenceID"`
}

func (h *Handler) get(src Source, w http.ResponseWriter, r *http.Request) error {
	s, err := own(src, r, r.PathValue("id"))
	if err == nil {
		remote.WriteJSON(w, http.StatusOK, withStatus(s, time.Now()))
	}
	return err
}

func (h *Handler) expire(src Source, w http.ResponseWriter, r *http.Request) error {
	access.Note(r.Context(), access.ChangeSilence, r.PathValue("id"), "expire")
	if _, err := own(src, r, r.PathValue("id")); err != nil {
		return err
	}
	if err := src.ExpireSilence(r.Context(), r.PathValue("id"), remote.Actor(r)); err != nil {
		return err
	}
	remote.WriteJSON(w, http.StatusOK, struct{}{})
	return nil
}
