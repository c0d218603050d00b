package analyzer_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

func TestMain(m *testing.M) {
	slowtest.Computes()
	m.Run()
}

var hello = []msg{system("You chat."), user("hi")}

func TestExchangeRow(t *testing.T) {
	s := newStream("c1")
	s.labels.Stage = "Planner"
	id := s.exchange()
	s.request(id, hello...)
	r := s.response(id, 200, answer(assistant("hello", "call_1 f")))
	r.ProviderRequestID, r.FirstByte = "req-7", 300*time.Millisecond
	out := run(t, analyzer.Default(), s.steps)
	q := s.steps[0]
	labels := s.labels
	want := []analyzer.Exchange{{
		ID: id, Seq: 2, Labels: labels, StartedAt: q.ev.Time, StoredAt: s.steps[1].at.Time, Conversation: "c1", Operation: "chat",
		Provider: "deepseek", Server: "api.deepseek.com", Path: "/chat/completions", Dialect: "openai_chat", Variant: "deepseek",
		Model: "deepseek-chat", ResponseModel: "deepseek-chat", Status: 200, InputTokens: 100, OutputTokens: 7,
		Duration: time.Second, FirstByte: 300 * time.Millisecond, FinishReason: "tool_calls", Ended: analyzer.EndedNormal, RequestBytes: len(q.ev.Body),
		ResponseBytes: len(r.Body), Messages: 2, ToolCalls: 1, Instance: "i1", InstanceSeq: 1, Origin: event.OriginHook,
		Capture: event.CaptureFull, ProviderRequestID: "req-7", ResponseID: "r1", PromptHash: out.Exchanges[0].PromptHash,
	}}
	if want[0].PromptHash == 0 { // setup_test.go tests its value
		t.Error("the system message has no hash")
	}
	must.Agree(t, cmp.Diff(want, out.Exchanges))
}

func TestFailures(t *testing.T) {
	f := func(name string, answer func(s *stream, id string), want string) {
		t.Helper()
		s := newStream("c1")
		id := s.exchange()
		s.request(id, hello...)
		answer(s, id)
		out := run(t, analyzer.Default(), s.steps)
		if len(out.Exchanges) != 1 {
			t.Fatalf("%s: %d rows", name, len(out.Exchanges))
		}
		e := out.Exchanges[0]
		must.Equal(t, fmt.Sprintf("%d %v %s %s %q", e.Status, e.Failed, dash(e.Cause), dash(e.ErrorType), e.ErrorText), want, "%s", name)
	}
	events := func(s *stream, id, body string) {
		s.response(id, 200, []byte(body)).ContentType = "text/event-stream"
	}
	f("answered", func(s *stream, id string) { s.response(id, 200, answer(assistant("hello"))) }, `200 false - - ""`)
	f("no body", func(s *stream, id string) { s.response(id, 200, nil).Capture = event.CaptureNone }, `200 false - - ""`)
	f("no body but the start of an error", func(s *stream, id string) {
		s.response(id, 400, []byte(`{"error":{"message":"Messages with role 'tool' must be a response to a preceding message with 'tool_calls'","co`)).Capture = event.CaptureNone
	}, `400 true orphan_tool_reply 400 "{\"error\":{\"message\":\"Messages with role 'tool' must be a response to a preceding message with 'tool_calls'\",\"co"`)
	f("an answer that cannot be read", func(s *stream, id string) { s.response(id, 200, []byte("<html>")) }, `200 false - - ""`)
	f("no answer came", func(s *stream, id string) { s.response(id, 0, nil).Error = "dial tcp: connection refused" },
		`0 true no_response no_response "dial tcp: connection refused"`)
	f("no answer in time", func(s *stream, _ string) { s.advance(16 * time.Minute) }, `0 true no_response no_response ""`)
	f("server error, no JSON", func(s *stream, id string) { s.response(id, 502, []byte("Bad Gateway")) },
		`502 true server_error 502 "Bad Gateway"`)
	f("error inside a 200", func(s *stream, id string) {
		s.response(id, 200, []byte(`{"error":{"code":429,"message":"slow down"}}`))
	},
		`200 true rate_limit 429 "{\"code\":429,\"message\":\"slow down\"}"`)
	f("error inside a stream", func(s *stream, id string) {
		events(s, id, "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"error\":{\"type\":\"server_error\",\"message\":\"boom\"}}\n\n")
	}, `200 true stream_error server_error "{\"type\":\"server_error\",\"message\":\"boom\"}"`)
	f("an error in an array", func(s *stream, id string) {
		s.response(id, 400, []byte(`[{"error":{"code":400,"message":"odd","status":"INVALID_ARGUMENT"}}]`))
	}, `400 true unexplained 400 "[{\"error\":{\"code\":400,\"message\":\"odd\",\"status\":\"INVALID_ARGUMENT\"}}]"`)
}

