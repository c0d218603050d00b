package facts

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A hostile body is designed to take more than linear time; n is its approximate size.
type hostile struct {
	name string
	body func(n int) string
}

// many repeats a text up to n bytes.
func many(piece string, n int) string { return strings.Repeat(piece, n/len(piece)) }

// around makes a hostile body that repeats a text between a start and an end.
func around(name, start, piece, end string) hostile {
	return hostile{name, func(n int) string { return start + many(piece, n) + end }}
}

// deep makes a nested hostile body.
func deep(name, start, open, inner, shut, end string) hostile {
	return hostile{name, func(n int) string {
		n /= len(open) + len(shut)
		return start + strings.Repeat(open, n) + inner + strings.Repeat(shut, n) + end
	}}
}

// hostileRequests returns hostile requests of each dialect. list is the member with the messages; text is a message of the
// assistant with the raw text %s; parts is a message with the list of parts %s, part one of the parts.
var hostileRequests = func() map[wire.Dialect][]hostile {
	all := map[wire.Dialect][]hostile{}
	for d, words := range map[wire.Dialect]struct{ list, text, parts, part string }{
		wire.OpenAIChat: {"messages", `{"content":"%s","role":"assistant"}`, `{"content":[%s],"role":"assistant"}`, `{"text":"\u0061","type":"text"}`},
		wire.Cohere:     {"messages", `{"content":"%s","role":"assistant"}`, `{"content":[%s],"role":"assistant"}`, `{"text":"\u0061","type":"text"}`},
		wire.OpenAIResponses: {
			"input", `{"content":"%s","role":"assistant"}`, `{"content":[%s],"role":"assistant"}`,
			`{"text":"\u0061","type":"output_text"}`,
		},
		wire.Anthropic: {"messages", `{"content":"%s","role":"assistant"}`, `{"content":[%s],"role":"assistant"}`, `{"text":"\u0061","type":"text"}`},
		wire.Gemini:    {"contents", `{"parts":[{"text":"%s"}],"role":"model"}`, `{"parts":[%s],"role":"model"}`, `{"text":"\u0061"}`},
		wire.Bedrock:   {"messages", `{"content":[{"text":"%s"}],"role":"assistant"}`, `{"content":[%s],"role":"assistant"}`, `{"text":"\u0061"}`},
	} {
		start, end := `{"`+words.list+`":[`, `]}`
		text := func(piece string) (string, string, string) {
			before, after, _ := strings.Cut(words.text, "%s")
			return start + before, piece, after + end
		}
		in := func(message, piece string) (string, string, string) {
			before, after, _ := strings.Cut(message, "%s")
			return start + before, piece + ",", piece + after + end
		}
		list := []hostile{
			around("quotes", `{"a":"`, `\"`, `"}`),
			around("keys", `{`, `"\u0061":1,`, `"a":1}`),
			around("lists", `{`, `"`+words.list+`":[{"role":"\u0075"}],`, `"a":1}`),
			around("messages", start, `{},`, `{}`+end),
			around("roles", start+`{`, `"role":"\u0075",`, `"role":"user"}`+end),
			around("fields", start+`{`, `"\u0078":{},`, `"role":"user"}`+end),
			deep("objects", `{"`+words.list+`":`, `{"a":`, `1`, `}`, `}`),
			deep("arrays", start, `[`, ``, `]`, end),
			around("tools", `{"tools":[`, `{"function":{"name":"\u0061"},"type":"function","name":"f","functionDeclarations":[{"name":"f"}]},`, `{}]}`),
		}
		add := func(name string, start, piece, end string) { list = append(list, around(name, start, piece, end)) }
		s, p, e := text(`\\`)
		add("backslashes", s, p, e)
		s, p, e = text(`\u0061`)
		add("escapes", s, p, e)
		s, p, e = text(`\ud83d`)
		add("surrogates", s, p, e)
		s, p, e = in(words.parts, `{}`)
		add("empty parts", s, p, e)
		s, p, e = in(words.parts, words.part)
		add("parts", s, p, e)
		s, p, e = in(words.parts, `{"type":"\u0074ext","x":1}`)
		add("foreign parts", s, p, e)
		all[d] = list
	}
	for _, d := range []wire.Dialect{wire.OpenAIChat, wire.Cohere} {
		call := `{"messages":[{"tool_calls":[`
		all[d] = append(all[d],
			around("arguments", call+`{"function":{"arguments":"`, `{}`, `"}}]}]}`),
			deep("deep arguments", call+`{"function":{"arguments":"`, `{\"a\":`, `1`, `}`, `"}}]}]}`),
			around("calls", call, `{"id":"\u0061","function":{"name":"f"}},`, `{}]}]}`),
			around("signatures", call+`{`, `"extra_content":{"google":{"thought_signature":"a"}},`, `"id":"a"}]}]}`),
			around("contents", `{"messages":[{`, `"content":[{"type":"text","text":"a"}],`, `"role":"assistant"}]}`),
			around("replies", `{"messages":[`, `{"role":"tool","tool_call_id":"\u0061"},`, `{}]}`))
	}
	block := `{"messages":[{"content":[`
	all[wire.Anthropic] = append(all[wire.Anthropic],
		around("foreign keys", block+`{"type":"text"`, `,"x":1`, `}]}]}`),
		around("inner", block+`{"type":"tool_result","content":[`, `{"type":"text","x":1},`, `{}]}]}]}`),
		around("contents", block+`{"type":"tool_result"`, `,"content":[{}]`, `}]}]}`),
		around("signatures", `{"messages":[{"role":"assistant","content":[`, `{"type":"thinking","signature":"\u0061"},`, `{}]}]}`),
		around("calls", block, `{"type":"tool_use","id":"a","input":"{}"},`, `{}]}]}`),
		deep("deep results", block, `{"type":"tool_result","content":[`, ``, `]}`, `]}]}`))
	all[wire.Bedrock] = append(all[wire.Bedrock],
		around("calls", block, `{"toolUse":{"toolUseId":"a","input":"{}"}},`, `{}]}]}`),
		around("results", block+`{"toolResult":{`, `"content":[{"text":"a"}],`, `"toolUseId":"a"}}]}]}`),
		around("signatures", block, `{"reasoningContent":{"reasoningText":{"signature":"\u0061"}}},`, `{}]}]}`),
		deep("deep cited", block, `{"citationsContent":{"content":[`, ``, `]}}`, `]}]}`))
	parts := `{"contents":[{"parts":[`
	all[wire.Gemini] = append(all[wire.Gemini],
		around("calls", parts, `{"functionCall":{"name":"f","args":"{}"}},`, `{}]}]}`),
		around("calls of a part", parts+`{`, `"functionCall":{"name":"f"},`, `"text":"a"}]}]}`),
		around("signatures", parts, `{"thoughtSignature":"_-\/"},`, `{}]}]}`),
		deep("deep replies", parts, `{"functionResponse":{"parts":[`, ``, `]}}`, `]}]}`))
	all[wire.OpenAIResponses] = append(all[wire.OpenAIResponses],
		around("foreign keys", `{"input":[{"type":"function_call"`, `,"x":1`, `}]}`),
		around("calls", `{"input":[`, `{"arguments":"{}","type":"function_call","call_id":"a"},`, `{}]}`),
		around("outputs", `{"input":[{`, `"output":[{"type":"input_text","text":"a"}],`, `"type":"function_call_output"}]}`),
		around("items", `{"input":[`, `{"type":"reasoning","id":"rs_1","encrypted_content":"\u0061"},`, `{}]}`))
	return all
}()

