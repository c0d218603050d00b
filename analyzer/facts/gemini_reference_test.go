package facts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

// A readContent is a content or an answer decoded with encoding/json.
type readContent struct {
	Model          bool
	Text           string // of all parts except thoughts
	Thought        bool
	Calls, Replies []string // names
	Args           []Kind   // of the calls
}

// lastOf returns the last member with one of the names.
func (n node) lastOf(names ...string) node {
	if n.kind == Object {
		for i, k := range slices.Backward(n.keys) {
			if slices.Contains(names, k) {
				return n.elems[i]
			}
		}
	}
	return node{}
}

// list returns the elements of a list, or an object that replaces a list of one.
func (n node) list() []node {
	if n.kind == Object {
		return []node{n}
	}
	return n.elems
}

// add decodes parts.
func (c *readContent) add(parts node) {
	for _, p := range parts.list() {
		text := p.lastOf("text")
		thought := p.lastOf("thought").truth
		switch {
		case text.kind == String && !thought:
			if textBytes([]byte(text.text)) > 0 { // the shape of an empty text is no text
				c.Text += text.text
			}
		case text.kind == String:
			c.Thought = true
		}
		if call := p.lastOf("functionCall", "function_call"); call.kind > Null {
			c.Calls = append(c.Calls, call.lastOf("name").text)
			c.Args = append(c.Args, max(call.lastOf("args").kind, Null))
		}
		if reply := p.lastOf("functionResponse", "function_response"); reply.kind > Null {
			c.Replies = append(c.Replies, reply.lastOf("name").text)
		}
	}
}

// readGemini decodes the contents of a request; ok is false for bodies that encoding/json reads differently or not at all.
func readGemini(body []byte) (contents []readContent, ok bool) {
	if !json.Valid(body) || !utf8.Valid(body) {
		return nil, false
	}
	n := parse(body)
	if n.kind != Object {
		return nil, false
	}
	for _, m := range n.lastOf("contents").list() {
		var c readContent
		c.Model = strings.EqualFold(m.lastOf("role").text, "model") && m.lastOf("role").kind == String
		c.add(m.lastOf("parts"))
		contents = append(contents, c)
	}
	return contents, true
}

// checkGemini compares the contents of a body with the decoded ones, if it can be decoded.
func checkGemini(t *testing.T, f *Request, body []byte) {
	t.Helper()
	err := ScanRequest(wire.Gemini, body, f)
	checkSpans(t, body, f)
	if want, whole := readGemini(body); whole {
		must.Do(t, err, string(body))
		compareGemini(t, fmt.Sprintf("%q", body), want, f)
	}
}

// compareGemini compares the facts of a request with the decoded contents.
func compareGemini(t *testing.T, what string, want []readContent, f *Request) {
	t.Helper()
	if len(f.Messages) != len(want) {
		t.Fatalf("%s: %d messages, want %d", what, len(f.Messages), len(want))
	}
	for i := range f.Messages {
		m := &f.Messages[i]
		got := readContent{Model: m.Role == RoleAssistant, Text: want[i].Text, Thought: want[i].Thought}
		for j := range m.Calls {
			got.Calls = append(got.Calls, string(m.Calls[j].Name))
			got.Args = append(got.Args, max(m.Calls[j].ArgsKind, Null))
		}
		for j := range m.Replies {
			got.Replies = append(got.Replies, string(m.Replies[j].Name))
		}
		if diff := cmp.Diff(want[i], got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s: message %d (-want +got):\n%s", what, i, diff)
		}
		var hash uint64
		if got.Model && want[i].Text != "" {
			hash = xxh3.HashString(want[i].Text)
		}
		if m.ContentHash != hash {
			t.Fatalf("%s: message %d: hash %x, want %x of %q", what, i, m.ContentHash, hash, want[i].Text)
		}
	}
}

func TestGeminiRecordedRequests(t *testing.T) {
	var f Request
	n, calls, replies, tools := 0, 0, 0, 0
	exchanges(t, "gemini.generateContent", func(e *exchange) {
		must.Do(t, ScanRequest(wire.Gemini, e.Request, &f), e.ID)
		want, _ := readGemini(e.Request)
		compareGemini(t, e.ID, want, &f)
		var declared []string
		for _, tool := range parse(e.Request).lastOf("tools").list() {
			for _, d := range tool.lastOf("functionDeclarations", "function_declarations").list() {
				declared = append(declared, d.lastOf("name").text)
			}
		}
		var got []string
		for _, name := range f.Tools {
			got = append(got, string(name))
		}
		must.Agree(t, cmp.Diff(declared, got), e.ID, "tools")
		n++
		tools += len(got)
		for i := range f.Messages {
			m := &f.Messages[i]
			calls += len(m.Calls)
			replies += len(m.Replies)
			if m.Fields&FieldUnknown != 0 && e.Status == 200 {
				t.Errorf("%s: message %d has the unknown field %q, and the provider accepted it", e.ID, i, m.OtherField)
			}
			if m.Parts&(PartBlank|PartBad) != 0 && e.Status == 200 {
				t.Errorf("%s: message %d has parts %b, and the provider accepted it", e.ID, i, m.Parts)
			}
		}
	})
	t.Logf("%d requests, %d calls, %d replies, %d functions", n, calls, replies, tools)
}

