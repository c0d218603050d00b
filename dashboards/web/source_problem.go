package web

import (
	"context"
	"slices"
	"time"
)

// Problems are the defects of an installation, with what people have decided about them. They do not need ClickHouse.
type Problems interface {
	// All returns all problems, the last seen first.
	All(ctx context.Context) ([]Problem, error)
	// Problem returns a problem. For an unknown id, the error wraps ErrNotFound.
	Problem(ctx context.Context, id string) (*Problem, error)
	// Decide stores what a person decides about a problem. by is the name of the person. Its errors are shown to them.
	Decide(ctx context.Context, id string, d ProblemDecision, by string) error
}

// States of a Problem.
const (
	stateNew          = "new"
	stateOngoing      = "ongoing"
	stateAcknowledged = "acknowledged"
	stateRegressed    = "regressed"
	stateResolved     = "resolved"
	stateIgnored      = "ignored"
)

// A Problem is one defect of one stage.
type Problem struct {
	ID, Key                     string // Key is the group_key of the rows about it
	Service, Environment, Stage string
	Subject                     string // service and stage
	State                       string
	Severity                    string
	Summary                     string // of its worst alert, without the subject
	Cause                       string // root cause, else cause, else rule or signal
	Kind                        string // which of them it is
	Why, Fix                    string // Cause in words
	Measure, Direction          string // what is unusual, such as duration and high; Measure is empty if it is about failed calls or findings
	FirstSeen, LastSeen         time.Time
	Versions                    []string // with failures, in order of their first calls
	Rules                       []string // alert rules that found it
	Incidents                   int
	Firing, Muted               bool
	Unusual                     bool   // it is about what is unusual, which can be accepted as the new normal
	Findings                    bool   // its alerts count findings, not failed calls; false if none is known
	Alert                       string // id of the worst alert of the last incident
	FirstBad, LastClean         string // as of Alert
	FirstAt                     time.Time
	Exchange                    string // example; empty if there is none

	Alerts   []Alert   // of the last incident, as long as they are remembered
	Silences []Silence // that match it

	Assignee  string
	Assigned  *Decision
	Acked     *Decision
	Fixed     *Decision
	Regressed *Decision // the first failure that contradicts Fixed, in Version
	Ignored   *Decision
	Accepted  *Decision
}

// A Decision is who decided something about a problem, and when.
type Decision struct {
	By      string
	At      time.Time
	Version string    // of Fixed and Regressed; empty: all
	Until   time.Time // of Ignored
	Users   int       // of Ignored: it ends when so many more users are hit; 0: however many
	Hit     int       // of Ignored: how many of them were hit
}

// A ProblemDecision is what a person decides about a problem.
type ProblemDecision struct {
	Action   string    // assign, resolve, ignore, reopen, accept
	Assignee string    // of assign; empty: nobody
	Version  string    // of resolve: the version with the fix; empty: all
	Until    time.Time // of ignore; zero: for ever
	Users    int       // of ignore: ends it when so many more users are hit; 0: however many
	Note     string
}

// Open reports whether something is left to do: it is neither resolved nor ignored.
func (p Problem) Open() bool { return p.State != stateResolved && p.State != stateIgnored }

// Decided reports whether reopening would change something.
func (p Problem) Decided() bool { return p.Fixed != nil || p.State == stateIgnored }

// FiringAlert returns the alert with the id Alert if it fires, or else another that fires, or nil.
func (p Problem) FiringAlert() *Alert {
	fires := func(a Alert) bool { return a.EndsAt.IsZero() }
	i := slices.IndexFunc(p.Alerts, func(a Alert) bool { return fires(a) && a.ID == p.Alert })
	if i < 0 {
		i = slices.IndexFunc(p.Alerts, fires)
	}
	if i < 0 {
		return nil
	}
	return &p.Alerts[i]
}

// labels are the labels that filters see.
func (p Problem) labels() map[string]string {
	out := map[string]string{}
	for name, value := range map[string]string{"service": p.Service, "environment": p.Environment, "stage": p.Stage} {
		if value != "" {
			out[name] = value
		}
	}
	return out
}

// class returns the class of the verdict.
func (p Problem) class() string {
	switch {
	case p.State == stateResolved:
		return "ok"
	case p.State == stateIgnored:
		return "plain"
	case p.Firing && severe(p.Severity):
		return "critical"
	}
	return "warning"
}