// hostileAnswers returns hostile answers of each dialect and, last, of all dialects. Each event of a stream may cost a search of
// all calls before it, of which an answer keeps at most maxAnswerCalls: the streams have more.
var hostileAnswers = func() map[wire.Dialect][]hostile {
	frames := func(name string, payload func(i int) string) hostile {
		return hostile{name, func(n int) string {
			var b []byte
			for i := 0; i < maxAnswerCalls || len(b) < n; i++ {
				b = eventstream.Append(b, eventstream.Message{Type: []byte("event"), EventType: []byte("contentBlockDelta"), Payload: []byte(payload(i))})
			}
			return string(b)
		}}
	}
	events := func(name string, event func(i int) string) hostile {
		return hostile{name, func(n int) string {
			var b strings.Builder
			for i := 0; i < maxAnswerCalls || b.Len() < n; i++ {
				b.WriteString("data: " + event(i) + "\n\n")
			}
			return b.String()
		}}
	}
	all := map[wire.Dialect][]hostile{
		wire.OpenAIChat: {
			events("calls", func(i int) string {
				return fmt.Sprintf(`{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"%d","function":{"name":"f","arguments":"{}"}}]}}]}`, i, i)
			}),
			events("fragments", func(i int) string {
				return fmt.Sprintf(`{"choices":[{"delta":{"tool_calls":[{"index":%d,"function":{"arguments":"{\""}}]}}]}`, i%1024)
			}),
			around("choices", `{"choices":[`, `{"index":0,"message":{}},`, `{}]}`),
			around("late index", `{"choices":[{`, `"a":{},`, `"index":0}]}`),
			around("lines", ``, `{"message":{"content":"\u0061"},"done":false}`+"\n", ``),
		},
		wire.Cohere: {
			events("calls", func(i int) string {
				return fmt.Sprintf(`{"type":"tool-call-start","index":%d,"delta":{"message":{"tool_calls":{"id":"%d","function":{"name":"f"}}}}}`, i, i)
			}),
			around("messages", `{`, `"message":{"content":[{"text":"a"}]},`, `"id":"a"}`),
		},
		wire.OpenAIResponses: {
			events("items", func(i int) string {
				return fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":{"type":"function_call","id":"fc_%d"}}`, i, i)
			}),
			events("fragments", func(i int) string {
				return fmt.Sprintf(`{"type":"response.function_call_arguments.delta","item_id":"fc_%d","delta":"{\""}`, i%1024)
			}),
			events("reasoning", func(i int) string {
				return fmt.Sprintf(`{"type":"response.output_item.done","item":{"type":"reasoning","id":"rs_%d","encrypted_content":"a"}}`, i)
			}),
			around("outputs", `{`, `"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}],`, `"id":"a"}`),
		},
		wire.Anthropic: {
			events("calls", func(i int) string {
				return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"%d","name":"f"}}`, i, i)
			}),
			events("fragments", func(i int) string {
				return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":"{\""}}`, i%1024)
			}),
			frames("frames", func(int) string {
				return `{"bytes":"` + base64.StdEncoding.EncodeToString([]byte(`{"type":"ping"}`)) + `"}`
			}),
			deep("deep messages", ``, `{"type":"message_start","message":`, `{}`, `}`, ``),
		},
		wire.Gemini: {
			events("calls", func(int) string { return `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}]}` }),
			events("arguments", func(int) string {
				return `{"candidates":[{"content":{"parts":[{"functionCall":{"args":{"a":1}}}]}}]}`
			}),
			around("candidates", `{"candidates":[`, `{"index":0},`, `{}]}`),
			around("late index", `{"candidates":[{`, `"a":{},`, `"index":0}]}`),
			around("bare lines", "data: {}\n\n", "\n{", ""),
			deep("arrays of chunks", ``, `[{"candidates":`, `1`, `}]`, ``),
		},
		wire.Bedrock: {
			frames("calls", func(i int) string {
				return fmt.Sprintf(`{"contentBlockIndex":%d,"delta":{"toolUse":{"input":"{\""}}}`, i)
			}),
			frames("texts", func(int) string { return `{"delta":{"text":"\u0061"}}` }),
			around("blocks", `{"output":{"message":{"content":[`, `{"toolUse":{"toolUseId":"a"}},`, `{}]}}}`),
		},
	}
	for d := range all {
		all[d] = append(all[d],
			around("quotes", `{"a":"`, `\"`, `"}`), around("errors", `{`, `"error":{"message":"\u0061"},`, `"id":"a"}`),
			deep("arrays", `{"a":`, `[`, ``, `]`, `}`), around("open", ``, `[{`, ``), around("no JSON", ``, "data: {\n\n", ``),
			around("data lines", ``, "data: {\n", ``), around("returns", `data: `, "\r", ``), around("several", `data: `, `{}`, ``), around("text", ``, `x`, ``))
	}
	return all
}()

