package httpevents

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"

	"github.com/llmtap/llmtap/ingest/httpbody"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
)

func encode(events []*event.Event) []byte {
	var b []byte
	for _, e := range events {
		b = append(e.AppendJSON(b), '\n')
	}
	return b
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// Events of all kinds, in any form of a payload, are stored as hooks publish them to NATS.
func TestEvents(t *testing.T) {
	r := start(t)
	lines := encode(full())
	array := append([]byte("[\n"), bytes.ReplaceAll(bytes.TrimSpace(lines), []byte("\n"), []byte(",\n"))...)
	array = append(array, "]\r\n"...)
	zw := must.Get(zstd.NewWriter(nil))(t)
	f := func(contentType string, payload []byte, header ...string) {
		t.Helper()
		for _, e := range full() { // message ids of an earlier run would be duplicates
			payload = bytes.ReplaceAll(payload, []byte(e.Exchange), fmt.Appendf(nil, "x-%d", r.read))
			payload = bytes.ReplaceAll(payload, []byte(e.Labels.Run), fmt.Appendf(nil, "r-%d", r.read))
			payload = bytes.ReplaceAll(payload, []byte(`"uncaptured":7`), fmt.Appendf(nil, `"uncaptured":%d`, 100+r.read))
			break
		}
		switch {
		case len(header) == 0:
		case header[1] == "gzip":
			payload = zipped(payload)
		case header[1] == "zstd":
			payload = zw.EncodeAll(payload, nil)
		}
		a := r.post(contentType, payload, header...)
		if a.status != 200 || a.Accepted != len(full()) || len(a.Rejected)+len(a.Warnings) > 0 {
			t.Fatalf("%s %v: %+v", contentType, header, a)
		}
		same := cmpopts.IgnoreFields(event.Event{}, "Exchange", "Uncaptured", "Labels.Run")
		must.Agree(t, cmp.Diff(full(), r.stored(), same, cmpopts.EquateEmpty()), contentType, header)
	}
	f("application/x-ndjson", lines)
	f("application/jsonl; charset=utf-8", append([]byte("\xef\xbb\xbf\r\n"), bytes.ReplaceAll(lines, []byte("\n"), []byte("\r\n \r\n"))...))
	f("application/json", array)
	f("application/ndjson", lines, "Content-Encoding", "gzip")
	f("application/json", array, "Content-Encoding", "zstd")
	r.idle()

	// A payload that is sent again is stored once.
	if a := r.post("application/x-ndjson", lines); a.Accepted != len(full()) || len(r.stored()) != len(full()) {
		t.Fatalf("%+v", a)
	}
	if a := r.post("application/x-ndjson", lines); a.Accepted != len(full()) || len(r.stored()) != 0 {
		t.Errorf("%+v", a)
	}
}

// Long bodies are stored in parts, objects byte for byte, and events in the order of the payload.
func TestBodies(t *testing.T) {
	r := start(t)
	long := `{"messages": [ "` + strings.Repeat("é\\u00e9\\n", 300_000) + `" ]}`
	a := r.post("application/json", fmt.Appendf(nil, `[
		{"kind":"request","exchange":"1","body": %s},
		{"kind":"response","exchange":"1","status":200,"body":"data: \u00e9\ud83d\ude00\n"},
		{"kind":"request","exchange":"2","body":[1, 2 ]},
		{"kind":"response","exchange":"2","status":200,"body_base64":"\/\/4A"},
		{"kind":"request","exchange":"3","body":null,"capture":"shape"}]`, long))
	if a.status != 200 || a.Accepted != 5 {
		t.Fatalf("%+v", a)
	}
	var got []string
	for _, e := range r.stored() {
		got = append(got, fmt.Sprintf("%s %s %s %s %s %d %d", e.Exchange, e.Kind, e.Capture, e.ContentType, e.Body, e.Parts, e.BodyBytes))
	}
	must.Agree(t, cmp.Diff([]string{
		fmt.Sprintf("1 request full application/json %s %d %d", long, (len(long)+event.PartBytes-1)/event.PartBytes, len(long)),
		"1 response full  data: é😀\n 1 13",
		"2 request full application/json [1, 2 ] 1 7",
		"2 response full  \xff\xfe\x00 1 3",
		"3 request shape   1 0",
	}, got))
	r.idle()
}

// Payloads of several clients at once keep their order.
func TestConcurrent(t *testing.T) {
	r := start(t)
	var g sync.WaitGroup
	for c := range 20 {
		g.Go(func() {
			for p := range 5 {
				var b []byte
				for i := range 100 {
					b = fmt.Appendf(b, `{"kind":"request","exchange":"%d-%d","instance":"i%d","seq":%d,"body":"x"}`+"\n", c, p*100+i, c, p*100+i+1)
				}
				if a := r.post("application/x-ndjson", b); a.status != 200 || a.Accepted != 100 {
					t.Errorf("%+v", a)
				}
			}
		})
	}
	g.Wait()
	seq := map[string]uint64{}
	for _, e := range r.stored() {
		if e.Seq != seq[e.Instance]+1 {
			t.Fatalf("%s: seq %d follows %d", e.Instance, e.Seq, seq[e.Instance])
		}
		seq[e.Instance] = e.Seq
	}
	if len(seq) != 20 || seq["i7"] != 500 {
		t.Errorf("%v", seq)
	}
	r.idle()
}

// What cannot be stored is named in the answer; the rest is stored.
func TestPartial(t *testing.T) {
	r := start(t)
	a := r.post("application/x-ndjson", []byte(`{"kind":"request","exchange":"1","conversaton":"c","convrsation":"d","zzzzzzzzz":1}

{"kind":"response","exchange":"1"}
{"kind":"request","exchange":"1"
{"kind":"response","exchange":"1","status":400,"body":"bad key sk-proj-abcdefghijklmnopqrstuvwx1234567890","conversaton":"c"}
`))
	want := Answer{
		Accepted: 2,
		Rejected: []Rejected{
			{1, "status is missing; a response requires its HTTP status, or error if there was no answer"},
			{2, "is not JSON on one line: byte 33 of the line is invalid"},
		},
		Warnings: []string{
			`event 0: ignored unknown member "conversaton"; did you mean conversation?`,
			`event 0: ignored unknown member "convrsation"; did you mean conversation?`,
			`event 0: ignored unknown member "zzzzzzzzz"`,
		},
	}
	if diff := cmp.Diff(want, a.Answer); diff != "" || a.status != 200 {
		t.Errorf("%d %s", a.status, diff)
	}
	if got := r.stored(); len(got) != 2 || string(got[1].Body) != "bad key sk-***" {
		t.Errorf("stored %+v", got)
	}
	r.idle()
}

// Payloads beyond the limits are refused, whole, and nothing of them is stored.
func TestRefused(t *testing.T) {
	r := start(t)
	f := func(status int, text, contentType string, payload []byte, header ...string) {
		t.Helper()
		a := r.post(contentType, payload, header...)
		if a.status != status || !strings.Contains(a.Error, text) || a.Accepted != 0 || a.Rejected == nil || a.Warnings == nil {
			t.Errorf("%d %s: %d %.300s, want %d %s", len(payload), contentType, a.status, a.Error, status, text)
		}
	}
	const valid = `{"kind":"request","exchange":"1"}`
	size := 100 << 20
	if testing.Short() {
		size /= 4 // slow with the race detector
	}
	bomb := zipped(bytes.Repeat([]byte(" "), size))
	f(413, "more than 200 times", "application/json", bomb, "Content-Encoding", "gzip")
	f(413, "exceeds 32 MiB", "application/json", bytes.Repeat([]byte(" "), httpbody.MaxBytes+1))
	noise := bytes.Repeat([]byte(valid+"\n"), 400) // compresses 100 times
	f(413, "more than 10000 events", "application/x-ndjson", bytes.Repeat(noise, 26))
	f(415, "is not application/json", "text/plain", []byte(valid))
	f(415, "is not application/json", "", []byte(valid))
	f(415, `"br" is not one of`, "application/json", []byte(valid), "Content-Encoding", "br")
	f(400, "read the payload: gzip", "application/json", []byte(valid), "Content-Encoding", "gzip")
	f(400, "read the payload: ", "application/json", bomb[:len(bomb)/1000], "Content-Encoding", "gzip")
	f(400, "send Content-Type application/x-ndjson", "application/json", []byte(valid+"\n"+valid))
	f(400, "ends inside a value", "application/json", []byte(valid[:20]))
	f(400, "byte 9 is invalid", "application/json", []byte(`{"kind": request}`))
	f(400, "byte 34 is invalid", "application/json", []byte(`[`+valid+`{}]`))
	f(400, "contains no event", "application/json", []byte(` [ ] `))
	f(400, "contains no event", "application/x-ndjson", []byte("\r\n\n"))
	f(400, "neither an event object nor an array", "application/json", []byte(`"request"`))
	f(400, "no event is valid", "application/json", []byte(`[1,{}]`))
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, r.url, nil))(t)
	if a := r.do(req); a.status != 405 || a.Error != "send events with POST" {
		t.Errorf("%+v", a)
	}
	got := r.stored()
	must.Equal(t, len(got), 0, "stored %+v", got)
	r.idle()
}

