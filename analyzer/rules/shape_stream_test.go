package rules_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/dialect"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// An object is a JSON object.
type object map[string]any

// A said is what a model says in one answer.
type said = dialect.Message

func randomSaid(r *rand.Rand) said {
	s, text := said{Role: "assistant"}, ""
	s.Text = &text
	words := []string{"read ", "config.py", "\n", "\"quoted\"", "\\", "日本", "😀", "</b>", "\u2028", " "}
	for range 1 + r.IntN(12) {
		text += words[r.IntN(len(words))]
	}
	for i := range r.IntN(4) {
		args := object{"path": text, "n": r.IntN(99), "deep": []any{object{"b": true, "a": nil}, text}}
		b, err := json.Marshal(args)
		if err != nil {
			panic(err)
		}
		s.Calls = append(s.Calls, dialect.Call{ID: fmt.Sprintf("call_%d", i), Name: fmt.Sprintf("tool_%d", i%2), Args: string(b)})
	}
	return s
}

// pieces cuts s into random pieces between characters.
func pieces(r *rand.Rand, s string) (ps []string) {
	runes := []rune(s)
	for len(runes) > 0 {
		n := 1 + r.IntN(min(len(runes), 7))
		ps = append(ps, string(runes[:n]))
		runes = runes[n:]
	}
	return ps
}

// whole returns an answer that is not a stream.
func whole(d wire.Dialect, finish string, s said) string {
	return encode(dialect.Of(d).Response(&dialect.Response{Finish: finish, Messages: dialect.Of(d).Answered(s)}))
}

// A speaker says the same thing as whole, as a stream.
type speaker struct {
	dialect wire.Dialect
	finish  string // of whole
	events  func(*rand.Rand, said) []any
	framed  func(any) string
}

func data(e any) string { return "data: " + encode(e) + "\n\n" }
func named(e any) string {
	return fmt.Sprintf("event: %v\ndata: %s\n\n", e.(object)["type"], encode(e))
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

var speakers = []speaker{
	{wire.OpenAIChat, "stop", func(r *rand.Rand, s said) (es []any) {
		delta := func(d object) any { return object{"choices": []any{object{"index": 0, "delta": d}}} }
		es = append(es, delta(object{"role": "assistant", "content": ""}))
		for _, p := range pieces(r, *s.Text) {
			es = append(es, delta(object{"content": p}))
		}
		left := make([][]string, len(s.Calls))
		for i, c := range s.Calls {
			es = append(es, delta(object{"tool_calls": []any{object{"index": i, "id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": ""}}}}))
			left[i] = pieces(r, c.Args)
		}
		for range 10000 { // the calls' fragments come in any order
			for i := range left {
				if len(left[i]) > 0 && r.IntN(2) == 0 {
					es = append(es, delta(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": left[i][0]}}}}))
					left[i] = left[i][1:]
				}
			}
		}
		return append(es, object{"choices": []any{object{"index": 0, "delta": object{}, "finish_reason": "stop"}}})
	}, data},
	{wire.OpenAIResponses, "", func(r *rand.Rand, s said) (es []any) {
		for i, it := range items(s) {
			it := it.(object)
			es = append(es, object{"type": "response.output_item.added", "output_index": i, "item": object{"type": it["type"], "id": it["id"], "call_id": it["call_id"], "name": it["name"], "arguments": "", "content": []any{}}})
			kind, text := "response.output_text.delta", *s.Text
			if it["type"] == "function_call" {
				kind, text = "response.function_call_arguments.delta", it["arguments"].(string)
			}
			for _, p := range pieces(r, text) {
				es = append(es, object{"type": kind, "item_id": it["id"], "output_index": i, "content_index": 0, "delta": p})
			}
			es = append(es, object{"type": "response.output_item.done", "output_index": i, "item": it})
		}
		return append(es, object{"type": "response.completed", "response": object{"object": "response", "status": "completed", "output": items(s)}})
	}, named},
	{wire.Anthropic, "tool_use", func(r *rand.Rand, s said) (es []any) {
		es = append(es, object{"type": "message_start", "message": object{"type": "message", "role": "assistant", "content": []any{}}},
			object{"type": "content_block_start", "index": 0, "content_block": object{"type": "text", "text": ""}})
		for _, p := range pieces(r, *s.Text) {
			es = append(es, object{"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": p}})
		}
		for i, c := range s.Calls {
			es = append(es, object{"type": "content_block_start", "index": i + 1, "content_block": object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}}})
			for _, p := range pieces(r, c.Args) {
				es = append(es, object{"type": "content_block_delta", "index": i + 1, "delta": object{"type": "input_json_delta", "partial_json": p}})
			}
			es = append(es, object{"type": "content_block_stop", "index": i + 1})
		}
		return append(es, object{"type": "message_delta", "delta": object{"stop_reason": "tool_use"}}, object{"type": "message_stop"})
	}, named},
	{
		wire.Gemini, "STOP",
		func(r *rand.Rand, s said) (es []any) {
			for _, p := range pieces(r, *s.Text) {
				es = append(es, gemini("", dialect.Object{"text": p}))
			}
			for _, c := range dialect.Of(wire.Gemini).Message(&said{Calls: s.Calls}, true)[0]["parts"].([]dialect.Object) {
				es = append(es, gemini("", c))
			}
			return append(es, gemini("STOP", dialect.Object{"text": ""}))
		}, data,
	},
	{wire.Bedrock, "tool_use", func(r *rand.Rand, s said) (es []any) {
		for _, p := range pieces(r, *s.Text) {
			es = append(es, object{"contentBlockDelta": object{"contentBlockIndex": 0, "delta": object{"text": p}}})
		}
		for i, c := range s.Calls {
			es = append(es, object{"contentBlockStart": object{"contentBlockIndex": i + 1, "start": object{"toolUse": object{"toolUseId": c.ID, "name": c.Name}}}})
			for _, p := range pieces(r, c.Args) {
				es = append(es, object{"contentBlockDelta": object{"contentBlockIndex": i + 1, "delta": object{"toolUse": object{"input": p}}}})
			}
			es = append(es, object{"contentBlockStop": object{"contentBlockIndex": i + 1}})
		}
		return append(es, object{"messageStop": object{"stopReason": "tool_use"}})
	}, awsFrame},
}