func TestErrorTextIsRedactedAndCut(t *testing.T) {
	s := newStream("c1")
	s.fail(401, "Incorrect API key provided: sk-proj-abcdefghijklmnopqrstuvwxyz0123456789. "+strings.Repeat("é", 5000), hello...)
	e := run(t, analyzer.Default(), s.steps).Exchanges[0]
	if len(e.ErrorText) > 4096 || strings.Contains(e.ErrorText, "abcdefghij") {
		t.Errorf("%d bytes: %.120s", len(e.ErrorText), e.ErrorText)
	}
}

func TestStreamedAnswerIsAssembled(t *testing.T) {
	s := newStream("c1")
	id := s.exchange()
	s.request(id, hello...)
	s.response(id, 200, []byte(`data: {"id":"r","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"read_file","arguments":"{\"pa"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"th\":1}"}}]},"finish_reason":"tool_calls"}]}

data: [DONE]

`)).ContentType = "text/event-stream"
	s.fail(400, orphanText, append(hello[:2:2], assistant(""), tool("call_1", "x"))...)
	want := []string{
		"failed 400 orphan_tool_reply both tool_calls_dropped_on_save",
		"orphan_tool_reply reject 3 call_1 read_file tool_calls_dropped_on_save high",
	}
	must.Agree(t, cmp.Diff(want, brief(run(t, analyzer.Default(), s.steps))))
}

func TestNotJudged(t *testing.T) {
	broken := []msg{user("q"), tool("call_1", "x")}
	f := func(name string, change func(*event.Event), wantDropped float64) {
		t.Helper()
		s := newStream("c1")
		id := s.exchange()
		change(s.request(id, broken...))
		s.response(id, 200, answer(assistant("hello")))
		reg := prometheus.NewRegistry()
		a := analyzer.New(analyzer.Default(), rules.InOrder, reg)
		out := new(analyzer.Output)
		for _, st := range s.steps {
			do(a, st, true, out)
		}
		if len(out.Exchanges) != 1 || len(out.Findings) != 0 || out.Exchanges[0].Findings != 0 {
			t.Errorf("%s: %d rows, %d findings", name, len(out.Exchanges), len(out.Findings))
		}
		must.Equal(t, sumOf(t, reg, "llmtap_analyzer_events_dropped_total"), wantDropped, "%s: dropped", name)
	}
	f("capture none", func(e *event.Event) { e.Capture = event.CaptureNone }, 0)
	f("capture cut", func(e *event.Event) { e.Capture = event.CaptureCut }, 0)
	f("degraded", func(e *event.Event) { e.Degraded = true }, 0)
	f("another dialect", func(e *event.Event) { e.URL = "https://api.openai.com/v1/embeddings" }, 0)
	f("no JSON", func(e *event.Event) { e.Body = []byte(`{"messages":[}`) }, 1)
	f("an encoding we do not know", func(e *event.Event) { e.ContentEncoding = "br" }, 1)
	f("broken gzip", func(e *event.Event) { e.ContentEncoding = "gzip" }, 1)
	f("a bomb", func(e *event.Event) {
		e.ContentEncoding, e.Body = "gzip", gzipped(bytes.Repeat([]byte(" "), 10<<20))
	}, 1)
}