// When the memory is full, clients are told to wait; a payload larger than what is left is not read to its end.
func TestBehind(t *testing.T) {
	r := start(t)
	payload := fmt.Appendf(nil, `{"kind":"request","exchange":"1","body":"%s"}`, bytes.Repeat([]byte("x"), 1<<20))
	taken := int64(128<<20 - 1<<20)
	if !r.budget.Take(taken) {
		t.Fatal("no memory")
	}
	a := r.post("application/json", payload)
	if a.status != 429 || a.retry != "1" || !strings.Contains(a.Error, "receive.max_in_flight") || len(r.stored()) > 0 {
		t.Errorf("%+v", a)
	}
	must.Equal(t, r.budget.Used(), taken, "bytes in use")
	r.budget.Release(taken)
	if a := r.post("application/json", payload); a.status != 200 || len(r.stored()) != 1 {
		t.Errorf("%+v", a)
	}
	r.idle()
}

// While NATS is away clients are told so at once. What they send again is stored once, in order.
func TestNATSDown(t *testing.T) {
	r := start(t)
	r.cfg.Port = natsPort(t, r)
	if a := r.post("application/json", []byte(`{"kind":"request","exchange":"0"}`)); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	r.server.Shutdown()
	payload := []byte(`[{"kind":"request","exchange":"1"},{"kind":"response","exchange":"1","status":200},{"kind":"sponse"}]`)
	began := time.Now()
	a := r.post("application/json", payload)
	if a.status != 503 || a.retry == "" || a.Accepted != 0 || len(a.Rejected) != 0 || !strings.Contains(a.Error, "the events are not stored") {
		t.Errorf("%+v", a)
	}
	if d := time.Since(began); d > 8*time.Second {
		t.Errorf("answered after %v", d)
	}
	r.idle()
	r.startNATS()
	must.Wait(t, "NATS works again", func() bool { a = r.post("application/json", payload); return a.status != 503 })
	must.Equal(t, a.status, 200, "%+v", a)
	if a.Accepted != 2 || len(a.Rejected) != 1 || a.Rejected[0].Event != 2 {
		t.Errorf("%+v", a)
	}
	var got []string
	for _, e := range r.stored() {
		got = append(got, e.Exchange+" "+e.Kind.String())
	}
	must.Agree(t, cmp.Diff([]string{"0 request", "1 request", "1 response"}, got))
}

