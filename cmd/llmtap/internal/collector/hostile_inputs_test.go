package collector

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// sendRaw publishes a message unchanged.
type sendRaw func(subject string, h event.Header, body []byte)

// event publishes ev as a hook does.
func (send sendRaw) event(ev *event.Event) {
	for m := range ev.Messages(event.PartBytes) {
		send(m.Subject(), m.Encode(), m.Body)
	}
}

// hostileEvent returns an event of a hostile service.
func hostileEvent(kind event.Kind, exchange string, body []byte) *event.Event {
	ev := &event.Event{
		Kind: kind, Exchange: exchange, Time: time.Now(), Labels: event.Labels{Service: "hostile", Agent: "mallory"},
		Capture: event.CaptureFull, Origin: event.OriginHook, ContentType: "application/json", Body: body,
	}
	if kind == event.Request {
		ev.URL, ev.Method = "https://api.deepseek.com/chat/completions", "POST"
	} else {
		ev.Status = 200
	}
	return ev
}

func newExchange() string {
	id, _ := uuid.NewV7()
	return id.String()
}

const goodResponse = `{"id":"r","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"ok"}}]}`

// call publishes a request with this body and a valid response; change may corrupt the request.
func (send sendRaw) call(body []byte, change func(q *event.Event)) {
	id := newExchange()
	q := hostileEvent(event.Request, id, body)
	if change != nil {
		change(q)
	}
	send.event(q)
	send.event(hostileEvent(event.Response, id, []byte(goodResponse)))
}

