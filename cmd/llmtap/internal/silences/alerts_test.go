package silences

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

type source []alerts.Group

func (s source) All() []silence.Silence { return nil }

func (s source) SetSilence(_ context.Context, x silence.Silence, _ alerts.Actor) (silence.Silence, error) {
	return x, nil
}

func (s source) ExpireSilence(context.Context, string, alerts.Actor) error {
	return alerts.ErrNoSilence
}
func (s source) Firing() []alerts.Group { return s }

// The fields that Alertmanager's schema requires are present, and groups without matching alerts are absent.
func TestAlertsAPI(t *testing.T) {
	alert := func(name, service string, state alerts.State) alerts.Alert {
		return alerts.Alert{Name: name, State: state, Labels: map[string]string{"service": service, "severity": "warning"}, StartsAt: time.Unix(1e9, 0)}
	}
	muted := alert("B", "bank", alerts.Firing)
	muted.Silence = &silence.Silence{ID: "s1"}
	src := source{
		{Key: "A", Alerts: []alerts.Alert{alert("A", "shop", alerts.Resolved), alert("A", "shop", alerts.Firing)}},
		{Key: "B", Alerts: []alerts.Alert{muted}},
		{Key: "C", Alerts: []alerts.Alert{alert("C", "shop", alerts.Resolved)}},
	}
	h := NewHandler(func() (Source, error) { return src, nil }, Options{GroupBy: []string{"service", "stage"}, Version: "1.2.3", Started: time.Unix(1e9, 0)})
	get := func(path string, v any) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, Path+path, http.NoBody))
		if err := json.Unmarshal(w.Body.Bytes(), v); err != nil || w.Code != http.StatusOK {
			t.Errorf("%s: HTTP %d, %v: %s", path, w.Code, err, w.Body)
		}
	}
	labels := func(path string) (list []map[string]string) {
		t.Helper()
		var groups []Group
		get(path, &groups)
		for _, g := range groups {
			list = append(list, g.Labels)
			if len(g.Alerts) != 1 || g.Receiver.Name != "llmtap" || g.Alerts[0].Fingerprint == "" {
				t.Errorf("%s: %+v", path, g)
			}
		}
		return list
	}
	shop, bank := map[string]string{"alertname": "A", "service": "shop"}, map[string]string{"alertname": "B", "service": "bank"}
	for path, want := range map[string][]map[string]string{
		"alerts/groups": {shop, bank}, "alerts/groups?silenced=false": {shop}, "alerts/groups?filter=service%3D%22bank%22": {bank}, "alerts/groups?active=false": {bank},
	} {
		must.Agree(t, cmp.Diff(want, labels(path)), path)
	}
	var status, receivers any
	get("status", &status)
	get("receivers", &receivers)
	info := status.(map[string]any)
	version := info["versionInfo"].(map[string]any)
	delete(version, "goVersion")
	want := map[string]any{
		"cluster":     map[string]any{"name": "", "peers": []any{}, "status": "disabled"},
		"config":      map[string]any{"original": "route:\n  receiver: llmtap\n  group_by: [alertname, service, stage]\nreceivers:\n  - name: llmtap\n"},
		"uptime":      "2001-09-09T01:46:40Z",
		"versionInfo": map[string]any{"version": "1.2.3", "branch": "", "buildDate": "", "buildUser": "", "revision": ""},
	}
	must.Agree(t, cmp.Diff(want, info))
	must.Agree(t, cmp.Diff([]any{map[string]any{"name": "llmtap"}}, receivers))
}