// A client that disconnects, or a NATS that does not answer, holds no memory.
func TestSlowStore(t *testing.T) {
	r := start(t)
	asked := make(chan struct{})
	publish := r.handler.publish
	r.handler.publish = func(ctx context.Context, events []*event.Event) (rejected []Rejection, err error) {
		close(asked)
		<-ctx.Done()
		return publish(ctx, events)
	}
	ctx, cancel := context.WithCancel(t.Context())
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, r.url, strings.NewReader(`{"kind":"request","exchange":"1"}`)))(t)
	req.Header.Set("Content-Type", "application/json")
	go func() {
		<-asked
		cancel()
	}()
	if resp, err := r.client.Do(req); err == nil {
		resp.Body.Close()
		t.Fatal("answered")
	}
	r.idle()
	if got := r.stored(); len(got) > 0 {
		t.Errorf("stored %+v", got)
	}
}

// A NATS that hangs does not make clients hang. When it works again, everything is stored once.
func TestNATSHangs(t *testing.T) {
	t.Parallel()
	r := start(t)
	link := testnet.NewLink(t, strings.TrimPrefix(r.server.URL(), "nats://"))
	link.Open()
	conn := r.connect("nats://" + link.Addr)
	r.serve(conn)
	payload := func(i int) []byte {
		var b []byte
		for j := range 8 {
			b = fmt.Appendf(b, `{"kind":"request","exchange":"%d-%d","body":"%s"}`+"\n", i, j, bytes.Repeat([]byte("x"), 1<<20))
		}
		return b
	}
	link.Pause()
	var g sync.WaitGroup
	for i := range 5 {
		g.Go(func() {
			began := time.Now()
			a := r.post("application/x-ndjson", payload(i))
			if d := time.Since(began); a.status != 503 && a.status != 429 || a.retry == "" || d > 5*storeTimeout {
				t.Errorf("payload %d: %d %s after %v", i, a.status, a.Error, d)
			}
		})
	}
	g.Wait()
	link.Resume()
	must.Wait(t, "NATS works again, and payloads are stored", func() bool { return r.post("application/x-ndjson", payload(0)).status == 200 })
	seen := map[string]int{}
	for _, e := range r.stored() {
		if len(e.Body) == 1<<20 { // else a part of a payload that was not accepted
			seen[e.Exchange]++
		}
	}
	for j := range 8 {
		id := fmt.Sprintf("0-%d", j)
		must.Equal(t, seen[id], 1, "%s is stored times", id)
	}
	r.idle()
}
