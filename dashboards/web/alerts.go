package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
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

func (s alertsPage) rules(ctx context.Context) (any, error) {
	if s.controls == nil {
		return nil, errNoControls
	}
	return s.controls.Rules(ctx)
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
