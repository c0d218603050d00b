package rules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/enginetest"
	"github.com/llmtap/llmtap/analyzer"
	protocol "github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

const (
	orphanText  = `Messages with role 'tool' must be a response to a preceding message with 'tool_calls'`
	missingText = `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (insufficient tool messages following tool_calls message)`
)

type msg map[string]any

var (
	question = msg{"role": "user", "content": "Read config.py."}
	calling  = msg{"role": "assistant", "content": nil, "tool_calls": []msg{
		{"id": "call_1", "type": "function", "function": msg{"name": "read_file", "arguments": `{"path":"config.py"}`}},
	}}
	reply  = msg{"role": "tool", "tool_call_id": "call_1", "content": "PORT=80"}
	done   = msg{"role": "assistant", "content": "The port is 80."}
	orphan = []msg{question, done, reply}
)

// A pipeline is events, the analyzer, its tallies and the engine, in simulated time.
type pipeline struct {
	t          *testing.T
	a          *analyzer.Analyzer
	e          *engine.Engine
	out        analyzer.Output
	now        time.Time
	seq        uint64
	own        map[string]uint64 // last sequence number of the process of each service
	labels     event.Labels
	drops      uint64
	retry      int
	early      bool // tallies are not added to the engine yet
	talks      int
	took       time.Duration // of a call
	usage      [2]int        // input and output tokens of a call
	read       func() int    // tokens that the provider reads from its cache; nil: it does not say
	finish     string        // finish reason of an answer without calls
	answer     msg
	limits     string // what responses say of rate limits
	model      string // that answers
	fired      []string
	severities []string                // of the rules that fired, with their names
	first      map[string]alerts.Alert // first alert of each rule
}

func (p *pipeline) feed() {
	if !p.early {
		for i := range p.out.Tallies {
			t := p.out.Tallies[i]
			must.Do(p.t, p.e.Add(p.t.Context(), &t))
		}
		for _, a := range p.e.Active() {
			if s := a.Name + " " + a.Severity(); !slices.Contains(p.severities, s) {
				p.severities = append(p.severities, s)
			}
			if !slices.Contains(p.fired, a.Name) {
				p.fired, p.first[a.Name] = append(p.fired, a.Name), a
			}
		}
	}
	p.out.Reset()
}

// wait waits without events.
func (p *pipeline) wait(d time.Duration) {
	for end := p.now.Add(d); p.now.Before(end); {
		p.now = p.now.Add(min(20*time.Second, end.Sub(p.now)))
		p.a.Advance(p.now, true, &p.out)
		p.feed()
	}
}

func (p *pipeline) event(ev *event.Event) {
	p.seq++
	p.now = p.now.Add(100 * time.Millisecond)
	p.own[p.labels.Service]++
	ev.Time, ev.Labels, ev.Instance, ev.Seq, ev.Dropped = p.now, p.labels, "of "+p.labels.Service, p.own[p.labels.Service], p.drops
	ev.Origin, ev.Capture, ev.Part, ev.Parts, ev.BodyBytes, ev.Retry = event.OriginHook, event.CaptureFull, 1, 1, len(ev.Body), p.retry
	p.a.Process(ev, analyzer.Position{Seq: p.seq, Time: p.now}, true, &p.out)
	p.feed()
}

func (p *pipeline) body(v any) []byte {
	return must.Get(json.Marshal(v))(p.t)
}

func (p *pipeline) talk() {
	p.talks++
	p.labels.Conversation = fmt.Sprint("talk ", p.talks)
}

func (p *pipeline) request(history ...msg) string {
	id := fmt.Sprintf("018f0000-0000-7000-8000-%012d", p.seq)
	p.event(&event.Event{
		Kind: event.Request, Exchange: id, URL: "https://api.deepseek.com/chat/completions", Method: "POST",
		Body: p.body(msg{"model": "deepseek-chat", "messages": history}),
	})
	return id
}

func (p *pipeline) response(id string, status int, body any) {
	p.event(&event.Event{Kind: event.Response, Exchange: id, Status: status, Duration: p.took, ContentType: "application/json", Body: p.body(body), RateLimits: p.limits})
}

func (p *pipeline) ok(answer msg, history ...msg) {
	finish := p.finish
	if answer["tool_calls"] != nil {
		finish = "tool_calls"
	}
	usage := msg{"prompt_tokens": p.usage[0], "completion_tokens": p.usage[1]}
	if p.read != nil {
		usage["prompt_cache_hit_tokens"] = p.read()
	}
	p.response(p.request(history...), 200, msg{"model": p.model, "choices": []msg{{"index": 0, "message": answer, "finish_reason": finish}}, "usage": usage})
}

func (p *pipeline) fail(status int, text string, history ...msg) {
	p.response(p.request(history...), status, msg{"error": msg{"message": text, "type": "invalid_request_error"}})
}

// beat sends a report of the hook of each service about itself.
func (p *pipeline) beat(status string, services ...string) {
	for _, p.labels.Service = range services {
		p.event(&event.Event{Kind: event.Hook, HookStatus: status})
	}
}

