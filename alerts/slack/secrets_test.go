package slack

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertmanager"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/webhook"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Notifications about fully captured calls contain no prompts, no tool results and no credentials from a provider's error.
func TestNoContentLeaks(t *testing.T) {
	const prompt, reply, argument = "transfer 4000 to Ottilie", "balance of Ottilie: 12", "ottilie-account"
	const key, mail = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789", "ottilie@example.org"
	type object = map[string]any
	body := func(v any) []byte {
		return must.Get(json.Marshal(v))(t)
	}
	a := analyzer.New(analyzer.Default(), rules.InOrder, prometheus.NewRegistry())
	out := new(analyzer.Output)
	now := time.Now().UTC().Truncate(time.Second).Add(-10 * time.Minute)
	seq := uint64(0)
	add := func(ev *event.Event) {
		seq++
		now = now.Add(200 * time.Millisecond)
		ev.Time, ev.Instance, ev.Seq, ev.Origin, ev.Capture = now, "i1", seq, event.OriginHook, event.CaptureFull
		ev.Labels = event.Labels{Service: "bank", Stage: "planner", ServiceVersion: "1", Conversation: fmt.Sprint("c", seq/2)}
		ev.Part, ev.Parts, ev.BodyBytes = 1, 1, len(ev.Body)
		a.Process(ev, analyzer.Position{Seq: seq, Time: now}, true, out)
	}
	for i := range 60 {
		id := fmt.Sprintf("018f0000-0000-7000-8000-%012d", i)
		add(&event.Event{Kind: event.Request, Exchange: id, URL: "https://api.openai.com/v1/chat/completions", Method: "POST", Body: body(object{
			"model": "gpt-4.1", "messages": []object{
				{"role": "user", "content": prompt},
				{"role": "assistant", "tool_calls": []object{{"id": "call_0", "type": "function", "function": object{"name": "pay", "arguments": `{"to":"` + argument + `"}`}}}},
				{"role": "user", "content": prompt},
				{"role": "tool", "tool_call_id": "call_1", "content": reply},
			},
		})})
		text := "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'. Key " + key + " of " + mail
		add(&event.Event{
			Kind: event.Response, Exchange: id, Status: 400, Duration: time.Second, ContentType: "application/json",
			Body: body(object{"error": object{"message": text, "type": "invalid_request_error"}}),
		})
	}
	a.Advance(now.Add(time.Minute), true, out)

	var mu sync.Mutex
	var sent strings.Builder
	posted := func(r *http.Request) string {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		sent.WriteString(posted(r))
	}))
	defer hook.Close()
	f, slackCfg := newSlack(t)
	slackCfg.Content = true // the text of the error is what contains the credentials
	var notifiers []alerts.Notifier
	for _, cfg := range []alerts.NotifierConfig{
		slackCfg, webhook.Config{URL: hook.URL, Secret: "0123456789abcdef"}, alertmanager.Config{URLs: []string{hook.URL}},
	} {
		list := must.Get(cfg.Receivers(alerts.NotifierOptions{}))(t)
		notifiers = append(notifiers, list[0])
	}
	cfg := engine.Default()
	notified := 0
	err := engine.Backtest(t.Context(), cfg, engine.BacktestOptions{}, func(yield func(*analyzer.Tally, error) bool) {
		for i := range out.Tallies {
			if !yield(&out.Tallies[i], nil) {
				return
			}
		}
	}, func(a alerts.Alert) error {
		notified++
		g := alerts.Group{Key: a.Name + a.Severity(), Alerts: []alerts.Alert{a}}
		for _, n := range notifiers {
			if err := n.Notify(t.Context(), g); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || notified == 0 {
		t.Fatalf("%d alerts, %v", notified, err)
	}
	all := sent.String()
	for _, m := range append(f.top(), f.thread()...) {
		all += m.Text + m.Blocks + string(m.Metadata)
	}
	if !strings.Contains(all, "orphan_tool_reply") || !strings.Contains(all, "must be a response") {
		t.Errorf("the messages lack the cause or the proof:\n%s", all)
	}
	for _, secret := range []string{prompt, reply, argument, key, mail, "Ottilie", "ottilie"} {
		if strings.Contains(all, secret) {
			t.Errorf("a message contains %q", secret)
		}
	}
}
