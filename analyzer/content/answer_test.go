package content_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
)

func newRedactor(t testing.TB) *content.Redactor {
	t.Helper()
	r := must.Get(redact.NewRedactor(redact.Config{Kinds: redact.Kinds, Patterns: []string{`EMP-\d{6}`}}))(t)
	return content.NewRedactor(r)
}

const (
	secretKey  = "sk-proj-aB3cD4eF5gH6iJ7kL8mN9oPqR0sTuV1wXyZ2aB3cD4eF5"
	secretText = "Use \"" + secretKey + "\", or mail jane@example.com,\nas EMP-123456."
	maskedText = "Use \"sk-***\", or mail ***@***,\nas ***."
)

// streamOf has an event for each fragment of secretText.
func streamOf(event func(fragment string) string) string {
	var b strings.Builder
	for part := range slices.Chunk([]byte(secretText), 5) {
		fragment, _ := json.Marshal(string(part))
		b.WriteString(event(string(fragment)))
	}
	return b.String()
}

func each(format string) func(string) string {
	return func(fragment string) string { return strings.ReplaceAll(format, "TEXT", fragment) }
}

// texts returns all strings of the member name, in the order of the body.
func texts(body, name string) (text string) {
	for _, s := range strings.Split(body, `"`+name+`":"`)[1:] {
		var part string
		if err := json.NewDecoder(strings.NewReader(`"` + s)).Decode(&part); err != nil {
			return err.Error()
		}
		text += part
	}
	return text
}

func TestStreamedSecrets(t *testing.T) {
	r := newRedactor(t)
	f := func(name, body string) {
		t.Helper()
		got := string(r.Append([]byte("x"), content.KindAnswer, []byte(body)))[1:]
		must.Equal(t, texts(got, name), maskedText, "%s", got)
		must.Equal(t, string(r.Append(nil, content.KindAnswer, []byte(got))), got, "masked twice")
		for range len(body) { // cut off anywhere
			body = body[:len(body)-1]
			r.Append(nil, content.KindAnswer, []byte(body))
		}
	}
	f("content", streamOf(each(`data: {"id":"c","choices":[{"index":0,"delta":{"content":TEXT}}]}`+"\n\n"))+"data: [DONE]\n\n")
	f("text", streamOf(each("event: content_block_delta\r\n"+`data:{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":TEXT}}`+"\r\n\r\n")))
	f("delta", streamOf(each(`data: {"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":TEXT}`+"\n\n")))
	f("text", streamOf(each(`data: {"candidates":[{"content":{"role":"model","parts":[{"text":TEXT}]},"index":0}]}`+"\n\n")))
	f("text", "["+strings.TrimSuffix(streamOf(each(`{"candidates": [{"content":{"parts":[{"text":TEXT}]}}]}`+"\n,\n")), "\n,\n")+"]\n")
	f("content", streamOf(each(`{"model":"llama3","message":{"role":"assistant","content":TEXT},"done":false}`+"\n")))
	f("text", streamOf(each(`data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":TEXT}}}}`+"\n\n")))
	n := 0
	f("content", streamOf(func(fragment string) string { // two choices in turns, a new id each time, an event that is no JSON
		n++
		return fmt.Sprintf(`data: {"id":"%d","choices":[{"delta":{"content":%s},"index":0}]}`+"\n\n"+
			`data: {"id":"%d","choices":[{"delta":{"reasoning":"%d "},"index":1}]}`+"\n\ndata: {\"content\n\n: ping\n\n", n, fragment, n, n)
	}))
}

func TestStreamedArguments(t *testing.T) {
	r := newRedactor(t)
	args, want := `{"api_key":"hunter2hunter2","n":[1,2],"path":"a.txt"}`, `{"api_key":"***","n":[1,2],"path":"a.txt"}`
	for _, format := range []string{
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":TEXT}}]}}]}` + "\n\n",
		`data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","arguments":TEXT}}` + "\n\n",
	} {
		var b strings.Builder
		for part := range slices.Chunk([]byte(args), 3) {
			fragment, _ := json.Marshal(string(part))
			b.WriteString(strings.ReplaceAll(format, "TEXT", string(fragment)))
		}
		must.Equal(t, texts(string(r.Append(nil, content.KindAnswer, []byte(b.String()))), "arguments"), want, "texts")
	}
}

