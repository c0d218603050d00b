package facts

import (
	"bytes"
	"encoding/json"
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

	"github.com/llmtap/llmtap/ingest/wire"
)

// sameRequest compares all that a Request says. Whether an empty list has an array behind it depends on what the
// Request was used for before.
var sameRequest = cmp.Options{
	cmpopts.IgnoreUnexported(Request{}),
	cmp.Transformer("calls", func(l []Call) []Call { return append([]Call{}, l...) }),
	cmp.Transformer("replies", func(l []Reply) []Reply { return append([]Reply{}, l...) }),
	cmp.Transformer("messages", func(l []Message) []Message { return append([]Message{}, l...) }),
	cmp.Transformer("tools", func(l [][]byte) [][]byte { return append([][]byte{}, l...) }),
}

func equalRequests(a, b *Request) bool {
	plain := func(r *Request) Request {
		p := *r
		p.calls, p.replies, p.scratch, p.joined, p.recall, p.s = nil, nil, nil, nil, recall{}, scanner{}
		p.Messages, p.Tools = append([]Message{}, p.Messages...), append([][]byte{}, p.Tools...)
		for i := range p.Messages {
			m := &p.Messages[i]
			m.Calls, m.Replies = append([]Call{}, m.Calls...), append([]Reply{}, m.Replies...)
		}
		return p
	}
	return reflect.DeepEqual(plain(a), plain(b))
}

// A memoScan scans bodies with what a Memo knows and compares the facts with those of a whole scan.
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
	if !equalRequests(&c.full, &c.after) {
		t.Fatalf("%s (-scanned +recalled)\n%.3000s\n%.2000s", d, cmp.Diff(&c.full, &c.after, sameRequest), body)
	}
}

// memoDialects are the dialects and what their history and tools are called.
var memoDialects = []struct {
	dialect         wire.Dialect
	messages, tools string
	seeds           []string
}{
	{wire.OpenAIChat, "messages", "tools", requestSeeds},
	{wire.Cohere, "messages", "tools", requestSeeds},
	{wire.OpenAIResponses, "input", "tools", responsesSeeds},
	{wire.Anthropic, "messages", "tools", anthropicSeeds},
	{wire.Gemini, "contents", "tools", geminiSeeds},
	{wire.Bedrock, "messages", "toolConfig", []string{
		`{"system":[{"text":"s"}],"inferenceConfig":{"maxTokens":9},"messages":[{"role":"user","content":[{"text":"q"}]}]}`,
		`{"messages":[{"content":[{"text":"\u0061"},{"toolUse":{"toolUseId":"t\u005f1","name":"f","input":{"a":[1]}}},{"odd":1}],"role":"assistant"},{"role":"user","content":[{"text":"x"},{"toolResult":{"toolUseId":"t_1","content":[{"json":{}},{"text":""}],"status":"error","odd":null}}]}]}`,
		`{"messages":[{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"t","signature":"s\n"}}},{"toolUse":{"toolUseId":7,"type":"server_tool_use"}}],"content":[{"text":"a"},{"text":"b"}],"name":false}]}`,
		`{"toolConfig":{"tools":[{"toolSpec":{"name":"f\u0067"}},{"cachePoint":{}},{"systemTool":{}},1],"toolChoice":{"tool":{"name":"f"}}},"messages":[{"role":"sys\u0074em"},{}]}`,
		`{"toolConfig":{"tools":[{"toolSpec":{"name":"a"}}],"toolChoice":{"any":{}}},"promptVariables":{"a":1},"additionalModelRequestFields":{"thinking":{"type":"enabled"}}}`,
	}},
}

// histories makes bodies of random histories, each mostly like one before it, from the parts of seeds.
type histories struct {
	r                    *rand.Rand
	messages, tools      string
	elements, sets, rest []string
	history              []string
	head, tail           []string
}

