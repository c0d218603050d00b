package analyzer_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/dist"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func distOf(values ...uint64) (d dist.Dist) {
	for _, v := range values {
		d.Add(v)
	}
	return d
}

// Accepted calls that the agent read to the end are measured, whose tokens are unknown without usage.
func TestMeasured(t *testing.T) {
	s := newStream("c1")
	f := func(status int, body []byte, change func(q, r *event.Event)) {
		id := s.exchange()
		q := s.request(id, hello...)
		r := s.response(id, status, body)
		if change != nil {
			change(q, r)
		}
	}
	answered := answer(assistant("hello"))
	f(200, answered, nil)
	f(200, answered, func(_, r *event.Event) { r.Duration, r.FirstByte = 4200*time.Millisecond, 300*time.Millisecond }) // not a stream
	f(200, []byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":200,\"completion_tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":128}}}\n\ndata: [DONE]\n\n"),
		func(q, r *event.Event) {
			q.Body = []byte(`{"model":"deepseek-chat","stream":true,"messages":[{"role":"user","content":"q"}]}`)
			r.FirstByte, r.ContentType = 400*time.Millisecond, "text/event-stream"
		})
	f(200, body(msg{"choices": []msg{{"message": assistant("hello"), "finish_reason": "stop"}}}), nil)        // without usage
	f(400, fault(orphanText), nil)                                                                            // failed
	f(200, answered, func(q, _ *event.Event) { q.Retry = 1 })                                                 // an attempt of the SDK
	f(200, answered, func(_, r *event.Event) { r.Error = "context canceled" })                                // cancelled
	f(200, answered, func(q, r *event.Event) { q.Origin, r.Origin = event.OriginImport, event.OriginImport }) // imported
	f(200, answered, func(q, _ *event.Event) { q.Body = []byte(`{"model":"new","messages":[{"role":"user","content":"q"}]}`) })
	for i := range s.steps {
		s.steps[i].at.Time = epoch.Add(time.Duration(i) * time.Millisecond)
	}
	s.advance(10 * time.Second)
	out := run(t, analyzer.Default(), s.steps)
	var got analyzer.Measured
	for _, y := range out.Tallies {
		for _, c := range y.Counts {
			if c.Measured != nil {
				got.Merge(c.Measured)
			}
		}
	}
	want := analyzer.Measured{
		Duration: distOf(1000, 4200, 1000, 1000, 1000), FirstToken: distOf(400), InputTokens: distOf(100, 100, 200, 100), OutputTokens: distOf(7, 7, 9, 7),
		Cost: distOf(31, 31, 28), Unpriced: 1, // microdollars; the price of the model new is unknown
		History: distOf(2, 2, 1, 2, 1),
	}
	must.Agree(t, cmp.Diff(want, got), "measured")
}

// Only answers that do not end as they should count as odd.
func TestOddAnswers(t *testing.T) {
	f := func(name, url, body, want string) {
		t.Helper()
		s := newStream("c1")
		id := s.exchange()
		s.add(&event.Event{Kind: event.Request, Exchange: id, URL: url, Method: "POST", Body: []byte(`{"model":"m"}`)})
		s.response(id, 200, []byte(body))
		s.advance(10 * time.Second)
		got, examples := "", 0
		for _, y := range run(t, analyzer.Default(), s.steps).Tallies {
			for _, c := range y.Counts {
				if c.Metric == analyzer.MetricOdd {
					got = c.Labels["ended"]
				}
			}
			for _, x := range y.Examples {
				examples++
				if x.Exchange != id || x.Summary == "" || x.Fix == "" {
					t.Errorf("%s: the example is %+v", name, x)
				}
			}
		}
		if got != want || (examples > 0) != (want != "") {
			t.Errorf("%s ended %q with %d examples, want %q", name, got, examples, want)
		}
	}
	const (
		chat      = "https://api.openai.com/v1/chat/completions"
		responses = "https://api.openai.com/v1/responses"
		anthropic = "https://api.anthropic.com/v1/messages"
		gemini    = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent"
		bedrock   = "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse"
	)
	f("chat", chat, `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`, "")
	f("chat, a call", chat, `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, "")
	f("chat, audio", chat, `{"choices":[{"message":{"content":null,"audio":{"data":"x"}},"finish_reason":"stop"}]}`, "")
	f("chat, cut off", chat, `{"choices":[{"message":{"content":"a"},"finish_reason":"length"}]}`, analyzer.EndedLimit)
	f("chat, nothing", chat, `{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}`, analyzer.EndedEmpty)
	f("chat, an empty text", chat, `{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}`, analyzer.EndedEmpty)
	f("chat, refused", chat, `{"choices":[{"message":{"content":null,"refusal":"No."},"finish_reason":"stop"}]}`, analyzer.EndedRefused)
	f("chat, filtered", chat, `{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}`, analyzer.EndedFiltered)
	f("chat, no finish reason", chat, `{"choices":[{"message":{"content":""}}]}`, "")
	f("responses", responses, `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}]}`, "")
	f("responses, an image", responses, `{"status":"completed","output":[{"type":"image_generation_call","id":"i"}]}`, "")
	f("responses, later", responses, `{"status":"queued","output":[]}`, "")
	f("responses, nothing", responses, `{"status":"completed","output":[]}`, analyzer.EndedEmpty)
	f("responses, cut off", responses, `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`, analyzer.EndedLimit)
	f("responses, refused", responses, `{"status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"No."}]}]}`, analyzer.EndedRefused)
	f("anthropic, nothing", anthropic, `{"type":"message","role":"assistant","content":[],"stop_reason":"end_turn"}`, analyzer.EndedEmpty)
	f("anthropic, refused", anthropic, `{"type":"message","role":"assistant","content":[],"stop_reason":"refusal"}`, analyzer.EndedRefused)
	f("anthropic, cut off", anthropic, `{"type":"message","role":"assistant","content":[{"type":"text","text":"a"}],"stop_reason":"max_tokens"}`, analyzer.EndedLimit)
	f("anthropic", anthropic, `{"type":"message","role":"assistant","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn"}`, "")
	f("gemini, filtered", gemini, `{"candidates":[{"content":{"role":"model"},"finishReason":"SAFETY"}]}`, analyzer.EndedFiltered)
	f("gemini, an image", gemini, `{"candidates":[{"content":{"role":"model","parts":[{"inlineData":{"data":"x"}}]},"finishReason":"STOP"}]}`, "")
	f("bedrock, filtered", bedrock, `{"output":{"message":{"role":"assistant","content":[{"text":"a"}]}},"stopReason":"guardrail_intervened"}`, analyzer.EndedFiltered)
}