func sumOf(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	all := must.Get(reg.Gather())(t)
	sum := 0.0
	for _, f := range all {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func gzipped(b []byte) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, _ = w.Write(b)
	_ = w.Close()
	return buf.Bytes()
}

func TestEncodings(t *testing.T) {
	z := must.Get(zstd.NewWriter(nil))(t)
	for _, enc := range []string{"gzip", "zstd"} {
		s := newStream("c1")
		for range 2 {
			id := s.exchange()
			q := s.request(id, user("q"), tool("call_1", "x"))
			plain := q.Body
			if q.ContentEncoding = enc; enc == "gzip" {
				q.Body = gzipped(plain)
			} else {
				q.Body = z.EncodeAll(plain, nil)
			}
			s.response(id, 400, fault(orphanText))
		}
		out := run(t, analyzer.Default(), s.steps)
		if len(out.Findings) != 1 || len(out.Exchanges) != 2 || out.Exchanges[1].Findings != 1 {
			t.Errorf("%s: %d findings in %d exchanges", enc, len(out.Findings), len(out.Exchanges))
		}
	}
}

func TestParts(t *testing.T) {
	whole := body(msg{"model": "m", "messages": []msg{user(strings.Repeat("q", 100)), tool("call_1", "x")}})
	parts := func(s *stream, id string, order ...int) {
		for _, i := range order {
			lo, hi := i*len(whole)/3, (i+1)*len(whole)/3
			s.add(&event.Event{
				Kind: event.Request, Exchange: id, URL: s.url, Body: whole[lo:hi], Part: i + 1, Parts: 3, BodyBytes: len(whole),
			})
		}
	}
	f := func(name string, wantFindings, wantBytes int, order ...int) {
		t.Helper()
		s := newStream("c1")
		id := s.exchange()
		parts(s, id, order...)
		s.response(id, 400, fault(orphanText))
		s.advance(5 * time.Minute)
		out := run(t, analyzer.Default(), s.steps)
		e, found, _ := latest(out)
		if len(e) != 1 || len(found) != wantFindings || e[id].RequestBytes != wantBytes {
			t.Errorf("%s: %d exchanges, %d findings, %d bytes", name, len(e), len(found), e[id].RequestBytes)
		}
	}
	f("in order", 1, len(whole), 0, 1, 2)
	f("out of order", 1, len(whole), 2, 0, 1)
	f("one twice", 1, len(whole), 0, 0, 1, 2)
	f("one is lost", 0, len(whole), 0, 2) // recorded, not judged
}

func TestResponseFirst(t *testing.T) {
	f := func(name string, wait time.Duration, wantModel string, wantRows int) {
		t.Helper()
		s := newStream("c1")
		id := s.exchange()
		s.response(id, 200, answer(assistant("hello")))
		s.now = s.now.Add(wait)
		s.request(id, hello...)
		s.advance(20 * time.Minute)
		out := run(t, analyzer.Default(), s.steps)
		if len(out.Exchanges) != wantRows || out.Exchanges[0].Model != wantModel || out.Exchanges[0].Failed {
			t.Errorf("%s: %+v", name, out.Exchanges)
		}
	}
	f("the request comes soon", 5*time.Second, "deepseek-chat", 1)
	f("the request comes too late", 40*time.Second, "", 1)
}

func TestLateResponseChangesNothing(t *testing.T) {
	s := newStream("c1")
	id := s.exchange()
	s.request(id, hello...)
	s.now = s.now.Add(16 * time.Minute)
	s.response(id, 200, answer(assistant("hello")))
	s.advance(time.Hour)
	out := run(t, analyzer.Default(), s.steps)
	if len(out.Exchanges) != 1 || out.Exchanges[0].Cause != "no_response" {
		t.Errorf("%+v", out.Exchanges)
	}
	if want := s.steps[0].at.Time.Add(15 * time.Minute); !out.Exchanges[0].StoredAt.Equal(want) {
		t.Errorf("stored at %v, want the deadline %v", out.Exchanges[0].StoredAt, want)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	cfg := analyzer.Default()
	cfg.MaxStateBytes = 1 << 20
	a := newAnalyzer(t, cfg)
	s := newStream("")
	for i := range 5000 {
		s.labels.Conversation = fmt.Sprintf("c%d", i)
		s.ok(assistant("", "call_1 f"), hello...)
	}
	for _, st := range s.steps {
		do(a, st, false, nil)
	}
	if n := a.ReplayFrom(); n < 5000 {
		t.Errorf("replay from %d: the first conversations were not forgotten", n)
	}
	s.now = s.now.Add(time.Hour)
	s.add(&event.Event{Kind: event.Run})
	do(a, s.steps[len(s.steps)-1], false, nil)
	if n, want := a.ReplayFrom(), s.seq; n != want { // all that is known is the process's sequence
		t.Errorf("replay from %d after an idle hour, want %d", n, want)
	}
}

func TestReplayIsBounded(t *testing.T) {
	cfg := analyzer.Default()
	cfg.SessionLookbackBytes = 1 << 20
	a := newAnalyzer(t, cfg)
	s := newStream("c1")
	for range 2000 {
		s.ok(assistant("hi"), hello...)
	}
	for _, st := range s.steps {
		do(a, st, true, new(analyzer.Output))
	}
	if n := a.ReplayFrom(); n < 2000 || n > 3600 {
		t.Errorf("replay of %d events from %d", len(s.steps), n)
	}
}

func TestConfigValidate(t *testing.T) {
	f := func(want string, change func(*analyzer.Config)) {
		t.Helper()
		c := analyzer.Default()
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), want+":") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	f("partition", func(c *analyzer.Config) { c.Partition = -1 })
	f("exchange_timeout", func(c *analyzer.Config) { c.ExchangeTimeout = 0 })
	f("session_lookback", func(c *analyzer.Config) { c.SessionLookback = time.Minute })
	f("session_lookback_bytes", func(c *analyzer.Config) { c.SessionLookbackBytes = 1 })
	f("max_state_bytes", func(c *analyzer.Config) { c.MaxStateBytes = 1 })
	f("tool_reply_timeout", func(c *analyzer.Config) { c.ToolReplyTimeout = 0 })
	f("tool_reply_timeouts", func(c *analyzer.Config) { c.ToolReplyTimeouts = map[string]time.Duration{"f": time.Hour} })
	f("conversation_idle_timeout", func(c *analyzer.Config) { c.ConversationIdleTimeout = 0 })
	f("max_label_values", func(c *analyzer.Config) { c.MaxLabelValues = 0 })
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	a := analyzer.New(analyzer.Default(), rules.InOrder, reg)
	a.Observe(time.Millisecond)
	s := newStream("c1")
	s.ok(assistant("hello"), hello...)
	for _, st := range s.steps {
		do(a, st, true, new(analyzer.Output))
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	must.Equal(t, sumOf(t, reg, "llmtap_analyzer_events_received_total"), 2, "events in")
}