func newHistories(r *rand.Rand, messages, tools string, seeds []string) *histories {
	h := &histories{r: r, messages: messages, tools: tools}
	for _, seed := range seeds {
		if !json.Valid([]byte(seed)) {
			continue
		}
		root := parse([]byte(seed))
		for i, k := range root.keys {
			v := root.elems[i]
			raw := seed[v.start:v.end]
			switch {
			case k == messages && v.kind == Array:
				for _, e := range v.elems {
					h.elements = append(h.elements, seed[e.start:e.end])
				}
			case k == tools:
				h.sets = append(h.sets, raw)
			case k != messages:
				h.rest = append(h.rest, fmt.Sprintf("%q:%s", k, raw))
			}
		}
	}
	h.head = h.members()
	h.tail = h.members()
	return h
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func (h *histories) members() (list []string) {
	for range h.r.IntN(3) {
		list = append(list, pick(h.r, h.rest))
	}
	if len(h.sets) > 0 && h.r.IntN(2) == 0 {
		list = append(list, fmt.Sprintf("%q:%s", h.tools, pick(h.r, h.sets)))
	}
	return list
}

// element is a message of a seed, now and then with a text that sets it apart.
func (h *histories) element() string {
	e := pick(h.r, h.elements)
	if h.r.IntN(2) == 0 {
		return strings.Replace(e, `"content":"`, fmt.Sprintf(`"content":"%s%d`, strings.Repeat("x", h.r.IntN(200)), h.r.IntN(100)), 1)
	}
	return e
}

// edit goes on with the history, as agents do: mostly at its end.
func (h *histories) edit() {
	switch n := h.r.IntN(20); {
	case n == 0 && len(h.history) > 0:
		h.history[h.r.IntN(len(h.history))] = h.element()
	case n == 1 && len(h.history) > 0:
		at := h.r.IntN(len(h.history))
		h.history = slices.Delete(h.history, at, at+1)
	case n == 2:
		h.history = slices.Insert(h.history, h.r.IntN(len(h.history)+1), h.element())
	case n == 3:
		h.history = h.history[:h.r.IntN(len(h.history)+1)]
	case n == 4:
		h.head = h.members()
	case n == 5:
		h.tail = h.members()
	}
	for range h.r.IntN(4) {
		h.history = append(h.history, h.element())
	}
}

func (h *histories) body() []byte {
	gap := pick(h.r, []string{",", ",", ", ", " ,\n\t"})
	array := func(list []string) string { return fmt.Sprintf("%q:[%s]", h.messages, strings.Join(list, gap)) }
	members := slices.Clone(h.head)
	if h.r.IntN(12) == 0 { // a duplicate, that the later one replaces
		members = append(members, array(h.history[:h.r.IntN(len(h.history)+1)]))
	}
	members = append(append(members, array(h.history)), h.tail...)
	if h.r.IntN(12) == 0 {
		members = append(members, pick(h.r, []string{array(h.history), fmt.Sprintf("%q:null", h.messages), fmt.Sprintf("%q:{}", h.messages)}))
	}
	b := "{" + strings.Join(members, gap) + "}"
	switch h.r.IntN(12) {
	case 0:
		return []byte(b[:h.r.IntN(len(b)+1)])
	case 1:
		return mutate(h.r, b)
	}
	return []byte(b)
}

// Whatever a conversation's requests hold, with what is known of the ones before they say what they say without.
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
					if turn%5 == 4 { // another history of the same conversation
						h.history, old = old, h.history
					}
					h.history = slices.Clone(h.history)
					h.edit()
					body := h.body()
					c.scan(t, d.dialect, body)
					clear(body) // nothing may be read from it any more
				}
				known, all = known+c.known, all+c.all
			}
			if known < all/3 {
				t.Errorf("%d of %d bytes were known; the test shows little", known, all)
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

// fill sets each field of v to something. Numbers of one byte are enumerations, which have their size in values.
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
			panic("BUG: " + v.Type().Field(i).Name + " has a kind that the test does not fill")
		}
	}
}

// A fact that is added to a message, a call or a reply must be added to what a Memo keeps of them.
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
		entry := appendMessage(nil, body, &m, true, true)
		var f Request
		var got Message
		f.recall.spare = len(body)
		if f.s = (scanner{b: body, i: zero}); !f.restore(&f.s, &got, entry, true) {
			t.Fatal("not restored")
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Fatalf("(-kept +restored)\n%s", diff)
		}
		if !f.Stored || !f.OpenTools || f.s.i != m.End {
			t.Fatal("what the message says of the request is lost")
		}
	}
}

// A history that reaches the bound of facts is dropped from alike, and what was dropped from is not known.
func TestMemoAtTheBound(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED with -short: one goroutine, and slow under the race detector")
	}
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
		// Calls that a later key of the same message replaces count all the same.
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

// What changes in one place costs a scan of that place: of a mark that moves along, of a prompt with the time in it, of
// other parameters before the messages, and of a second history that takes turns with the first.
func TestMemoKnows(t *testing.T) {
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

// A body that looks at every place like a long message which is known is not hashed at every place.
func TestMemoTakesLinearTime(t *testing.T) {
	var c memoScan
	const again = `"messages":[{}],`
	long := `{"messages":[{"a":"` + strings.Repeat("x", 100*len(again)-len(`{"a":""}`)+len(`{}`)) + `"}],"tools":[{"a":"` + strings.Repeat("y", 5000) + `"}]}`
	c.scan(t, wire.OpenAIChat, []byte(long))
	body := []byte("{" + strings.Repeat(again, 1000) + `"a":1}`)
	c.scan(t, wire.OpenAIChat, body)
	if left := c.after.recall.spare; left < 0 || left > len(body)/2 {
		t.Errorf("of %d bytes %d may still be hashed in vain; none below 0, and few, or the test shows nothing", len(body), left)
	}
}

// A body says other things in another dialect.
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
		if _, err := ScanRequestAfter(wire.OpenAIChat, body, &m, &f); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a scan", n)
	}
}
