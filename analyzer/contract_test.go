package analyzer_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// deadOf returns the reasons of the dead letters.
func deadOf(out *analyzer.Output) string {
	var reasons []string
	for i := range out.Dead {
		reasons = append(reasons, out.Dead[i].Reason)
	}
	return strings.Join(reasons, " ")
}

// Every unusable content becomes a dead letter with its reason, and a row with what is known.
func TestDeadLetters(t *testing.T) {
	f := func(name string, change func(s *stream, id string, q, r *event.Event), want string) {
		t.Helper()
		s := newStream("c1")
		id := s.exchange()
		q := s.request(id, hello...)
		r := s.response(id, 200, answer(assistant("hello")))
		change(s, id, q, r)
		s.advance(time.Hour)
		out := run(t, analyzer.Default(), s.steps)
		must.Equal(t, deadOf(out), want, "%s: dead letters", name)
		if e, _, _ := latest(out); len(e) != 1 || e[id].Status != r.Status || e[id].Server != "api.deepseek.com" {
			t.Errorf("%s: rows %+v", name, e)
		}
		for _, d := range out.Dead {
			if d.Seq == 0 || d.Error == "" || d.Event.Exchange != id || len(d.Event.Body) > 64<<10 {
				t.Errorf("%s: %+v", name, d)
			}
		}
		// A silent replay emits nothing.
		a, silent := newAnalyzer(t, analyzer.Default()), new(analyzer.Output)
		for _, st := range s.steps {
			do(a, st, false, silent)
		}
		if len(silent.Dead) > 0 || silent.Rows() > 0 {
			t.Errorf("%s: a replay is not silent", name)
		}
	}
	f("all is well", func(*stream, string, *event.Event, *event.Event) {}, "")
	f("truncated request", func(_ *stream, _ string, q, _ *event.Event) { q.Body = q.Body[:len(q.Body)-3] }, "unreadable")
	f("no JSON", func(_ *stream, _ string, q, _ *event.Event) { q.Body = []byte("model=x") }, "unreadable")
	f("truncated answer", func(_ *stream, _ string, _, r *event.Event) { r.Body = r.Body[:len(r.Body)-3] }, "unreadable")
	f("an answer read in part", func(_ *stream, _ string, _, r *event.Event) {
		r.Body, r.Error = r.Body[:len(r.Body)-3], "closed before the end of the body"
	}, "")
	f("an error page", func(_ *stream, _ string, _, r *event.Event) { r.Status, r.Body = 502, []byte("<html>") }, "")
	f("a page for an answer", func(_ *stream, _ string, _, r *event.Event) { r.Body = []byte("<html>") }, "unreadable")
	f("unknown encoding", func(_ *stream, _ string, q, _ *event.Event) { q.ContentEncoding = "br" }, "encoding")
	f("known encoding, other spelling", func(_ *stream, _ string, q, _ *event.Event) {
		q.ContentEncoding, q.Body = " GZIP", gzipped(q.Body)
	}, "")
	f("no gzip", func(_ *stream, _ string, _, r *event.Event) { r.ContentEncoding = "gzip" }, "encoding")
	f("truncated gzip", func(_ *stream, _ string, q, _ *event.Event) {
		q.ContentEncoding, q.Body = "gzip", gzipped(q.Body)[:40]
	}, "encoding")
	f("gzip bomb", func(_ *stream, _ string, q, _ *event.Event) {
		q.ContentEncoding, q.Body = "gzip", gzipped(make([]byte, 10<<20))
	}, "too_large")
	f("zstd bomb", func(_ *stream, _ string, q, _ *event.Event) {
		z := must.Get(zstd.NewWriter(nil))(t)
		q.ContentEncoding, q.Body = "zstd", z.EncodeAll(make([]byte, 100<<20), nil)
	}, "too_large")
	f("a stubbed body", func(_ *stream, _ string, q, _ *event.Event) { q.Capture = event.CaptureCut }, "")
	part := func(q *event.Event, i, n int, body string) {
		q.Part, q.Parts, q.BodyBytes, q.Body = i, n, 20, []byte(body)
	}
	f("a part is missing", func(_ *stream, _ string, q, _ *event.Event) { part(q, 1, 2, "0123456789") }, "parts")
	f("parts that contradict each other", func(s *stream, id string, q, _ *event.Event) {
		part(q, 1, 2, "0123456789")
		part(s.add(&event.Event{Kind: event.Request, Exchange: id, URL: s.url}), 3, 3, "0123456789")
	}, "parts")
	f("parts that are less than they say", func(s *stream, id string, q, _ *event.Event) {
		part(q, 1, 2, "0123456789")
		part(s.add(&event.Event{Kind: event.Request, Exchange: id, URL: s.url}), 2, 2, "01234")
	}, "parts")
	f("one part, two bodies", func(s *stream, id string, q, _ *event.Event) {
		part(q, 1, 2, "0123456789")
		part(s.add(&event.Event{Kind: event.Request, Exchange: id, URL: s.url}), 1, 2, "9876543210")
	}, "parts")
	f("100 MB in parts", func(s *stream, id string, q, _ *event.Event) {
		part(q, 1, 200, "0123456789")
		q.BodyBytes = 100 << 20
		for i := 2; i <= 200; i++ {
			p := s.add(&event.Event{Kind: event.Request, Exchange: id, URL: s.url})
			part(p, i, 200, "0123456789")
			p.BodyBytes = 100 << 20
		}
	}, "too_large")
}