func items(s said) []any {
	is := []any{object{"type": "message", "id": "msg_1", "role": "assistant", "content": []any{object{"type": "output_text", "text": *s.Text}}}}
	for i, c := range s.Calls {
		is = append(is, object{"type": "function_call", "id": fmt.Sprintf("fc_%d", i), "call_id": c.ID, "name": c.Name, "arguments": c.Args})
	}
	return is
}

func gemini(finish string, parts ...dialect.Object) any {
	m := dialect.Object{"role": "model", "parts": parts}
	return object(dialect.Of(wire.Gemini).Response(&dialect.Response{Finish: finish, Messages: []any{m}}))
}

// awsFrame is the frame of an event, whose name is its only key.
func awsFrame(e any) string {
	for name, payload := range e.(object) {
		h := append([]byte{11}, ":event-type"...)
		h = append(h, 7, 0, byte(len(name)))
		h = append(h, name...)
		p := encode(payload)
		b := binary.BigEndian.AppendUint32(nil, uint32(16+len(h)+len(p)))
		b = binary.BigEndian.AppendUint32(b, uint32(len(h)))
		b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
		b = append(append(b, h...), p...)
		return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
	}
	return ""
}

// TestStreamsAreShapedLikeAnswers: who assembles a shaped stream gets what the shape of the whole answer says, with the
// same texts and the same arguments; and so it is for a stream that breaks off.
func TestStreamsAreShapedLikeAnswers(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	s := shape.New([]byte("key"))
	read := map[wire.Dialect]bool{}
	for range 200 {
		what := randomSaid(r)
		for _, sp := range speakers {
			d := wire.Dialect(sp.dialect)
			want, ok := answer(sp.dialect, s.Response(d, []byte(whole(d, sp.finish, what)), noLimit))
			if !ok {
				continue
			}
			read[sp.dialect] = true
			var stream strings.Builder
			for _, e := range sp.events(r, what) {
				stream.WriteString(sp.framed(e))
			}
			shaped := string(s.Response(d, []byte(stream.String()), noLimit))
			got, _ := answer(sp.dialect, []byte(shaped))
			if diff := cmp.Diff(texts(want), texts(got)); diff != "" {
				t.Fatalf("%s (-answer +stream):\n%s%s\n%s", sp.dialect, diff, stream.String(), shaped)
			}
			cut := r.IntN(stream.Len())
			half := string(s.Response(d, []byte(stream.String()[:cut]), noLimit))
			for _, word := range []string{"config.py", "quoted", "path"} {
				if strings.Contains(half, word) {
					t.Fatalf("%s: %q leaks from a stream cut at %d: %s", sp.dialect, word, cut, half)
				}
			}
		}
	}
	if !read[wire.OpenAIChat] {
		t.Error("no stream of chat completions was read")
	}
	t.Logf("compared %v", read)
}

// texts is what of an answer must not depend on how it came.
func texts(r facts.Response) any {
	type call struct{ ID, Name, Arguments string }
	var calls []call
	for _, c := range r.Calls {
		calls = append(calls, call{c.ID, c.Name, c.Arguments})
	}
	return struct {
		Content facts.Kind
		Hash    uint64
		Bytes   int
		Finish  string
		Calls   []call
	}{r.Content, r.ContentHash, r.ContentBytes, r.FinishReason, calls}
}

// TestNameBeforeArguments: a call whose first fragment has a name and no arguments keeps the form of its arguments.
func TestNameBeforeArguments(t *testing.T) {
	chunk := func(call string) string {
		return `data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[` + call + `]}}]}` + "\n\n"
	}
	stream := chunk(`{"index":0,"id":"call_1","type":"function","function":{"name":"read_file"}}`) +
		chunk(`{"index":0,"function":{"arguments":"{\"pa"}}`) + chunk(`{"index":0,"function":{"arguments":"th\":1}"}}`) + "data: [DONE]\n\n"
	r, _ := answer(wire.OpenAIChat, shape.New([]byte("key")).Response("openai_chat", []byte(stream), noLimit))
	if len(r.Calls) != 1 || r.Calls[0].Args != facts.ArgsObject {
		t.Errorf("the shape has the calls %+v, want one whose arguments are an object", r.Calls)
	}
}