func TestStreamedFrames(t *testing.T) {
	r := newRedactor(t)
	frame := func(payload string) string {
		return string(eventstream.Append(nil, eventstream.Message{Type: []byte("event"), EventType: []byte("contentBlockDelta"), Payload: []byte(payload)}))
	}
	f := func(body string) {
		t.Helper()
		got := r.Append(nil, content.KindAnswer, []byte(body))
		var events []byte
		for m, err := range eventstream.Messages(got) {
			must.Do(t, err)
			var encoded struct{ Bytes []byte }
			must.Do(t, json.Unmarshal(m.Payload, &encoded))
			if len(encoded.Bytes) > 0 {
				m.Payload = encoded.Bytes
			}
			events = append(events, m.Payload...)
		}
		must.Equal(t, texts(string(events), "text"), maskedText, "texts")
		if again := r.Append(nil, content.KindAnswer, got); !bytes.Equal(again, got) {
			t.Error("masked twice")
		}
		for range len(body) {
			body = body[:len(body)-1]
			r.Append(nil, content.KindAnswer, []byte(body))
		}
	}
	f(streamOf(func(fragment string) string {
		return frame(`{"contentBlockIndex":0,"delta":{"text":` + fragment + `},"p":"abc"}`)
	}) + frame(`{"stopReason":"end_turn"}`))
	f(streamOf(func(fragment string) string {
		return frame(`{"bytes":"` + base64.StdEncoding.EncodeToString([]byte(`{"type":"content_block_delta","index":0,"delta":{"text":`+fragment+`}}`)) + `","p":"abcd"}`)
	}))
}

// What has no secret in it, or is not streamed, is the same as without fragments.
func TestStreamedTextsWithoutSecrets(t *testing.T) {
	r := newRedactor(t)
	for _, body := range []string{
		"", "{", "[", "data:", `data: {"a":`, "data: {}\n\ndata: []\n\n", `<html>`, strings.Repeat(`{"content":`, 200), strings.Repeat("[", 1000),
		strings.Repeat(`data: {"choices":[{"index":0,"delta":{"content":"4111 1111 "}}]}`+"\n\n", 3),
		`{"choices":[{"message":{"content":"4111 1111"}},{"message":{"content":" 1111 1111"}}]}`,
	} {
		must.Equal(t, string(r.Append(nil, content.KindAnswer, []byte(body))), body, "%s becomes", body)
	}
}

func FuzzStreamedSecrets(f *testing.F) {
	r := newRedactor(f)
	f.Add([]byte(streamOf(each(`data: {"choices":[{"index":0,"delta":{"content":TEXT}}]}`+"\n\n"))), uint8(1))
	f.Add([]byte(streamOf(each(`{"message":{"content":TEXT}}`+"\n"))), uint8(0))
	f.Fuzz(func(t *testing.T, body []byte, size uint8) {
		got := r.Append(nil, content.KindAnswer, body)
		if json.Valid(body) && !json.Valid(got) {
			t.Errorf("%q becomes %q", body, got)
		}
		// Any text without keys, in fragments of any size, in a stream whose form is known.
		text, n := strings.ToValidUTF8(string(body), "?"), int(size)%9+1
		var b strings.Builder
		for runes := []rune(text + " " + secretKey); len(runes) > 0; runes = runes[min(n, len(runes)):] {
			fragment, _ := json.Marshal(string(runes[:min(n, len(runes))]))
			fmt.Fprintf(&b, `data: {"choices":[{"index":0,"delta":{"content":%s}}]}`+"\n\n", fragment)
		}
		if got := string(r.Append(nil, content.KindAnswer, []byte(b.String()))); strings.Contains(texts(got, "content"), secretKey) {
			t.Errorf("%q: the key is in the answer: %s", text, got)
		}
	})
}

func BenchmarkStreamedAnswer(b *testing.B) {
	r := newRedactor(b)
	var body []byte
	for range 2000 {
		body = append(body, `data: {"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,"model":"gpt-5","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}`+"\n\n"...)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	var dst []byte
	for b.Loop() {
		dst = r.Append(dst[:0], content.KindAnswer, body)
	}
}