// A truncated request supplies only its model, a truncated error its text.
func TestTruncatedBodies(t *testing.T) {
	s := newStream("c1")
	id := s.exchange()
	q := s.request(id, user("q"), tool("call_1", "x"))
	q.Capture, q.BodyBytes, q.Body = event.CaptureCut, 20<<20, append([]byte(`{"model":"deepseek-chat","stream":true,"messages":[{"role":"tool","tool_call_id":"call_1"`), make([]byte, 500)...)
	r := s.response(id, 400, append(fault(orphanText), make([]byte, 10<<10)...))
	r.Capture = event.CaptureCut
	e := run(t, analyzer.Default(), s.steps).Exchanges[0]
	got := fmt.Sprint(e.Model, " ", e.Stream, " ", e.RequestBytes, " ", e.Findings, " ", e.Cause, " ", e.CauseKnown)
	must.Equal(t, got, "deepseek-chat true 20971520 0 orphan_tool_reply stated", "stored")
}

// An exchange that arrives again within the look-back changes nothing, however often and in whatever parts.
func TestDuplicateExchange(t *testing.T) {
	s := newStream("c1")
	h := []msg{system("You are a planner."), user("read config.py")}
	s.ok(assistant("", "call_1 read_file"), h...)
	s.fail(400, orphanText, append(h, assistant(""), tool("call_1", "PORT=80"))...)
	early := s.exchange()
	s.response(early, 200, answer(assistant("hello"))) // given up: its request does not come
	lone := s.exchange()
	s.request(lone, hello...) // given up: no answer comes
	s.now = s.now.Add(16 * time.Minute)
	s.advance(time.Second)
	once := append([]step(nil), s.steps...)
	for range 3 {
		for _, st := range once {
			if st.ev != nil {
				s.again(st.ev)
			}
		}
		s.now = s.now.Add(12 * time.Minute)
	}
	half := s.steps[0].ev.Body
	for i := range 2 { // in parts
		s.add(&event.Event{Kind: event.Request, Exchange: s.steps[0].ev.Exchange, URL: s.url, Body: half[i*10 : i*10+10], Part: i + 1, Parts: 3})
	}
	s.advance(time.Hour)
	want, got := run(t, analyzer.Default(), once), run(t, analyzer.Default(), s.steps)
	if !cmp.Equal(want.Exchanges, got.Exchanges) || !cmp.Equal(want.Findings, got.Findings) || !cmp.Equal(want.ToolCalls, got.ToolCalls) || len(got.Dead) > 0 {
		t.Errorf("rows changed: %s", cmp.Diff(want.Exchanges, got.Exchanges))
	}
	if n := counts(got); n[analyzer.MetricCalls] != 4 || n[analyzer.MetricFailed] != 2 {
		t.Errorf("counted %v", n)
	}
}

