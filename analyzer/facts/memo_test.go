package facts

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// sameRequest compares all facts of a Request. Whether an empty list is nil depends on the previous use of the Request.
var sameRequest = cmp.Options{
	cmpopts.IgnoreUnexported(Request{}),
	cmp.Transformer("calls", func(l []Call) []Call { return append([]Call{}, l...) }),
	cmp.Transformer("replies", func(l []Reply) []Reply { return append([]Reply{}, l...) }),
	cmp.Transformer("messages", func(l []Message) []Message { return append([]Message{}, l...) }),
	cmp.Transformer("tools", func(l [][]byte) [][]byte { return append([][]byte{}, l...) }),
}

// plainFacts returns the facts of a Request without what scans keep for the next one, and without nil lists.
func plainFacts(r *Request) Request {
	p := *r
	p.calls, p.replies, p.scratch, p.joined, p.serverUses, p.recall, p.s = nil, nil, nil, nil, nil, recall{}, scanner{}
	p.Messages, p.Tools, p.Spaced = append([]Message{}, p.Messages...), append([][]byte{}, p.Tools...), append([][]byte{}, p.Spaced...)
	p.setup.Each, p.cache.Marks = append([]Span{}, p.setup.Each...), append([]Mark{}, p.cache.Marks...)
	p.served = 0
	for i := range p.Messages {
		m := &p.Messages[i]
		m.Calls, m.Replies = append([]Call{}, m.Calls...), append([]Reply{}, m.Replies...)
	}
	return p
}

// A memoScan scans bodies with a Memo and compares the facts with those of a whole scan.
type memoScan struct {
	memo        Memo
	after, full Request
	known, all  int
}

func (c *memoScan) scan(t *testing.T, d wire.Dialect, body []byte) {
	t.Helper()
	want := ScanRequest(d, body, &c.full)
	n, err := ScanRequestAfter(d, body, &c.memo, &c.after)
	c.known, c.all = c.known+n, c.all+len(body)
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v, not %v\n%.2000s", d, err, want, body)
	}
	if !reflect.DeepEqual(plainFacts(&c.full), plainFacts(&c.after)) {
		t.Fatalf("%s (-scanned +recalled)\n%.3000s\n%.2000s", d, cmp.Diff(&c.full, &c.after, sameRequest), body)
	}
}

// The facts of a request do not depend on the Memo.
func TestScanRequestAfter(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 40
	}
	for _, d := range memoDialects {
		t.Run(string(d.dialect), func(t *testing.T) {
			known, all := 0, 0
			for seed := range seeds {
				h := newHistories(rand.New(rand.NewPCG(uint64(seed), 1)), d.messages, d.tools, d.seeds)
				var c memoScan
				old := h.history
				for turn := range 20 {
					if turn%5 == 4 { // another history of the conversation
						h.history, old = old, h.history
					}
					h.history = slices.Clone(h.history)
					h.edit()
					body := h.body()
					c.scan(t, d.dialect, body)
					clear(body) // later scans must not read it
				}
				known, all = known+c.known, all+c.all
			}
			if known < all/3 {
				t.Errorf("only %d of %d bytes were known", known, all)
			}
			t.Logf("%d of %d bytes were known", known, all)
		})
	}
}

func FuzzScanRequestAfter(f *testing.F) {
	for i, d := range memoDialects {
		for _, seed := range d.seeds {
			f.Add(uint8(i), []byte(seed), []byte(strings.Replace(seed, "role", "rol\\u0065", 1)))
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, first, second []byte) {
		d := memoDialects[int(i)%len(memoDialects)].dialect
		var c memoScan
		for _, body := range [][]byte{first, second, first, second} {
			c.scan(t, d, bytes.Clone(body))
		}
	})
}

// fill sets each field of v to a random value. Fields of one byte are enumerations with at least seven values.
func fill(r *rand.Rand, v reflect.Value, text func() []byte) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Uint8:
			f.SetUint(1 + r.Uint64N(6))
		case reflect.Uint16, reflect.Uint32, reflect.Uint64:
			f.SetUint(1 + r.Uint64N(1<<16-1))
		case reflect.Int:
			f.SetInt(1 + r.Int64N(1<<40))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			if f.Type().Elem().Kind() == reflect.Uint8 {
				f.SetBytes(text())
			}
		default:
			panic("BUG: " + v.Type().Field(i).Name + " has a kind that fill does not support")
		}
	}
}

