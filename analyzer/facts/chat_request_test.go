package facts

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zeebo/xxh3"
)

var sameFacts = cmp.Options{cmpopts.IgnoreUnexported(Request{}), cmpopts.EquateEmpty()}

// checkSame scans body and compares the facts with the reference's. A body that is not valid JSON may pass or not,
// but a valid object must pass.
func checkSame(t *testing.T, f *Request, body []byte) {
	t.Helper()
	err := ScanRequest(OpenAIChat, body, f)
	if !json.Valid(body) || !utf8.Valid(body) {
		for _, m := range f.Messages {
			if m.Start < 0 || m.End <= m.Start || m.End > len(body) {
				t.Fatalf("%q: message span %d..%d", body, m.Start, m.End)
			}
		}
		return
	}
	if parse(body).kind != Object {
		if !errors.Is(err, ErrNotJSON) {
			t.Fatalf("%q: error %v, want ErrNotJSON", body, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	if diff := cmp.Diff(refRequest(body), *f, sameFacts); diff != "" {
		t.Fatalf("%s\nfacts (-reference +scan):\n%s", body, diff)
	}
}

func TestScanRequestFacts(t *testing.T) {
	var f Request
	scan := func(t *testing.T, body string) *Request {
		t.Helper()
		if err := ScanRequest(OpenAIChat, []byte(body), &f); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return &f
	}
	message := func(body string, want Message) {
		t.Helper()
		f := scan(t, `{"messages":[`+body+`]}`)
		want.Start, want.End = len(`{"messages":[`), len(`{"messages":[`)+len(body)
		want.Hash = xxh3.HashString(body)
		if diff := cmp.Diff([]Message{want}, f.Messages, sameFacts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
	// Wrong types are facts.
	message(`null`, Message{Kind: Null})
	message(`"x"`, Message{Kind: String})
	message(`{}`, Message{Kind: Object})
	message(`{"role":1,"content":2}`, Message{Kind: Object, RoleKind: Number, Content: Number, ContentBytes: 1})
	message(`{"role":"narrator"}`, Message{Kind: Object, RoleKind: String, Role: RoleOther})
	message(`{"role":"tool","tool_call_id":"a\"b","content":{"k":1}}`, Message{
		Kind: Object, RoleKind: String, Role: RoleTool, Content: Object, ContentBytes: 7,
		Replies: []Reply{{IDKind: String, ID: []byte(`a"b`), Content: Object, ContentBytes: 7}},
	})
	// Keys and values may be escaped; the last of two equal keys wins.
	message(`{"rol\u0065":"\u0075ser","content":[],"content":"ab"}`, Message{Kind: Object, RoleKind: String, Role: RoleUser, Content: String, ContentBytes: 2})
	message(`{"role":"user","content":[{"type":"text"},{"type":"image_url"},{"type":"x"},{"type":null},7]}`, Message{
		Kind: Object, RoleKind: String, Role: RoleUser, Content: Array, ContentBytes: 67, PartCount: 5, Parts: PartText | PartImage | PartOther | PartBad,
	})
	// The role comes after the content.
	message(`{"content":"\u003cb>\/\ud83d\ude00","role":"assistant"}`, Message{
		Kind: Object, RoleKind: String, Role: RoleAssistant, Content: String, ContentBytes: 22, ContentHash: xxh3.HashString("<b>/😀"),
	})
	message(`{"role":"assistant","reasoning":null,"reasoning_details":[]}`, Message{Kind: Object, RoleKind: String, Role: RoleAssistant, Reasoning: Array})
	message(`{"role":"assistant","reasoning_content":null}`, Message{Kind: Object, RoleKind: String, Role: RoleAssistant, Reasoning: Null})

	call := func(body string, want Call) {
		t.Helper()
		f := scan(t, `{"messages":[{"tool_calls":[`+body+`]}]}`)
		want.Start = len(`{"messages":[{"tool_calls":[`)
		want.End = want.Start + len(body)
		if diff := cmp.Diff([]Call{want}, f.Messages[0].Calls, sameFacts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
	call(`3`, Call{Kind: Number})
	call(`{"id":null,"type":1,"function":"f","x":0}`, Call{Kind: Object, IDKind: Null, TypeKind: Number, FuncKind: String, Fields: FieldUnknown})
	call(`{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}`, Call{
		Kind: Object, IDKind: String, ID: []byte("c"), TypeKind: String, FuncKind: Object, NameKind: String, Name: []byte("f"),
		ArgsKind: String, Args: ArgsObject, ArgsBytes: 9, ArgsHash: xxh3.HashString(`{\"a\":1}`),
	})
	call(`{"function":{"name":null,"arguments":{"a":1}}}`, Call{
		Kind: Object, FuncKind: Object, NameKind: Null, ArgsKind: Object, ArgsBytes: 7, ArgsHash: xxh3.HashString(`{"a":1}`),
	})
	call(`{"function":{"name":"f","arguments":"{"},"function":{}}`, Call{Kind: Object, FuncKind: Object})

	body := `{"model":"a\/b","stream":true,"tools":[{},{}],"tool_choice":{"type":"function","function":{"name":"fi\u006eal"}},
		"max_tokens":7,"messages":[{"role":"user","odd":1}]}`
	got := *scan(t, body)
	got.Messages = nil
	want := Request{
		Model: []byte("a/b"), Stream: true, HasTools: true, ToolCount: 2, Forced: []byte("final"), MaxTokens: 7, MessagesKind: Array,
	}
	if diff := cmp.Diff(want, got, sameFacts); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestScanRequestErrors(t *testing.T) {
	var f Request
	check := func(body string, want error, messages int) {
		t.Helper()
		if err := ScanRequest(OpenAIChat, []byte(body), &f); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", body, err, want)
		}
		if len(f.Messages) != messages {
			t.Errorf("%s: %d messages, want %d", body, len(f.Messages), messages)
		}
	}
	check(``, ErrNotJSON, 0)
	check(`[]`, ErrNotJSON, 0)
	check(`"{}"`, ErrNotJSON, 0)
	check(`{}}`, ErrNotJSON, 0)
	check(`{"messages":[{"role":"user"},{"role":"user","content":"x`, ErrTruncated, 1)
	check(`{"messages":[{"role":"user"} {"role":"user"}]}`, ErrNotJSON, 1)
	check(`{"messages":[{"role":"user"},]}`, ErrNotJSON, 1)
	check(`{"messages":[{"role":user}]}`, ErrNotJSON, 0)
	check(`{"messages":[{"role":nil}]}`, ErrNotJSON, 0)
	check(`{"messages":[{"role" "user"}]}`, ErrNotJSON, 0)
	check(`{'messages':[]}`, ErrNotJSON, 0)
	if err := ScanRequest(Other, []byte(`{}`), &f); !errors.Is(err, ErrDialect) {
		t.Errorf("other dialect: error %v", err)
	}
	// Every prefix of a body is a truncated body.
	for _, seed := range requestSeeds {
		seed = strings.TrimSpace(seed)
		for n := 1; n < len(seed); n++ {
			if err := ScanRequest(OpenAIChat, []byte(seed[:n]), &f); !errors.Is(err, ErrTruncated) {
				t.Errorf("%s: error %v, want ErrTruncated", seed[:n], err)
			}
		}
	}
}

func TestScanMessages(t *testing.T) {
	var f Request
	body := []byte(` [{"role":"user","content":"q"}, {"role":"assistant","content":"a"}] `)
	if err := ScanMessages(OpenAIChat, body, &f); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(refMessages(body, parse(body)), f, sameFacts); diff != "" {
		t.Errorf("facts (-reference +scan):\n%s", diff)
	}
	if err := ScanMessages(OpenAIChat, []byte(`{}`), &f); !errors.Is(err, ErrNotJSON) {
		t.Errorf("object: error %v, want ErrNotJSON", err)
	}
	if err := ScanMessages(Other, body, &f); !errors.Is(err, ErrDialect) || len(f.Messages) != 0 {
		t.Errorf("other dialect: error %v, %d messages", err, len(f.Messages))
	}
}

// Decoded strings stay what they are while scratch grows.
func TestScanKeepsDecodedStrings(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"model":"m\u006fdel","messages":[`)
	for i := range 500 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"content":"` + strings.Repeat(`\u003c`, i) + `","role":"assistant","tool_calls":[{"id":"id\/` + strings.Repeat("x", i) + `"}]}`)
	}
	b.WriteString(`]}`)
	var f Request
	for range 2 {
		checkSame(t, &f, []byte(b.String()))
	}
}

func TestScanKeepsBound(t *testing.T) {
	var f Request
	body := []byte(`{"messages":[` + strings.Repeat(`1,`, maxKept+9) + `1]}`)
	if err := ScanRequest(OpenAIChat, body, &f); err != nil || len(f.Messages) != maxKept || f.Dropped != 10 {
		t.Errorf("error %v, %d messages, %d dropped", err, len(f.Messages), f.Dropped)
	}
	body = []byte(`{"messages":[{"tool_calls":[` + strings.Repeat(`{},`, maxKept) + `{}]}]}`)
	if err := ScanRequest(OpenAIChat, body, &f); err != nil || len(f.Messages[0].Calls) != maxKept || f.Dropped != 1 {
		t.Errorf("error %v, %d calls, %d dropped", err, len(f.Messages[0].Calls), f.Dropped)
	}
}

func TestScanSameAsReference(t *testing.T) {
	var f Request
	for _, seed := range requestSeeds {
		checkSame(t, &f, []byte(seed))
	}
	for _, args := range argsSeeds {
		quoted, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		checkSame(t, &f, []byte(`{"messages":[{"tool_calls":[{"function":{"arguments":`+string(quoted)+`}}]}]}`))
	}
}

func TestScanSpecExamples(t *testing.T) {
	b, err := os.ReadFile("../../../shared/spec/examples.json")
	if os.IsNotExist(err) {
		t.Skip("SKIPPED: no spec/examples.json beside the project")
	}
	if err != nil {
		t.Fatal(err)
	}
	var examples []struct{ Violating, Fixed json.RawMessage }
	if err := json.Unmarshal(b, &examples); err != nil {
		t.Fatal(err)
	}
	var f Request
	for _, e := range examples {
		checkSame(t, &f, e.Violating)
		checkSame(t, &f, e.Fixed)
	}
	t.Logf("%d examples", len(examples))
}

func TestScanRecordedRequests(t *testing.T) {
	var f Request
	var n, size int
	chatExchanges(t, func(e *exchange) {
		checkSame(t, &f, e.Request)
		n++
		size += len(e.Request)
	})
	t.Logf("%d requests, %d bytes", n, size)
}

func TestScanRecordedConversations(t *testing.T) {
	var f Request
	var n int
	readLines(t, "conversations.jsonl.gz", func(line []byte) {
		var c struct {
			Format   string
			Messages json.RawMessage
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		if c.Format != "openai.chat" {
			return
		}
		n++
		if err := ScanMessages(OpenAIChat, c.Messages, &f); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(refMessages(c.Messages, parse(c.Messages)), f, sameFacts); diff != "" {
			t.Fatalf("facts (-reference +scan):\n%s", diff)
		}
	})
	t.Logf("%d conversations", n)
}

// mutate changes a few bytes of seed.
func mutate(r *rand.Rand, seed string) []byte {
	b := []byte(seed)
	for range r.IntN(4) {
		if len(b) == 0 {
			break
		}
		c, at := meaningful[r.IntN(len(meaningful))], r.IntN(len(b))
		switch r.IntN(4) {
		case 0:
			b[at] = c
		case 1:
			b = append(b[:at], b[at+1:]...)
		case 2:
			b = append(b[:at], append([]byte{c}, b[at:]...)...)
		case 3: // move a piece
			end := at + r.IntN(len(b)-at)
			piece := string(b[at:end])
			to := r.IntN(len(b))
			b = append(b[:to], append([]byte(piece), b[to:]...)...)
		}
	}
	return b
}

func TestScanMutations(t *testing.T) {
	n := 200_000
	if testing.Short() {
		n = 20_000
	}
	r := rand.New(rand.NewPCG(1, 2))
	var f Request
	valid := 0
	for range n {
		b := mutate(r, requestSeeds[r.IntN(len(requestSeeds))])
		if json.Valid(b) {
			valid++
		}
		checkSame(t, &f, b)
	}
	t.Logf("%d of %d mutations are valid JSON", valid, n)
}

func FuzzScanRequest(f *testing.F) {
	for _, seed := range requestSeeds {
		f.Add([]byte(seed))
	}
	var facts Request
	f.Fuzz(func(t *testing.T, body []byte) {
		checkSame(t, &facts, body)
	})
}
