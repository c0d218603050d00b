package contract

import (
	"cmp"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/event"
)

var load = flag.Duration("load", 0, "how long each load of TestLoad lasts, at its full rate; by default it is short and slow")

// A report is what python/load.py says of a load.
type report struct {
	Made    int     // calls
	Seconds float64 // that they took
	Cores   float64 // that the process used
	Grown   int64   // bytes of memory, at most, over what the process had before
	Bytes   int64   // that the hook counts in its queue
	Errors  int     // mistakes of the hook's own
}

// The Python hook under load: no event is lost while NATS takes them; without NATS memory stays bounded, and what was
// dropped is counted exactly. With -load 60s it tells what a machine can do.
func TestLoad(t *testing.T) {
	t.Setenv("LLMTAP_SHAPE_KEY", shapeKey)
	python := interpreter(t)
	f := func(client, capture string, rate, threads int, up bool) {
		name := client + "," + cmp.Or(capture, "not recorded")
		if !up {
			name += ",NATS down"
		}
		t.Run(name, func(t *testing.T) {
			l := &loading{python: startPython(t, python), nats: newNATS(t)}
			l.run(t, &options{NATS: l.nats.url(), Capture: capture, MemoryLimit: 64 << 20}, client, rate, threads, up)
		})
	}
	f("httpx", "", 1000, 4, true) // not recorded: what the client itself takes
	f("openai", event.CaptureShape, 200, 4, true)
	f("httpx", event.CaptureFull, 1000, 4, true)
	f("httpx", event.CaptureFull, 1000, 4, false)
}

type loading struct {
	python *pythonHook
	nats   *natsd
}

func (l *loading) run(t *testing.T, o *options, client string, rate, threads int, up bool) {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, loadAnswer) // the agent may be gone
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
	l.python.open(t, o)
	var r report
	l.python.do(t, "load", map[string]any{
		"client": client, "base": provider.URL, "text": loadRequest, "rate": rate, "threads": threads, "seconds": seconds,
	}, &r)
	if r.Made < threads || r.Errors > 0 {
		t.Errorf("%+v", r)
	}
	// Python's own memory for what waits, and for the client, comes on top.
	if r.Bytes > o.MemoryLimit || r.Grown > 3*o.MemoryLimit+32<<20 {
		t.Errorf("the queue holds %d bytes of %d, the process grew by %d", r.Bytes, o.MemoryLimit, r.Grown)
	}
	if !up {
		l.nats.start(t)
	}
	s := l.python.flush(t, max(60, seconds))
	l.python.close(t)
	kept, dropped := l.count(t)
	t.Logf("%d calls in %.1f s, %.0f a second, with %.2f cores; the process grew by %.1f MB; %d stored, %d dropped",
		r.Made, r.Seconds, float64(r.Made)/r.Seconds, r.Cores, float64(r.Grown)/(1<<20), kept, dropped)
	if o.Capture == "" {
		r.Made = 0
	}
	if !s.Flushed || s.Published != kept || s.Dropped != dropped || kept+dropped != uint64(r.Made) || up != (dropped == 0) {
		t.Errorf("%d calls, %d stored, the last says %d dropped; stats %+v", r.Made, kept, dropped, s)
	}
}

// count returns how many exchanges are stored, and how many were dropped as the last message says. Their numbers must tell
// the same.
func (l *loading) count(t *testing.T) (kept, dropped uint64) {
	open := make(map[string]bool)
	var seq, gone uint64
	for _, m := range l.nats.news(t) {
		ev, err := event.Decode(m.Subject, event.Header(m.Header), m.Data)
		if err != nil {
			t.Fatal(err)
		}
		if ev.Seq <= seq {
			t.Fatalf("number %d after %d", ev.Seq, seq)
		}
		gone += ev.Seq - seq - 1
		seq, dropped = ev.Seq, ev.Dropped
		if open[ev.Exchange] {
			delete(open, ev.Exchange)
			kept++
		} else {
			open[ev.Exchange] = true
		}
	}
	if len(open) > 0 || gone != 2*dropped {
		t.Errorf("%d halves are alone; %d numbers are missing, %d exchanges dropped", len(open), gone, dropped)
	}
	return kept, dropped
}

// What is asked and answered: messages of 2 KB.
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