func TestGeminiRecordedAnswers(t *testing.T) {
	n, streams, calls, signed := 0, 0, 0, 0
	exchanges(t, "gemini.generateContent", func(e *exchange) {
		if e.Status != 200 {
			return
		}
		body := e.body(t)
		r := answerIn(t, wire.Gemini, "", string(body))
		chunks := [][]byte{body}
		if e.Stream {
			streams++
			chunks = nil
			for event := range sse.Events(body) {
				chunks = append(chunks, event.Data)
			}
		}
		var want, got readContent
		var asMessage []string // the parts of all chunks
		finish, model := "", ""
		var tokens struct {
			PromptTokenCount, CandidatesTokenCount, ThoughtsTokenCount, CachedContentTokenCount int64
		}
		for _, chunk := range chunks {
			n := parse(chunk)
			if usage := n.get("usageMetadata"); usage.kind == Object {
				must.Do(t, json.Unmarshal(chunk[usage.start:usage.end], &tokens))
			}
			model = max(model, n.get("modelVersion").text)
			for i, c := range n.get("candidates").list() {
				if i > 0 {
					break
				}
				want.add(c.get("content").get("parts"))
				finish = max(finish, c.get("finishReason").text)
				for _, p := range c.get("content").get("parts").list() {
					asMessage = append(asMessage, string(chunk[p.start:p.end]))
				}
			}
		}
		want.Model = true
		got = readContent{Model: true, Text: want.Text, Thought: r.Reasoning == String}
		for i := range r.Calls {
			c := &r.Calls[i]
			got.Calls = append(got.Calls, c.Name)
			got.Args = append(got.Args, max(c.ArgsKind, Null))
			if !json.Valid([]byte(c.Arguments)) || c.Args != ArgsObject {
				t.Errorf("%s: arguments %q", e.ID, c.Arguments)
			}
		}
		must.Agree(t, cmp.Diff(want, got, cmpopts.EquateEmpty()), e.ID)
		if want.Text != "" && (r.ContentHash != xxh3.HashString(want.Text) || r.ContentBytes != len(want.Text)) {
			t.Errorf("%s: hash and length of another text than %q", e.ID, want.Text)
		}
		if r.FinishReason != finish || r.Model != model || r.Cut || r.Malformed || len(r.Error) > 0 || r.Choices != 1 || r.ID == "" {
			t.Errorf("%s: %+v", e.ID, r)
		}
		if r.InputTokens != tokens.PromptTokenCount || r.OutputTokens != tokens.CandidatesTokenCount+tokens.ThoughtsTokenCount ||
			r.CachedTokens != tokens.CachedContentTokenCount || r.CacheReported != (tokens.PromptTokenCount > 0) {
			t.Errorf("%s: tokens %+v, want %+v", e.ID, r, tokens)
		}

		// The answer is recognised when it is sent back.
		f := geminiFacts(t, `{"contents":[{"role":"model","parts":[`+strings.Join(asMessage, ",")+`]}]}`)
		m := &f.Messages[0]
		var signature uint64
		if len(r.Signed) > 0 {
			signature = r.Signed[0].Hash
			signed++
		}
		if m.ContentHash != r.ContentHash || m.Signed != signature || len(m.Calls) != len(r.Calls) || m.Reasoning != r.Reasoning {
			t.Errorf("%s: message %+v, answer %+v", e.ID, m, r)
		}
		for i := range r.Calls {
			must.Equal(t, m.Calls[i].Signature == String, r.Calls[i].Signature, "%s: call %d: signatures differ", e.ID, i)
		}
		n++
		calls += len(r.Calls)
	})
	t.Logf("%d answers, %d of them streams, %d calls, %d signed", n, streams, calls, signed)
}

// Every failed call has an error.
func TestGeminiRecordedErrors(t *testing.T) {
	n := 0
	exchanges(t, "gemini.generateContent", func(e *exchange) {
		body := e.body(t)
		if e.Status == 200 || len(body) == 0 || string(body) == "null" {
			return
		}
		r := answerIn(t, wire.Gemini, "", string(body))
		if len(r.Error) == 0 || r.Cut || json.Valid(body) == r.Malformed {
			t.Errorf("%s: %s: %+v", e.ID, body, r)
		}
		n++
	})
	t.Logf("%d errors", n)
}
