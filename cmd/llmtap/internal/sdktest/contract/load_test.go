package contract

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var load = flag.Duration("load", 0, "duration of each load of TestLoad at its full rate; by default short and slow")

// A report is the result of a load from python/load.py.
type report struct {
	Made    int     // calls
	Seconds float64 // duration
	Cores   float64 // used by the process
	Grown   int64   // maximum growth of the process in bytes
	Bytes   int64   // reserved by the hook
	Errors  int     // internal errors of the hook
}

// The Python hook under load: while NATS is up no event is lost; while it is down memory stays bounded and the dropped
// exchanges are counted exactly. With -load 60s the test measures the capacity of the machine.
func TestLoad(t *testing.T) {
	t.Setenv("LLMTAP_SHAPE_KEY", shapeKey)
	python := interpreter(t)
	f := func(client, capture string, processes, rate, threads int, up bool) {
		name := fmt.Sprintf("%s,%s,%d", client, cmp.Or(capture, "not recorded"), processes)
		if !up {
			name += ",NATS down"
		}
		t.Run(name, func(t *testing.T) {
			l := &loading{nats: newNATS(t)}
			for range processes {
				l.pythons = append(l.pythons, startPython(t, python))
			}
			l.run(t, &options{NATS: l.nats.url(), Capture: capture, MemoryLimit: 64 << 20}, client, rate/processes, threads, up)
		})
	}
	f("httpx", "", 1, 1000, 4, true) // not recorded: the cost of the client
	f("openai", event.CaptureShape, 1, 200, 4, true)
	f("httpx", event.CaptureFull, 1, 1000, 4, true)
	f("httpx", event.CaptureFull, 2, 1000, 4, true)
	f("httpx", event.CaptureFull, 1, 1000, 4, false)
}

type loading struct {
	pythons []*runner // processes of one agent
	nats    *natsd
}

func (l *loading) run(t *testing.T, o *options, client string, rate, threads int, up bool) {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, loadAnswer) // fails if the agent has disconnected
		}
	}))
	defer provider.Close()
	if up {
		l.nats.start(t)
	}
	seconds := load.Seconds()
	if seconds == 0 {
		rate, seconds, o.MemoryLimit = rate/10, 2, 1<<20
	}
	if o.Capture != "" {
		o.Host = provider.Listener.Addr().String()
	}
	reports, flushed := make([]report, len(l.pythons)), make([]stats, len(l.pythons))
	for _, p := range l.pythons {
		p.open(t, o)
	}
	var g sync.WaitGroup
	for i, p := range l.pythons {
		g.Go(func() {
			p.do(t, "load", map[string]any{
				"client": client, "base": provider.URL, "text": loadRequest, "rate": rate, "threads": threads, "seconds": seconds,
			}, &reports[i])
		})
	}
	g.Wait()
	var all report
	for _, r := range reports {
		if r.Made < threads || r.Errors > 0 {
			t.Errorf("%+v", r)
		}
		// Python objects of the queue and of the client need additional memory.
		if r.Bytes > o.MemoryLimit || r.Grown > 3*o.MemoryLimit+32<<20 {
			t.Errorf("the queue reserves %d of %d bytes, the process grew by %d", r.Bytes, o.MemoryLimit, r.Grown)
		}
		all = report{Made: all.Made + r.Made, Seconds: max(all.Seconds, r.Seconds), Cores: all.Cores + r.Cores, Grown: max(all.Grown, r.Grown)}
	}
	if !up {
		l.nats.start(t)
	}
	var published, lost uint64
	whole := true
	for i, p := range l.pythons {
		flushed[i] = p.flush(t, max(60, seconds))
		p.close(t)
		published, lost, whole = published+flushed[i].Published, lost+flushed[i].Dropped, whole && flushed[i].Flushed
	}
	kept, dropped := l.count(t)
	t.Logf("%d calls in %.1f s, %.0f a second, with %.2f cores; a process grew by %.1f MB; %d stored, %d dropped",
		all.Made, all.Seconds, float64(all.Made)/all.Seconds, all.Cores, float64(all.Grown)/(1<<20), kept, dropped)
	if o.Capture == "" {
		all.Made = 0
	}
	if !whole || published != kept || lost != dropped || kept+dropped != uint64(all.Made) || up != (dropped == 0) {
		t.Errorf("%d calls, %d stored, the last of each process has %d dropped; stats %+v", all.Made, kept, dropped, flushed)
	}
}

// count returns the number of stored exchanges, and of dropped ones from the last message of each process, which must match
// the gaps in the sequence numbers.
func (l *loading) count(t *testing.T) (kept, dropped uint64) {
	type process struct{ seq, missing, dropped uint64 }
	processes, open := make(map[string]process), make(map[string]bool)
	for _, m := range l.nats.newMessages(t) {
		ev := must.Get(event.Decode(m.Subject, event.Header(m.Header), m.Data))(t)
		p := processes[ev.Instance]
		if ev.Seq <= p.seq {
			t.Fatalf("seq %d follows %d", ev.Seq, p.seq)
		}
		processes[ev.Instance] = process{seq: ev.Seq, missing: p.missing + ev.Seq - p.seq - 1, dropped: ev.Dropped}
		if open[ev.Exchange] {
			delete(open, ev.Exchange)
			kept++
		} else {
			open[ev.Exchange] = true
		}
	}
	for id, p := range processes {
		must.Equal(t, p.missing, 2*p.dropped, "instance %s: sequence numbers are missing, %d exchanges dropped", id, p.dropped)
		dropped += p.dropped
	}
	if len(open) > 0 {
		t.Errorf("%d requests without response", len(open))
	}
	return kept, dropped
}

// Request and response of 2 KB.
var (
	loadRequest = mustJSON(map[string]any{"model": "gpt-5", "messages": []map[string]string{
		{"role": "system", "content": strings.Repeat("You plan the work of others. ", 35)},
		{"role": "user", "content": strings.Repeat("What is to be done next? ", 40)},
	}})
	loadAnswer = mustJSON(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-5", "choices": []map[string]any{{
			"index": 0, "finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": strings.Repeat("First read the report. ", 80)},
		}},
	})
)

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return string(b)
}
