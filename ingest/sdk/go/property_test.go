package llmtap

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var seeds = flag.Int("seeds", 4, "number of random histories of TestRandomHistories")

// A plan is one call: the request, the behaviour of the provider, and how the agent reads the response.
type plan struct {
	n       int    // number of the call, in the request body
	request int    // bytes
	answer  int    // bytes
	does    string // provider: json, gzip, stream, chunked, error, short, reset, hang
	once    bool   // the request can be read only once
	read    int    // bytes the agent reads, all if negative
	then    string // agent: close, cancel, abandon
}

func randomPlan(r *rand.Rand, n int) plan {
	does := [...]string{"json", "json", "gzip", "stream", "chunked", "error", "short", "reset", "hang"}
	then := [...]string{"close", "close", "close", "cancel", "abandon"}
	p := plan{
		n: n, request: 30 + r.IntN(1<<r.IntN(18)), answer: 30 + r.IntN(1<<r.IntN(18)), does: does[r.IntN(len(does))],
		once: r.IntN(4) == 0, read: -1, then: then[r.IntN(len(then))],
	}
	if r.IntN(3) == 0 {
		p.read = r.IntN(p.answer)
	}
	return p
}

func (p plan) requestBody() []byte {
	return filled(fmt.Sprintf(`{"n":%d,"text":"`, p.n), p.request, `"}`)
}

// answerBody returns the complete response before compression.
func (p plan) answerBody() []byte {
	if p.does == "stream" {
		return filled("data: {\"a\":1}\n\ndata: {\"text\":\"", p.answer, "\"}\n\ndata: [DONE]\n\n")
	}
	return filled(`{"text":"`, p.answer, `"}`)
}

func filled(start string, size int, end string) []byte {
	return []byte(start + strings.Repeat("x", max(0, size-len(start)-len(end))) + end)
}

func (p plan) header() string { return fmt.Sprintf("%d %s", p.answer, p.does) }

// playProvider follows the plan in the X-Plan header.
func playProvider(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	var p plan
	fmt.Sscanf(r.Header.Get("X-Plan"), "%d %s", &p.answer, &p.does)
	body := p.answerBody()
	w.Header().Set("Content-Type", "application/json")
	switch p.does {
	case "json":
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	case "gzip":
		w.Header().Set("Content-Encoding", "gzip")
		body = zipped(string(body))
	case "stream":
		w.Header().Set("Content-Type", "text/event-stream")
	case "error":
		w.WriteHeader(http.StatusBadRequest)
	case "short":
		w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	case "reset":
		panic(http.ErrAbortHandler)
	case "hang":
		<-r.Context().Done()
		return
	}
	w.Write(body[:len(body)/2])
	w.(http.Flusher).Flush()
	w.Write(body[len(body)/2:])
	if p.does == "short" {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// A result is everything that an agent observes of a call.
type result struct {
	status        int
	header, body  string
	length        int64
	err, closeErr string
}

// play makes the call of p as an agent.
func play(ctx context.Context, rt http.RoundTripper, target string, p plan) (o result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if p.does == "hang" {
		ctx, cancel = context.WithTimeout(ctx, 5*time.Millisecond)
		defer cancel()
	}
	var body io.Reader = bytes.NewReader(p.requestBody())
	if p.once {
		body = io.MultiReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, body)
	if err != nil {
		return o, err
	}
	req.Header.Set("X-Plan", p.header())
	resp, err := rt.RoundTrip(req)
	if err != nil {
		o.err = errorKind(err)
		return o, nil
	}
	resp.Header.Del("Date")
	o.status, o.header, o.length = resp.StatusCode, fmt.Sprint(resp.Header, resp.Uncompressed), resp.ContentLength
	var got []byte
	if p.read < 0 {
		got, err = io.ReadAll(resp.Body)
	} else {
		got, err = io.ReadAll(io.LimitReader(resp.Body, int64(p.read)))
	}
	o.body, o.err = string(got), errorKind(err)
	switch p.then {
	case "cancel":
		cancel()
		resp.Body.Close()
	case "close":
		o.closeErr = errorKind(resp.Body.Close())
	case "abandon": // ctx ends the connection and the exchange
	}
	return o, nil
}

// errorKind returns the comparable part of an error.
func errorKind(err error) string {
	var op *net.OpError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return err.Error()
	case errors.As(err, &op): // its text contains ports
		return "network"
	}
	return err.Error()
}

// With any combination of calls, failures, outages and memory shortage, an agent observes the same as without the hook,
// memory stays below its limit, and every exchange is in the stream or counted as dropped.
func TestRandomHistories(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(playProvider))
	defer srv.Close()
	for seed := range uint64(*seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { playHistory(t, srv.URL, seed) })
	}
}

