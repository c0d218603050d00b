package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/quantity"
)

const alertsPath = "/alerts"

// alertRange is the default time range of the history of alerts: an hour rarely contains one.
const alertRange = "7d"

// An alertsPage shows alerts, rules and silences, and changes what people do about alerts.
type alertsPage struct {
	*site
	store
	firing   Firing
	controls Controls // nil: none
}

// ServeHTTP serves the page of the alerts that fire and of those that ended.
func (s alertsPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serveAlerts(w, r, http.StatusOK, s.pageSince(r, "Alerts", alertsPath, alertRange))
}

func (s alertsPage) serveAlerts(w http.ResponseWriter, r *http.Request, status int, p *page) {
	s.serveStatus(w, r, status, p,
		section{id: "now", template: "alerts-now", load: func(ctx context.Context) (any, error) { return s.firing.now(ctx, p.View) }},
		section{id: "silences", template: "alerts-silences", title: "Silences", load: func(ctx context.Context) (any, error) { return s.silences(ctx, p.View) }},
		section{id: "rules", template: "alerts-rules", title: "Rules", load: s.rules},
		section{id: "history", template: "alerts-history", title: "History", load: func(ctx context.Context) (any, error) { return s.history(ctx, p.View) }},
	)
}

// errNoControls is the reason why a process without NATS shows neither rules nor silences.
var errNoControls = fmt.Errorf("rules and silences are %w in this process", ErrUnavailable)

// A ruleList are the rules by whether they need attention.
type ruleList struct{ Loud, Quiet []Rule }

func (s alertsPage) rules(ctx context.Context) (any, error) {
	if s.controls == nil {
		return nil, errNoControls
	}
	all, err := s.controls.Rules(ctx)
	var out ruleList
	for _, r := range all {
		if r.Firing+r.Pending > 0 {
			out.Loud = append(out.Loud, r)
		} else {
			out.Quiet = append(out.Quiet, r)
		}
	}
	return out, err
}

// Words returns a value of the rule with its unit, as far as the expression shows it.
func (r Rule) Words(v float64) string {
	switch of := r.Measured; {
	case strings.HasPrefix(strings.TrimLeft(of, "("), "100 * "):
		return measure(v) + "%"
	case strings.Contains(of, " / ") && strings.Contains(of, "llmtap_calls_total"):
		return measure(100*v) + "% of calls"
	case strings.Contains(of, "_ratio"):
		return measure(100*v) + "%"
	case strings.Contains(of, "_seconds)"):
		return quantity.Span(time.Duration(v * float64(time.Second)))
	}
	return measure(v)
}

// Fires returns when the rule fires, in words: "above 30%".
func (r Rule) Fires() string {
	words, ok := map[string]string{">": "above ", ">=": "at ", "<": "below ", "<=": "at most ", "==": "at exactly ", "!=": "at anything but "}[r.Op]
	if !ok {
		return ""
	}
	text := words + r.Words(r.Threshold)
	if r.Op == ">=" {
		text += " or more"
	}
	return text
}

// A silenceList is the data of the section of silences.
type silenceList struct {
	List      []Silence
	Elsewhere string
	Only      bool // silences made here have no effect
}

func (s alertsPage) silences(ctx context.Context, _ *View) (any, error) {
	if s.controls == nil {
		return nil, errNoControls
	}
	var out silenceList
	var err error
	if out.Elsewhere, out.Only = s.controls.Elsewhere(); out.Only {
		return out, nil
	}
	out.List, err = s.controls.Silences(ctx)
	return out, err
}

// A pastAlert is a row of the history of alerts.
type pastAlert struct {
	Name, Severity, State, Subject, Summary, SilencedBy string
	Started, Ended                                      Time
	URL                                                 string
}

func (s alertsPage) history(ctx context.Context, v *View) ([]pastAlert, error) {
	rows, err := s.query(ctx, "alert_history", v.values(), v.Now)
	if err != nil {
		return nil, err
	}
	out := make([]pastAlert, len(rows))
	for i, r := range rows {
		labels, _ := r["labels"].(map[string]string)
		out[i] = pastAlert{
			Name: r.Text("name"), Severity: r.Text("severity"), State: r.Text("state"), Summary: withoutSubject(labels, r.Text("summary")), SilencedBy: r.Text("silenced_by"),
			Subject: aboutRow(labels, r.Text("name")), Started: v.At(r.Time("started_at")), URL: "/incident/" + url.PathEscape(r.Text("alert_id")),
		}
		if out[i].State != "firing" {
			out[i].Ended = v.At(r.Time("ended_at"))
		}
	}
	return out, nil
}