// eachHostile calls f with a name and a scan for every hostile body of every dialect.
func eachHostile(f func(name string, h hostile, scan func([]byte))) {
	var q Request
	var r Response
	for _, d := range wire.Dialects {
		for _, h := range hostileRequests[d] {
			f(string(d)+"/request/"+h.name, h, func(b []byte) { _ = ScanRequest(d, b, &q) }) // most are not JSON
		}
		for _, h := range hostileAnswers[d] {
			f(string(d)+"/answer/"+h.name, h, func(b []byte) { _ = ScanResponse(d, "", b, &r) }) // the dialects are valid
		}
	}
}

// Hostile bodies take linear time: a quadratic scan would take 256 times as long for a body of sixteen times the size; the
// test fails at 80 times. It measures CPU time, the minimum of several runs, so load does not matter.
func TestHostileTakesLinearTime(t *testing.T) {
	slowtest.SkipShort(t, "one goroutine, and slow under the race detector")
	const small, times, limit, tries = 1 << 16, 16, 5, 10
	eachHostile(func(name string, h hostile, scan func([]byte)) {
		one, more := []byte(h.body(small)), []byte(h.body(times*small))
		scan(more) // grow the memory before measuring
		took := func(body []byte) time.Duration {
			begun := slowtest.Processor(t)
			scan(body)
			return max(slowtest.Processor(t)-begun, time.Microsecond)
		}
		best, bestMore := took(one), took(more)
		for range tries {
			if bestMore*time.Duration(len(one)) < limit*best*time.Duration(len(more)) {
				return
			}
			best, bestMore = min(best, took(one)), min(bestMore, took(more))
		}
		t.Errorf("%s: %d KB take %v, %d KB take %v", name, len(one)>>10, best, len(more)>>10, bestMore)
	})
}

// BenchmarkScanHostile measures each hostile body in two sizes, in MB/s.
func BenchmarkScanHostile(b *testing.B) {
	eachHostile(func(name string, h hostile, scan func([]byte)) {
		for _, n := range []int{100_000, 10_000_000} {
			body := []byte(h.body(n))
			b.Run(fmt.Sprintf("%s/%dKB", name, n/1000), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					scan(body)
				}
			})
		}
	})
}