func playHistory(t *testing.T, target string, seed uint64) {
	const agents, calls = 6, 60
	r := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	n := startNATS(t, dir, -1)
	limit := int64(minMemoryLimit) << r.IntN(3)
	h := openHook(t, n.url, target, func(c *Config) { c.MemoryLimit, c.NATSOptions = limit, quickReconnect })
	base := &http.Transport{}
	defer base.CloseIdleConnections()

	over := make(chan int64, 1)
	watching, stopWatch := context.WithCancel(t.Context())
	var watch, work sync.WaitGroup
	watch.Go(func() {
		for watching.Err() == nil {
			if b := h.Stats().Bytes; b > limit {
				select {
				case over <- b:
				default:
				}
			}
			runtime.Gosched()
		}
	})
	plans := make([]plan, agents*calls)
	for i := range plans {
		plans[i] = randomPlan(r, i)
	}
	var finished atomic.Int32 // agents
	for a := range agents {
		work.Go(func() {
			defer finished.Add(1)
			ctx := WithConversation(t.Context(), fmt.Sprint("conv-", a))
			for _, p := range plans[a*calls : (a+1)*calls] {
				want, err1 := play(ctx, base, target, p)
				got, err2 := play(ctx, h.Transport(base), target, p)
				if err := errors.Join(err1, err2); err != nil {
					t.Errorf("%+v: %v", p, err)
				}
				must.Equal(t, got, want, "%+v: with the hook, as without", p)
			}
		})
	}
	for range 2 {
		more := h.Stats().Events + uint64(r.IntN(150))
		must.Wait(t, "more events", func() bool { return h.Stats().Events >= more || finished.Load() >= agents })
		n.stop()
		// An outage for some time, or until exchanges are dropped.
		before, short := h.Stats().Dropped, r.IntN(2) == 0
		time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
		must.Wait(t, "drops", func() bool { return short || finished.Load() >= agents || h.Stats().Dropped >= before+20 })
		n = startNATS(t, dir, n.port)
	}
	work.Wait()
	flushAll(t, h) // with abandoned responses, and those being read in the background
	last := plan{n: len(plans), does: "json", read: -1}
	must.Get(play(t.Context(), h.Transport(base), target, last))(t)
	flush(t, h)
	stopWatch()
	watch.Wait()

	select {
	case b := <-over:
		t.Errorf("%d bytes in use, the limit is %d", b, limit)
	default:
	}
	s := h.Stats()
	t.Logf("%d calls, limit %d KiB: %+v", len(plans)+1, limit>>10, s)
	if s.Published+s.Dropped != uint64(len(plans)+1) || s.Bytes != 0 || s.Pending != 0 || s.Open != 0 {
		t.Errorf("%d calls: stats %+v", len(plans)+1, s)
	}
	checkStream(t, n.events(t), plans, last, s)
}

// checkStream expects every exchange in evs or counted as dropped, with the bodies of its plan.
func checkStream(t *testing.T, evs []*event.Event, plans []plan, last plan, s Stats) {
	t.Helper()
	type half struct {
		body []byte
		ev   *event.Event
	}
	seqs, order := make(map[uint64]bool), make(map[string]uint64)
	halves := make(map[string]*[2]half)
	sent := make(map[string]bool)
	for _, ev := range evs {
		if sent[ev.MessageID()] {
			continue // a frame that was stored and sent again without an exchange that had been dropped
		}
		sent[ev.MessageID()] = true
		x := halves[ev.Exchange]
		if x == nil {
			x = new([2]half)
			halves[ev.Exchange] = x
		}
		at := &x[0]
		if ev.Kind == event.Response {
			at = &x[1]
		}
		at.body, at.ev = append(at.body, ev.Body...), ev
		seqs[ev.Seq] = true
		if c := ev.Labels.Conversation; ev.Seq < order[c] {
			t.Errorf("seq %d of %s follows %d", ev.Seq, c, order[c])
		} else {
			order[c] = ev.Seq
		}
	}
	whole := uint64(0)
	for id, x := range halves {
		if x[0].ev == nil || x[1].ev == nil {
			continue
		}
		whole++
		if x[0].ev.Degraded { // the call ended before its body was read
			continue
		}
		var n int
		if _, err := fmt.Sscanf(string(x[0].body), `{"n":%d,`, &n); err != nil || n > len(plans) {
			t.Errorf("exchange %s: request %.40q", id, x[0].body)
			continue
		}
		p := last
		if n < len(plans) {
			p = plans[n]
		}
		must.Equal(t, string(x[0].body), string(p.requestBody()), "exchange %s of %+v: request", id, p)
		if want := p.answerBody(); !bytes.HasPrefix(want, x[1].body) || x[1].ev.Error == "" && len(x[1].body) != len(want) {
			t.Errorf("exchange %s of %+v: response of %d bytes, error %q", id, p, len(x[1].body), x[1].ev.Error)
		}
	}
	// A dropped exchange may be complete in the stream: NATS stored it and stopped before the acknowledgement.
	calls := uint64(len(plans) + 1)
	if whole < s.Published || calls-whole > s.Dropped || uint64(len(halves))-whole > s.Dropped {
		t.Errorf("%d calls, %d in the stream, %d of them complete, stats %+v", calls, len(halves), whole, s)
	}
	end := evs[len(evs)-1]
	if end.Seq != 2*calls || end.Dropped != s.Dropped {
		t.Errorf("the last message has seq %d and dropped %d, stats %+v", end.Seq, end.Dropped, s)
	}
	// Each missing sequence number is a missing half, and vice versa.
	must.Equal(t, end.Seq-uint64(len(seqs)), 2*(calls-uint64(len(halves)))+uint64(len(halves))-whole, "missing sequence numbers, and halves")
}
