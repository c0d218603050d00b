package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
)

const alertsPath = "/alerts"

// alertRange is the default time range of the history of alerts: an hour rarely contains one.
const alertRange = "7d"

// alerts serves the page of the alerts that fire and of those that ended.
func (s *server) alerts(w http.ResponseWriter, r *http.Request) {
	s.serveAlerts(w, r, http.StatusOK, s.pageSince(r, "Alerts", alertsPath, alertRange))
}

func (s *server) serveAlerts(w http.ResponseWriter, r *http.Request, status int, p *page) {
	s.serveStatus(w, r, status, p,
		section{id: "now", template: "alerts-now", load: func(ctx context.Context) (any, error) { return s.fleetNow(ctx, p.View) }},
		section{id: "silences", template: "alerts-silences", title: "Silences", load: func(ctx context.Context) (any, error) { return s.silences(ctx, p.View) }},
		section{id: "rules", template: "alerts-rules", title: "Rules", load: s.rules},
		section{id: "history", template: "alerts-history", title: "History", load: func(ctx context.Context) (any, error) { return s.alertHistory(ctx, p.View) }},
	)
}

// errNoControls is the reason why a process without NATS shows neither rules nor silences.
var errNoControls = fmt.Errorf("rules and silences are %w in this process", ErrUnavailable)

func (s *server) rules(ctx context.Context) (any, error) {
	if s.Controls == nil {
		return nil, errNoControls
	}
	return s.Controls.Rules(ctx)
}

// A silenceList is the data of the section of silences.
type silenceList struct {
	List      []Silence
	Elsewhere string
	Only      bool // silences made here have no effect
}

func (s *server) silences(ctx context.Context, _ *View) (any, error) {
	if s.Controls == nil {
		return nil, errNoControls
	}
	var out silenceList
	var err error
	if out.Elsewhere, out.Only = s.Controls.Elsewhere(); out.Only {
		return out, nil
	}
	out.List, err = s.Controls.Silences(ctx)
	return out, err
}

// A pastAlert is a row of the history of alerts.
type pastAlert struct {
	Name, Severity, State, Subject, Summary, SilencedBy string
	Started, Ended                                      Time
	URL                                                 string
}

func (s *server) alertHistory(ctx context.Context, v *View) ([]pastAlert, error) {
	rows, err := s.query(ctx, "alert_history", v.values(), v.Now)
	if err != nil {
		return nil, err
	}
	out := make([]pastAlert, len(rows))
	for i, r := range rows {
		labels, _ := r["labels"].(map[string]string)
		out[i] = pastAlert{
			Name: r.text("name"), Severity: r.text("severity"), State: r.text("state"), Summary: r.text("summary"), SilencedBy: r.text("silenced_by"),
			Subject: cmp.Or(labels["provider"], r.text("name")), Started: v.At(r.time("started_at")), URL: "/incident/" + url.PathEscape(r.text("alert_id")),
		}
		if labels["service"]+labels["stage"] != "" {
			out[i].Subject = subject(labels["service"], labels["stage"])
		}
		if out[i].State != "firing" {
			out[i].Ended = v.At(r.time("ended_at"))
		}
	}
	return out, nil
}