// hostileInputs returns all inputs, in reduced or full size.
func hostileInputs(full bool) []hostileInput {
	size := func(reduced, all int) int {
		if full {
			return all
		}
		return reduced
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	valid := []byte(`{"model":"m","messages":[{"role":"user","content":"read it"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"x"}}]},{"role":"tool","tool_call_id":"call_1","content":"x"}]}`)
	services, lone, bad := size(3_000, 1_000_000), size(2_000, 300_000), size(200, 20_000)
	big := size(20<<20, 100<<20)
	deep := size(1<<20, 30<<20)
	return []hostileInput{
		{name: "truncated JSON", rows: len(valid) - 1, dead: map[string]uint64{"unreadable": uint64(len(valid) - 1)}, send: func(send sendRaw) {
			for n := 1; n < len(valid); n++ {
				send.call(valid[:n], nil)
			}
		}},
		{name: fmt.Sprintf("a body of %d MB", big/1e6), rows: 1, dead: tooLargeAbove(big, 64<<20), send: func(send sendRaw) {
			body := append(append([]byte(`{"model":"m","messages":[{"role":"user","content":"`), bytes.Repeat([]byte("0123456789abcdef"), big/16)...), `"}]}`...)
			send.call(body, nil)
		}},
		{name: "contradictory parts", rows: bad, dead: map[string]uint64{"parts": uint64(bad)}, send: func(send sendRaw) {
			for range bad {
				send.call(valid[:100], func(q *event.Event) {
					for i := range 2 { // two parts of different bodies
						p := *q
						p.Part, p.Parts, p.BodyBytes, p.Body = i+1, i+2, 1000, valid
						send(p.Subject(), p.Encode(), p.Body)
					}
				})
			}
		}},
		{name: "deep nesting", rows: 5, dead: map[string]uint64{"unreadable": 1}, send: func(send sendRaw) {
			nested := func(before, open, in, closing, after string) []byte {
				return []byte(before + strings.Repeat(open, deep/len(open)) + in + strings.Repeat(closing, deep/len(open)) + after)
			}
			send.call(nested(`{"model":"m","messages":`, "[", "", "]", "}"), nil)
			send.call(nested(`{"model":"m","x":`, `{"a":`, "1", "}", `,"messages":[]}`), nil)
			send.call(nested(`{"model":"m","messages":[{"role":"user","content":`, "[", "", "]", "}]}"), nil)
			send.call(nested(`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":`, "[", "", "]", "}}]}]}"), nil)
			send.call([]byte(strings.Repeat("[", deep)), nil)
		}},
		{name: "invalid UTF-8", rows: 100, dead: map[string]uint64{}, send: func(send sendRaw) {
			for range 100 {
				junk := randomBytes(rnd, 100)
				body := bytes.ReplaceAll(bytes.ReplaceAll(valid, []byte("call_1"), junk), []byte("read it"), junk)
				send.call(body, func(q *event.Event) {
					q.Labels.Stage, q.Labels.Conversation, q.Labels.ServiceVersion = string(junk), string(junk), string(junk)
				})
			}
		}},
		{name: "wrong types everywhere", rows: wrongTypes(valid, nil), dead: map[string]uint64{}, send: func(send sendRaw) {
			wrongTypes(valid, func(body []byte) { send.call(body, nil) })
		}},
		{name: "a million calls in a message", rows: 1, dead: map[string]uint64{}, send: func(send sendRaw) {
			var b bytes.Buffer
			b.WriteString(`{"model":"m","messages":[{"role":"assistant","tool_calls":[`)
			for i := range size(50_000, 1_000_000) {
				fmt.Fprintf(&b, `{"id":"c%d"},`, i)
			}
			b.WriteString(`{}]}]}`)
			send.call(b.Bytes(), nil)
		}},
		{name: "very long ids and names", rows: 1, dead: map[string]uint64{}, send: func(send sendRaw) {
			long := bytes.Repeat([]byte("A"), size(2<<20, 20<<20))
			send.call(bytes.ReplaceAll(bytes.ReplaceAll(valid, []byte(`"m"`), append(append([]byte{'"'}, long...), '"')), []byte(`"tool_call_id":"call_1`), append([]byte(`"tool_call_id":"`), long...)), nil)
		}},
		{name: "unknown kinds and subjects", rows: 0, dead: map[string]uint64{"bad_subject": 6}, send: func(send sendRaw) {
			h := hostileEvent(event.Request, newExchange(), nil).Encode()
			delete(h, event.HeaderMsgID)
			for _, subject := range []string{"banana.s.00", "request.s", "request.s.zz", "request.s.00.x", "request", "request.s.000"} {
				send(event.SubjectPrefix+subject, h, valid)
			}
		}},
		{name: "garbage headers", rows: -1, dead: map[string]uint64{"bad_header": uint64(bad)}, send: func(send sendRaw) {
			keys := []string{event.HeaderTime, event.HeaderPart, event.HeaderSeq, event.HeaderDropped, event.HeaderRetry}
			for i := range bad {
				h := hostileEvent(event.Request, newExchange(), nil).Encode()
				for range 50 {
					h[event.HeaderAttrPrefix+fmt.Sprint(rnd.IntN(1e6))] = []string{strings.Repeat("%zz", 300)}
				}
				h["X-"+fmt.Sprint(i)] = []string{string(bytes.Map(printable, randomBytes(rnd, 5000)))}
				h[keys[i%len(keys)]] = []string{"garbage"}
				send("llmtap.v1.request.hostile.00", h, valid)
			}
		}},
		{name: "decompression bombs", rows: 2 * 20, dead: map[string]uint64{"too_large": 2 * 20}, send: func(send sendRaw) {
			zeros := make([]byte, size(10<<20, 400<<20))
			var gz bytes.Buffer
			w := gzip.NewWriter(&gz)
			_, _ = w.Write(zeros)
			_ = w.Close()
			z, _ := zstd.NewWriter(nil)
			zs := z.EncodeAll(zeros, nil)
			for range 20 {
				send.call(gz.Bytes(), func(q *event.Event) { q.ContentEncoding = "gzip" })
				send.call(zs, func(q *event.Event) { q.ContentEncoding = "zstd" })
			}
		}},
		{name: "wrong content encoding", rows: bad, dead: map[string]uint64{"encoding": uint64(bad)}, send: func(send sendRaw) {
			for i := range bad {
				send.call(randomBytes(rnd, 200), func(q *event.Event) { q.ContentEncoding = []string{"gzip", "zstd", "br", "no such"}[i%4] })
			}
		}},
		{name: "every exchange three times", rows: bad, dead: map[string]uint64{}, send: func(send sendRaw) {
			for range bad {
				id := newExchange()
				for range 3 {
					for _, ev := range []*event.Event{hostileEvent(event.Request, id, valid), hostileEvent(event.Response, id, []byte(goodResponse))} {
						h := ev.Encode()
						delete(h, event.HeaderMsgID) // as after the stream's duplicate window
						send(ev.Subject(), h, ev.Body)
					}
				}
			}
		}},
		{name: fmt.Sprintf("%d requests without responses", lone), rows: 0, dead: map[string]uint64{}, send: func(send sendRaw) {
			for range lone {
				send.event(hostileEvent(event.Request, newExchange(), valid))
			}
		}},
		{name: fmt.Sprintf("%d services, processes and conversations", services), rows: services, dead: map[string]uint64{}, send: func(send sendRaw) {
			for i := range services {
				name := fmt.Sprintf("service-%d", i)
				q := hostileEvent(event.Response, newExchange(), []byte(`{"error":{"message":"no"}}`))
				q.Labels = event.Labels{Service: name, Agent: name, Stage: name, ServiceVersion: name, Environment: name, Conversation: name}
				q.Instance, q.Seq, q.Status = name, uint64(1+i%7), 400
				p := *q
				p.Kind, p.URL, p.Seq, p.Body = event.Request, "https://"+name+".example/chat/completions", uint64(9+i%5), valid
				send.event(&p)
				send.event(q)
			}
		}},
		// The last input, because its parts expire while the next one would be read.
		{name: "parts that never arrive", rows: -1, send: func(send sendRaw) {
			part := bytes.Repeat([]byte("x"), event.PartBytes)
			for range size(100, 1200) {
				p := hostileEvent(event.Request, newExchange(), part)
				p.Part, p.Parts, p.BodyBytes = 1, 100, 50<<20
				send(p.Subject(), p.Encode(), p.Body)
			}
		}},
	}
}

func tooLargeAbove(size, bound int) map[string]uint64 {
	if size > bound {
		return map[string]uint64{"too_large": 1}
	}
	return map[string]uint64{}
}

// wrongTypes calls use with copies of a JSON text, each with one scalar replaced by a value of a wrong type. It returns the
// number of copies.
func wrongTypes(valid []byte, use func([]byte)) int {
	n := 0
	for i := range valid {
		if valid[i] != ':' || valid[i-1] != '"' {
			continue
		}
		end := i + 1 + bytes.IndexAny(valid[i+1:], ",}]")
		for _, v := range []string{"null", "true", "-1e999", `""`, "[]", "{}", `[[{}]]`, `"\ud800"`} {
			if text := string(valid[:i+1]) + v + string(valid[end:]); valid[i+1] != '[' && valid[i+1] != '{' {
				if n++; use != nil {
					use([]byte(text))
				}
			}
		}
	}
	return n
}

func randomBytes(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		if b[i] = byte(128 + rnd.IntN(128)); rnd.IntN(3) == 0 {
			b[i] = byte(' ' + rnd.IntN(2)) // valid, but no quote and no backslash
		}
	}
	return b
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return 'x'
	}
	return r
}
