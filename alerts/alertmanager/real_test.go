package alertmanager_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertmanager"
	"github.com/llmtap/llmtap/alerts/webhook"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// hook receives the posts of an Alertmanager's webhook, decoded strictly as the messages of our own webhook: both have one
// format.
type hook struct {
	t    *testing.T
	mu   sync.Mutex
	seen []webhook.Message
}

func (h *hook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var m webhook.Message
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		h.t.Errorf("field unknown to our message: %v", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, m)
}

// wait returns the first message with a status about an alert.
func (h *hook) wait(status, alert string) webhook.Message {
	h.t.Helper()
	var got webhook.Message
	must.Wait(h.t, "a notification that "+alert+" is "+status, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		i := slices.IndexFunc(h.seen, func(m webhook.Message) bool { return m.Status == status && m.CommonLabels["alertname"] == alert })
		if i >= 0 {
			got = h.seen[i]
		}
		return i >= 0
	})
	return got
}

// serve starts a real Alertmanager on loopback, which notifies h, and returns its URL.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	binary, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("prometheus-alertmanager is not installed")
		}
		t.Skip("NOT TESTED against Alertmanager: install Debian's prometheus-alertmanager")
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	config := fmt.Sprintf(`route: {receiver: hook, group_by: [alertname], group_wait: 100ms, group_interval: 100ms, repeat_interval: 1h}
receivers: [{name: hook, webhook_configs: [{url: "%s/hook", send_resolved: true}]}]
`, srv.URL)
	must.Do(t, os.WriteFile(filepath.Join(dir, "alertmanager.yml"), []byte(config), 0o600))
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	l.Close()
	log := must.Get(os.Create(filepath.Join(dir, "log")))(t)
	cmd := exec.CommandContext(t.Context(), binary, "--config.file="+filepath.Join(dir, "alertmanager.yml"), "--storage.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--cluster.listen-address=")
	cmd.Stdout, cmd.Stderr = log, log
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Wait() // killed when the context of the test ended
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("alertmanager log:\n%s", text)
		}
	})
	must.Wait(t, "alertmanager is ready", func() bool {
		resp, err := http.Get("http://" + addr + "/-/ready")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
	return "http://" + addr
}

func TestRealAlertmanager(t *testing.T) {
	h := &hook{t: t}
	base := serve(t, h)
	list := must.Get(alertmanager.Config{URLs: []string{base}}.Receivers(alerts.NotifierOptions{Access: alerts.Access{ExternalURL: "https://llmtap.example.com"}}))(t)
	n := list[0]
	if text, err := n.Check(t.Context()); err != nil || !strings.HasPrefix(text, "version ") {
		t.Errorf("check: %q, %v", text, err)
	}
	send := func(a alerts.Alert) {
		t.Helper()
		must.Do(t, n.Notify(t.Context(), alerts.Group{Key: a.Name, Alerts: []alerts.Alert{a}}))
	}
	now := time.Now().UTC()
	a := alerts.Alert{
		Name: "StageFailureRate", State: alerts.Firing, StartsAt: now.Add(-time.Minute), UpdatedAt: now,
		Labels:      map[string]string{"service": "checkout-agent", "stage": "planner", "severity": "critical", "environment": ""},
		Annotations: map[string]string{"summary": "planner fails"},
	}
	send(a)
	m := h.wait("firing", "StageFailureRate")
	if len(m.Alerts) != 1 || m.Alerts[0].Annotations["summary"] != "planner fails" || m.Version != "4" {
		t.Errorf("received %+v", m)
	}
	must.Equal(t, m.Alerts[0].GeneratorURL, "https://llmtap.example.com/incident/"+a.ID(), "link")
	must.Equal(t, m.Alerts[0].Fingerprint, alertmanager.Alerts(alerts.Group{Alerts: []alerts.Alert{a}}, alerts.Access{})[0].Fingerprint(), "fingerprint and ours")

	// Sent again, it is the same alert, valid for another 4 minutes.
	send(a)
	var active []struct {
		EndsAt      time.Time
		Fingerprint string
	}
	resp := must.Get(http.Get(base + "/api/v2/alerts"))(t)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, &active)
	}
	if err != nil || len(active) != 1 {
		t.Fatalf("%v: %s", err, body)
	}
	if left := active[0].EndsAt.Sub(now); left < 4*time.Minute || left > 5*time.Minute {
		t.Errorf("it ends in %v", left)
	}

	a.State, a.EndsAt = alerts.Resolved, time.Now().UTC()
	send(a)
	m = h.wait("resolved", "StageFailureRate")
	if !m.Alerts[0].EndsAt.Equal(a.EndsAt.Truncate(time.Millisecond)) && !m.Alerts[0].EndsAt.Equal(a.EndsAt) {
		t.Errorf("it ended at %v, want %v", m.Alerts[0].EndsAt, a.EndsAt)
	}

	// An alert that it receives only as resolved is notified nevertheless.
	a.Name = "FoundLate"
	send(a)
	if m = h.wait("firing", "FoundLate"); m.Alerts[0].Annotations["ended_at"] == "" {
		t.Errorf("received %+v", m)
	}

	// A rejected alert is a final error.
	a.Name, a.State, a.EndsAt = "Rejected", alerts.Firing, time.Time{}
	a.Labels = map[string]string{"not a name": "x"}
	if err := n.Notify(t.Context(), alerts.Group{Key: "x", Alerts: []alerts.Alert{a}}); err == nil {
		t.Error("a label with a space in its name was accepted")
	} else {
		t.Log(err)
	}
}