// busy calls models every few seconds in each service, whose hooks send heartbeats if beats.
func (p *pipeline) busy(d time.Duration, beats bool, services ...string) {
	for end := p.now.Add(d); p.now.Before(end); p.wait(30 * time.Second) {
		for range 2 {
			for _, p.labels.Service = range services {
				p.ok(done, question)
			}
		}
		if beats {
			p.beat(event.HookAlive, services...)
		}
	}
}

func (p *pipeline) run(status string) { p.event(&event.Event{Kind: event.Run, RunStatus: status}) }

// many calls fn in n conversations, every apart.
func (p *pipeline) many(n int, apart time.Duration, do func(i int)) {
	for i := range n {
		p.talk()
		do(i)
		p.wait(apart)
	}
}

// hour is an hour without failures.
func (p *pipeline) hour() {
	p.many(120, 30*time.Second, func(int) { p.ok(done, question) })
}

// notified records notifications: Alert.Unavailable by rule.
type notified map[string]string

func (n notified) Notify(_ context.Context, g alerts.Group) error {
	for _, a := range g.Alerts {
		n[a.Name] = a.Unavailable
	}
	return nil
}

// A recorder is the store of alerts; its error means that it is down.
type recorder struct{ err error }

func (r recorder) RecordAlert(context.Context, alerts.Alert) error { return r.err }

// fired returns the JSON of an alert. Package slack renders the files.
func fired(t *testing.T, a alerts.Alert) string {
	t.Helper()
	b := must.Get(json.MarshalIndent(a, "", "  "))(t)
	return string(b) + "\n"
}

const storeIsDown = "ClickHouse does not answer"

// usualHours are the hours after which it is known what is usual.
const usualHours = 8 * 24 * time.Hour

// play plays a script through a new pipeline and returns it, and what people were notified of. If down, the store is down.
func play(t *testing.T, down bool, script func(p *pipeline)) (p *pipeline, sent notified) {
	t.Helper()
	return playAfter(t, nil, down, script)
}

// learnUsual lets an engine with one rule learn hours of usual calls.
func learnUsual(t *testing.T, store *alertstest.Store) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := engine.Default()
		cfg.EvaluationInterval, cfg.RuleFiles = 30*time.Second, []string{"traffic_unusual.yaml"}
		e := enginetest.New(t, cfg, engine.Options{Store: store})
		stop := must.Run(t, e.Run)
		m := new(analyzer.Measured)
		for range 4 {
			m.Duration.Add(1000)
			m.InputTokens.Add(1000)
			m.OutputTokens.Add(100)
			m.Cost.Add(322) // as deepseek-chat costs
		}
		kv := map[string]string{
			"service": "shop", "service_version": "1.4.0", "environment": "prod", "agent": "planner", "stage": "planner", "provider": "deepseek", "model": "deepseek-chat",
		}
		for end := time.Now().Add(usualHours); time.Now().Before(end); {
			time.Sleep(time.Minute)
			must.Do(t, e.Add(t.Context(), &analyzer.Tally{
				Second: time.Now().Unix() - 1, Counts: []analyzer.Count{
					{Metric: analyzer.MetricCalls, Labels: kv, N: 4, Measured: m}, {Metric: analyzer.MetricToolReplies, Labels: kv, N: 4},
				},
			}))
		}
		stop()
	})
}

// playAfter is play with the state of an engine in a Store, or without if it is nil, and with the named files of rules, or with all.
func playAfter(t *testing.T, store *alertstest.Store, down bool, script func(p *pipeline), files ...string) (p *pipeline, sent notified) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := engine.Default()
		cfg.EvaluationInterval, cfg.Budgets = 5*time.Second, []engine.Budget{{Service: "dear", PerMonth: 0.15}}
		sent = notified{}
		o := engine.Options{Notifiers: []alerts.Notifier{sent}, Recorder: recorder{}}
		if down {
			o.Recorder, o.Unavailable = recorder{errors.New("connection refused")}, func() string { return storeIsDown }
		}
		if store != nil {
			o.Store, cfg.EvaluationInterval = store, 30*time.Second // hours take seconds
		}
		if len(files) > 0 {
			cfg.RuleFiles = files
		}
		e := enginetest.New(t, cfg, o)
		stop := must.Run(t, e.Run)
		p = &pipeline{
			first: map[string]alerts.Alert{}, t: t, e: e, a: analyzer.New(analyzer.Default(), protocol.InOrder, prometheus.NewRegistry()), now: time.Now(), own: map[string]uint64{},
			took: time.Second, usage: [2]int{1000, 100}, finish: "stop", answer: done, model: "deepseek-chat",
			labels: event.Labels{Service: "shop", ServiceVersion: "1.4.0", Environment: "prod", Agent: "planner", Stage: "planner", Run: "r"},
		}
		script(p)
		p.wait(time.Minute)
		time.Sleep(cfg.UpdateInterval + time.Second) // several rules may find one problem
		synctest.Wait()
		stop()
	})
	return p, sent
}