// A new fact of a message, a call or a reply must be added to the entries of a Memo.
func TestMemoKeepsEveryFact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		body := []byte(`[{"a":"`)
		zero := 1
		n := 0
		text := func() []byte {
			n++
			word := fmt.Appendf(nil, "word%d", n)
			if r.IntN(3) > 0 {
				body = append(body, word...)
			}
			return word
		}
		var m Message
		fill(r, reflect.ValueOf(&m).Elem(), text)
		m.Calls, m.Replies = make([]Call, 1+r.IntN(3)), make([]Reply, 1+r.IntN(3))
		for i := range m.Calls {
			fill(r, reflect.ValueOf(&m.Calls[i]).Elem(), text)
		}
		for i := range m.Replies {
			fill(r, reflect.ValueOf(&m.Replies[i]).Elem(), text)
		}
		body = append(body, `"}]`...)
		m.Kind, m.Start, m.End = Object, zero, len(body)-1
		m.Hash = xxh3.Hash(body[m.Start:m.End])
		for i := range m.Calls {
			m.Calls[i].Start, m.Calls[i].End = zero+r.IntN(3), len(body)-r.IntN(3)
		}
		for i := range m.Replies {
			m.Replies[i].Start, m.Replies[i].End = zero+i, len(body)-1
		}
		marks := []Mark{{InMessages, 0, r.IntN(300), true}, {InMessages, 0, 301, false}}
		entry := appendMessage(nil, body, &m, marks, true, true)
		f := Request{Messages: make([]Message, 1)}
		var got Message
		f.recall.spare = len(body)
		if f.s = (scanner{b: body, i: zero}); !f.restore(&f.s, &got, entry, true) {
			t.Fatal("not restored")
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Fatalf("(-kept +restored)\n%s", diff)
		}
		if !f.Stored || !f.OpenTools || f.s.i != m.End {
			t.Fatal("Stored and OpenTools are lost")
		}
		must.Agree(t, cmp.Diff(marks, f.cache.Marks), "marks")
	}
}

// At the bound of facts a scan with a Memo drops the same elements, and incomplete messages are not known.
func TestMemoAtTheBound(t *testing.T) {
	slowtest.SkipShort(t, "one goroutine, and slow under the race detector")
	var c memoScan
	call, calls := `{"id":"a"}`, func(n int) string { return strings.Repeat(`{"id":"a"},`, n-1) + `{"id":"a"}` }
	message := func(calls string) string { return `{"role":"assistant","tool_calls":[` + calls + `]}` }
	for _, list := range [][]string{
		{message(calls(maxKept - 1)), message(call)},
		{message(calls(maxKept - 1)), message(call), message(call)},
		{message(calls(maxKept - 1)), message(calls(2)), message(call)},
		{message(call), message(calls(2)), message(call)},
		{message(calls(2)), message(calls(maxKept - 1)), message(call)},
		{message(call), message(calls(maxKept - 1)), message(call)},
		// Calls that a later key of the same message replaces still count.
		{`{"role":"assistant","tool_calls":[` + calls(maxKept-2) + `],"tool_calls":[]}`, message(calls(2)), message(call)},
		{`{"role":"assistant","tool_calls":[` + calls(maxKept-2) + `],"tool_calls":[]}`, message(calls(2)), message(call)},
	} {
		c.scan(t, wire.OpenAIChat, []byte(`{"messages":[`+strings.Join(list, ",")+`]}`))
	}
	many := []byte(`{"messages":[` + strings.Repeat(`{},`, maxKept+9) + `{}]}`)
	c.scan(t, wire.OpenAIChat, many)
	c.scan(t, wire.OpenAIChat, many)
	var one memoScan
	if one.scan(t, wire.OpenAIChat, many); one.memo.Bytes() > 0 {
		t.Errorf("%d bytes are kept", one.memo.Bytes())
	}
}