// An answer that was not read to its end is no failure by itself, and cancelled calls are counted separately.
func TestAnswerNotReadToItsEnd(t *testing.T) {
	f := func(name string, status int, body []byte, why, want string) {
		t.Helper()
		s := newStream("c1")
		id := s.exchange()
		s.request(id, hello...)
		s.response(id, status, body).Error = why
		s.advance(10 * time.Second)
		out := run(t, analyzer.Default(), s.steps)
		e, n := out.Exchanges[0], counts(out)
		got := fmt.Sprintf("%v %s; %d calls, %d failed, %d cancelled", e.Failed, dash(e.ErrorType), n[analyzer.MetricCalls], n[analyzer.MetricFailed], n[analyzer.MetricCancelled])
		if got != want || len(out.Dead) > 0 {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if e.Failed && status >= 400 && strings.Contains(e.ErrorText, "cancel") {
			t.Errorf("%s: that the agent left is the error of the provider: %q", name, e.ErrorText)
		}
	}
	whole := answer(assistant("hello"))
	f("read", 200, whole, "", "false -; 1 calls, 0 failed, 0 cancelled")
	f("closed early", 200, whole[:20], "closed before the end of the body", "false cut_short; 1 calls, 0 failed, 0 cancelled")
	f("broken off", 200, whole[:20], "unexpected EOF", "false cut_short; 1 calls, 0 failed, 0 cancelled")
	f("cancelled before the answer", 0, nil, "context canceled", "false cancelled; 0 calls, 0 failed, 1 cancelled")
	f("cancelled while it came", 200, whole[:20], event.ErrorCancelled, "false cancelled; 0 calls, 0 failed, 1 cancelled")
	f("cancelled after an error", 500, fault("boom"), "context canceled", "true invalid_request_error; 1 calls, 1 failed, 0 cancelled")
	f("cancelled before the text of an error", 400, nil, "context canceled", "true 400; 1 calls, 1 failed, 0 cancelled")
	f("too slow", 0, nil, "context deadline exceeded", "true no_response; 1 calls, 1 failed, 0 cancelled")
}

// The agent does not know the calls of an answer that was cut off; it knows them once it has read the finish reason.
func TestCallsOfAnAnswerCutOff(t *testing.T) {
	f := func(name string, finish string, want int) {
		t.Helper()
		s := newStream("c1")
		id := s.exchange()
		s.request(id, hello...)
		r := s.response(id, 200, []byte(`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"f","arguments":"{\"a"}}]}`+finish+`}]}`+"\n\n"))
		r.ContentType, r.Error = "text/event-stream", "closed before the end of the body"
		if out := run(t, analyzer.Default(), s.steps); len(out.ToolCalls) != want || out.Exchanges[0].ToolCalls != 1 {
			t.Errorf("%s: %d calls, want %d", name, len(out.ToolCalls), want)
		}
	}
	f("in its middle", "", 0)
	f("after its end", `,"finish_reason":"tool_calls"`, 1)
}

// Long labels and bodies of a hostile service are short in rows and tallies.
func TestLongTexts(t *testing.T) {
	slowtest.SkipShort(t, "one goroutine, and slow under the race detector")
	s := newStream("c1")
	long := strings.Repeat("ü<", 1<<20)
	id := s.exchange()
	s.request(id, hello...)
	m := assistant("", long+" "+long)
	s.steps[0].ev.Body = body(msg{"model": long, "messages": []msg{user("q"), tool(long, "x")}})
	s.steps[0].ev.BodyBytes = len(s.steps[0].ev.Body)
	s.response(id, 200, body(msg{"id": long, "model": long, "choices": []msg{{"message": m, "finish_reason": long}}}))
	s.fail(400, long, hello...)
	s.advance(time.Minute)
	out := run(t, analyzer.Default(), s.steps)
	for _, b := range [][]byte{body(out.Exchanges), body(out.Findings), body(out.ToolCalls), body(out.Tallies)} {
		if len(b) > 100<<10 {
			t.Errorf("%d bytes: %.300s", len(b), b)
		}
	}
	if len(out.Findings) == 0 {
		t.Error("no finding")
	}
}

// A tally fits into a message, whatever the labels.
func TestTallyFitsAMessage(t *testing.T) {
	cfg := analyzer.Default()
	s := newStream("c1")
	for i := range 3000 {
		s.labels = event.Labels{
			Service: fmt.Sprint("s", i%199, strings.Repeat("\x01<ü", 60)), ServiceVersion: fmt.Sprint(i % 198), Agent: fmt.Sprint(i % 197), Stage: fmt.Sprint(i % 196),
			Environment: strings.Repeat("e", 512),
		}
		s.fail(500, strings.Repeat("<boom>", 200), orphan...)
	}
	for i := range s.steps {
		s.steps[i].at.Time = epoch
	}
	s.now = epoch
	s.advance(10 * time.Second)
	out := run(t, cfg, s.steps)
	for _, y := range out.Tallies {
		if n := len(body(y)); n > 1<<20-8<<10 {
			t.Errorf("second %d: %d bytes, %d counts, %d examples", y.Second, n, len(y.Counts), len(y.Examples))
		}
	}
	if n := counts(out); n[analyzer.MetricCalls] != 3000 || n[analyzer.MetricFailed] != 3000 {
		t.Errorf("counted %v", n)
	}
	if !bytes.Contains(body(out.Tallies), []byte(`"other"`)) {
		t.Error("nothing was folded; the test shows nothing")
	}
}
