package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
)

// alertRange is the default time range of the history of alerts: an hour rarely contains one.
const alertRange = "7d"

// alerts serves the page of the alerts that fire and of those that ended.
func (s *server) alerts(w http.ResponseWriter, r *http.Request) {
	p := s.pageSince(r, "Alerts", "/alerts", alertRange)
	s.serve(w, r, p,
		section{id: "now", template: "fleet-now", load: func(ctx context.Context) (any, error) { return s.fleetNow(ctx, p.View) }},
		section{id: "history", template: "alerts-history", title: "History", load: func(ctx context.Context) (any, error) { return s.alertHistory(ctx, p.View) }},
	)
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
