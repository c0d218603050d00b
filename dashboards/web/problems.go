package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

const problemsPath = "/problems"

// errNoProblems is the reason why a process without NATS shows no problems.
var errNoProblems = fmt.Errorf("problems are %w in this process", ErrUnavailable)

// A problemsPage lists the problems.
type problemsPage struct {
	*site
	problems Problems
}

// ServeHTTP serves the list.
func (s problemsPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.page(r, "Problems", problemsPath)
	p.Timeless = true
	s.serve(w, r, p, section{id: "problems", template: "problems", title: "Problems", load: func(ctx context.Context) (any, error) { return s.list(ctx, p.View) }})
}

// A problemList is the data of the list.
type problemList struct {
	Rows     []problemRow
	States   []Link // this list for the problems in a state
	Services []string
	Service  string // the only one that is shown; empty: all
	Total    int    // problems in all states
}

// A problemRow is a problem, as the viewer sees it.
type problemRow struct {
	Problem
	Words       string
	Began, Seen Time // FirstSeen and LastSeen
	Class       string
}

// URL returns the page of the problem.
func (p Problem) URL() string { return "/problem/" + p.ID }

func (v *View) problemRow(p Problem) problemRow {
	return problemRow{p, p.words(v), v.At(p.FirstSeen), v.At(p.LastSeen), p.class()}
}

// stateOpen are the states in which something is left to do.
const stateOpen = "open"

func (s problemsPage) list(ctx context.Context, v *View) (*problemList, error) {
	if s.problems == nil {
		return nil, errNoProblems
	}
	all, err := s.problems.All(ctx)
	if err != nil {
		return nil, err
	}
	out := &problemList{Service: v.Get("service")}
	for _, p := range all {
		if !slices.Contains(out.Services, p.Service) {
			out.Services = append(out.Services, p.Service)
		}
	}
	slices.Sort(out.Services)
	all = slices.DeleteFunc(all, func(p Problem) bool { return !v.shows(p.labels()) })
	out.Total = len(all)
	worstFirst(all)
	shown := cmp.Or(v.Get("state"), stateOpen)
	count := map[string]int{"all": len(all)}
	for _, p := range all {
		count[p.State]++
		if p.Open() {
			count[stateOpen]++
		}
		if shown == "all" || shown == p.State || shown == stateOpen && p.Open() {
			out.Rows = append(out.Rows, v.problemRow(p))
		}
	}
	for _, state := range []string{stateOpen, stateRegressed, stateNew, stateOngoing, stateAcknowledged, stateResolved, stateIgnored, "all"} {
		if count[state] > 0 || state == shown || state == stateOpen {
			out.States = append(out.States, Link{fmt.Sprintf("%s %d", capital(state), count[state]), v.Here("state", state), state == shown})
		}
	}
	return out, nil
}

// worstFirst sorts problems: those that fire, then by severity, then those that came back, then the last seen.
func worstFirst(all []Problem) {
	first := func(a, b bool) int {
		switch {
		case a == b:
			return 0
		case a:
			return -1
		}
		return 1
	}
	rank := func(p Problem) int {
		return slices.Index([]string{"info", "warning", "error", "critical"}, cmp.Or(map[string]string{"page": "critical"}[p.Severity], p.Severity))
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(first(a.Open(), b.Open()), first(a.Firing && !a.Muted, b.Firing && !b.Muted), cmp.Compare(rank(b), rank(a)),
			first(a.State == stateRegressed, b.State == stateRegressed), b.LastSeen.Compare(a.LastSeen))
	})
}

// problemOf returns the id of the problem that an alert is about; empty if it is about none, or the problem is not known any more.
// a is what is known of the alert; it may be nil.
func (s *incidentPage) problemOf(ctx context.Context, id string, a *Incident) string {
	if s.problems == nil {
		return ""
	}
	if a != nil && a.Problem != "" {
		if _, err := s.problems.Problem(ctx, a.Problem); !errors.Is(err, ErrNotFound) {
			return a.Problem
		}
		return ""
	}
	all, err := s.problems.All(ctx)
	if err != nil {
		return ""
	}
	i := slices.IndexFunc(all, func(p Problem) bool {
		return p.Alert == id || a != nil && a.Stored && a.Labels["service"] == p.Service && a.Labels["stage"] == p.Stage && a.Labels["environment"] == p.Environment &&
			slices.ContainsFunc(a.Causes, func(c CauseCount) bool { return c.ID == p.Cause }) // a row of a version that knew no problems
	})
	if i < 0 {
		return ""
	}
	return all[i].ID
}

// problemOfCause returns the id of the only problem with the service, the stage, the environment and the cause in v; empty if there
// is none.
func (s *incidentPage) problemOfCause(ctx context.Context, v *View) string {
	if s.problems == nil || v.Get("why") == "" {
		return ""
	}
	all, err := s.problems.All(ctx)
	if err != nil {
		return ""
	}
	id := ""
	for _, p := range all {
		if p.Cause != v.Get("why") || p.Service != v.Get("service") || p.Stage != v.Get("stage") || p.Environment != v.Get("environment") {
			continue
		}
		if id != "" {
			return ""
		}
		id = p.ID
	}
	return id
}