// A local change costs a scan of the changed messages: a mark that moves, a prompt with the time, different parameters before
// the messages, a second history that alternates with the first.
func TestMemoLocalChanges(t *testing.T) {
	long := strings.Repeat("word ", 200)
	msgs := func(n int, mark string) string {
		var b strings.Builder
		for i := range n {
			m := ""
			if i == n-1 {
				m = mark
			}
			fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"text","text":"%d %s"%s}]}`, i, long, m)
		}
		return b.String()
	}
	mark := `,"cache_control":{"type":"ephemeral"}`
	tools := `"tools":[{"name":"f","input_schema":{"a":"` + long + `"}}]`
	calls := `{"role":"assistant","content":[{}` + strings.Repeat(`,{"type":"tool_use","id":"a\u0062","name":"read_file","input":{"a":1}}`, 40) + `]}`
	for _, tc := range []struct {
		name   string
		bodies []string
		new    int // messages to scan in the last body
	}{
		{"appended", []string{`{"messages":[{}` + msgs(10, "") + `],` + tools + `}`, `{"messages":[{}` + msgs(12, "") + `],` + tools + `}`}, 2},
		{"head", []string{`{"model":"a",` + tools + `,"messages":[{}` + msgs(10, "") + `]}`, `{"model":"other",` + tools + `,"messages":[{}` + msgs(10, "") + `]}`}, 0},
		{"mark", []string{`{"messages":[{}` + msgs(10, mark) + `]}`, `{"messages":[{}` + msgs(11, mark) + `]}`}, 2},
		{"time", []string{`{"messages":[{"role":"system","content":"09:15"}` + msgs(10, "") + `]}`, `{"messages":[{"role":"system","content":"9:16 o'clock"}` + msgs(10, "") + `]}`}, 0},
		{"spelling", []string{`{"messages":[{}` + msgs(10, "") + `]}`, "{ \"messages\": [{} \n" + msgs(10, "") + ` ] }`}, 0},
		{"fork", []string{
			`{"messages":[{"a":1}` + msgs(10, "") + `]}`, `{"messages":[{"a":2},{}` + msgs(8, "") + `]}`,
			`{"messages":[{"a":1}` + msgs(11, "") + `]}`, `{"messages":[{"a":2},{}` + msgs(9, "") + `]}`,
		}, 1},
		{"late fork", []string{
			`{"messages":[{}` + msgs(4, "") + msgs(10, "") + `]}`, `{"messages":[{}` + msgs(4, "") + `,{}` + msgs(8, "") + `]}`,
			`{"messages":[{}` + msgs(4, "") + msgs(11, "") + `]}`, `{"messages":[{}` + msgs(4, "") + `,{}` + msgs(9, "") + `]}`,
		}, 1},
		{"calls", []string{`{"messages":[` + calls + `]}`, `{"messages":[` + calls + msgs(1, "") + `]}`, `{"messages":[` + calls + msgs(2, "") + `]}`}, 1},
	} {
		var c memoScan
		for _, body := range tc.bodies {
			c.known = 0
			c.scan(t, wire.Anthropic, []byte(body))
		}
		last := tc.bodies[len(tc.bodies)-1]
		if scanned := len(last) - c.known; scanned > tc.new*1100+200 {
			t.Errorf("%s: %d of %d bytes were scanned", tc.name, scanned, len(last))
		}
	}
}

// A body that resembles a long known message at every position is not hashed at every position.
func TestMemoTakesLinearTime(t *testing.T) {
	var c memoScan
	const again = `"messages":[{}],`
	long := `{"messages":[{"a":"` + strings.Repeat("x", 100*len(again)-len(`{"a":""}`)+len(`{}`)) + `"}],"tools":[{"a":"` + strings.Repeat("y", 5000) + `"}]}`
	c.scan(t, wire.OpenAIChat, []byte(long))
	body := []byte("{" + strings.Repeat(again, 1000) + `"a":1}`)
	c.scan(t, wire.OpenAIChat, body)
	if left := c.after.recall.spare; left < 0 || left > len(body)/2 {
		t.Errorf("%d of %d bytes may still be hashed in vain, want a small number of at least 0", left, len(body))
	}
}

// A Memo of another dialect is not used.
func TestMemoOfAnotherDialect(t *testing.T) {
	var c memoScan
	body := []byte(`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}],"tools":[{"name":"f"}]}`)
	for _, d := range []wire.Dialect{wire.OpenAIChat, wire.Anthropic, wire.Bedrock, wire.OpenAIChat} {
		c.scan(t, d, body)
	}
}

func TestMemoAllocatesNothing(t *testing.T) {
	var f Request
	var m Memo
	body := agentSession(t, 100_000, 1)
	if n := testing.AllocsPerRun(10, func() {
		must.Get(ScanRequestAfter(wire.OpenAIChat, body, &m, &f))(t)
	}); n != 0 {
		t.Errorf("%v allocations per scan", n)
	}
}
