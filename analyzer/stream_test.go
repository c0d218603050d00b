package analyzer_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Error texts of DeepSeek.
const (
	orphanText  = `Messages with role 'tool' must be a response to a preceding message with 'tool_calls'`
	missingText = `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (insufficient tool messages following tool_calls message)`
)

var epoch = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

type msg map[string]any

func system(text string) msg   { return msg{"role": "system", "content": text} }
func user(text string) msg     { return msg{"role": "user", "content": text} }
func tool(id, text string) msg { return msg{"role": "tool", "tool_call_id": id, "content": text} }

// assistant has calls "id name" and the content text; "null" is null.
func assistant(text string, calls ...string) msg {
	m := msg{"role": "assistant", "content": text}
	if text == "null" {
		m["content"] = nil
	}
	var list []msg
	for _, c := range calls {
		id, name, _ := strings.Cut(c, " ")
		list = append(list, msg{"id": id, "type": "function", "function": msg{"name": name, "arguments": `{"path":"config.py"}`}})
	}
	if list != nil {
		m["tool_calls"] = list
	}
	return m
}

func body(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func fault(text string) []byte {
	return body(msg{"error": msg{"message": text, "type": "invalid_request_error", "param": nil, "code": "invalid_request_error"}})
}

// step is an event in the stream, or a call of Advance when ev is nil.
type step struct {
	ev *event.Event
	at analyzer.Position
}

// stream builds events; now advances by one second with every event.
type stream struct {
	steps  []step
	now    time.Time
	seq    uint64
	lost   uint64 // events that did not arrive so far
	calls  int
	labels event.Labels
	url    string
}

func newStream(conversation string) *stream {
	return &stream{now: epoch, url: "https://api.deepseek.com/chat/completions", labels: event.Labels{
		Service: "builder", ServiceVersion: "1.4.0", Environment: "prod", Agent: "planner", Conversation: conversation,
	}}
}

func (s *stream) add(ev *event.Event) *event.Event {
	s.seq++
	s.now = s.now.Add(time.Second)
	ev.Time, ev.Labels, ev.Instance, ev.Seq, ev.Origin = s.now, s.labels, "i1", s.seq+s.lost, event.OriginHook
	if ev.Capture == "" {
		ev.Capture = event.CaptureFull
	}
	if ev.Parts == 0 {
		ev.Part, ev.Parts, ev.BodyBytes = 1, 1, len(ev.Body)
	}
	s.steps = append(s.steps, step{ev, analyzer.Position{Seq: s.seq, Time: s.now}})
	return ev
}

// again adds an event that was in the stream before.
func (s *stream) again(old *event.Event) {
	ev := *old
	s.seq++
	s.lost-- // it takes no number of its own
	s.now = s.now.Add(time.Second)
	s.steps = append(s.steps, step{&ev, analyzer.Position{Seq: s.seq, Time: s.now}})
}

func (s *stream) advance(d time.Duration) {
	s.now = s.now.Add(d)
	s.steps = append(s.steps, step{at: analyzer.Position{Time: s.now}})
}

func (s *stream) exchange() string {
	s.calls++
	return fmt.Sprintf("018f0000-0000-7000-8000-%012d", s.calls)
}

func (s *stream) request(id string, history ...msg) *event.Event {
	b := body(msg{"model": "deepseek-chat", "messages": history})
	return s.add(&event.Event{Kind: event.Request, Exchange: id, URL: s.url, Method: "POST", Body: b})
}

func (s *stream) response(id string, status int, b []byte) *event.Event {
	return s.add(&event.Event{
		Kind: event.Response, Exchange: id, Status: status, Duration: time.Second, ContentType: "application/json", Body: b,
	})
}

// ok adds a call that is answered with m, and returns the id of the exchange.
func (s *stream) ok(m msg, history ...msg) string {
	id := s.exchange()
	s.request(id, history...)
	s.response(id, 200, answer(m))
	return id
}

func answer(m msg) []byte {
	finish := "stop"
	if m["tool_calls"] != nil {
		finish = "tool_calls"
	}
	return body(msg{
		"id": "r1", "model": "deepseek-chat", "choices": []msg{{"index": 0, "message": m, "finish_reason": finish}},
		"usage": msg{"prompt_tokens": 100, "completion_tokens": 7},
	})
}

// fail adds a call that is answered with an error.
func (s *stream) fail(status int, text string, history ...msg) string {
	id := s.exchange()
	s.request(id, history...)
	s.response(id, status, fault(text))
	return id
}

// run analyzes steps and returns the output.
func run(t testing.TB, cfg analyzer.Config, steps []step) *analyzer.Output {
	t.Helper()
	a := newAnalyzer(t, cfg)
	out := new(analyzer.Output)
	for _, s := range steps {
		do(a, s, true, out)
	}
	return out
}

func newAnalyzer(t testing.TB, cfg analyzer.Config) *analyzer.Analyzer {
	t.Helper()
	must.Do(t, cfg.Validate())
	return analyzer.New(cfg, rules.InOrder, prometheus.NewRegistry())
}

func do(a *analyzer.Analyzer, s step, emit bool, out *analyzer.Output) {
	if s.ev == nil {
		a.Advance(s.at.Time, emit, out)
		return
	}
	a.Process(s.ev, s.at, emit, out)
}

// latest keeps the newest version of each row, as the store does.
func latest(out *analyzer.Output) (exchanges map[string]analyzer.Exchange, findings map[string]analyzer.Finding, calls map[string]analyzer.ToolCall) {
	exchanges, findings, calls = map[string]analyzer.Exchange{}, map[string]analyzer.Finding{}, map[string]analyzer.ToolCall{}
	for _, e := range out.Exchanges {
		if e.Seq >= exchanges[e.ID].Seq {
			exchanges[e.ID] = e
		}
	}
	for _, f := range out.Findings {
		if f.Seq >= findings[f.ID].Seq {
			findings[f.ID] = f
		}
	}
	for _, c := range out.ToolCalls {
		if c.Seq >= calls[c.ID].Seq {
			calls[c.ID] = c
		}
	}
	return exchanges, findings, calls
}
