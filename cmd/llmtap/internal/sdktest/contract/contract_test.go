package contract

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

const (
	service  = "svc"
	shapeKey = "the key of the fleet"
)

var (
	root     = filepath.Join("..", "..", "..", "..", "..")
	quiet    = slog.New(slog.DiscardHandler)
	quietLog = log.New(io.Discard, "", 0)
)

func TestMain(m *testing.M) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") || strings.HasPrefix(name, "LLMTAP_") {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// A run is the result of one case with one hook.
type run struct {
	messages []*message
	wire     []*exchange
	results  []result
	stats    stats
}

// All hooks publish the same events for the same calls, with any client.
func TestContract(t *testing.T) {
	slowtest.SkipShort(t, "slow, and other tests cover it for the race detector")
	t.Setenv("LLMTAP_SHAPE_KEY", shapeKey)
	python, node := interpreter(t), nodePackages(t)
	for name, cases := range readCases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &processes{python: startPython(t, python), node: startNode(t, node), nats: newNATS(t)}
			p.nats.start(t)
			for _, c := range cases {
				t.Run(c.Name, func(t *testing.T) { p.test(t, &c) })
			}
		})
	}
}

// processes are shared by cases that run in sequence.
type processes struct {
	nats   *natsd
	python *runner
	node   *runner
	runs   int // number of runs
}

func (p *processes) test(t *testing.T, c *contractCase) {
	for _, capture := range c.Capture {
		t.Run(capture, func(t *testing.T) {
			s := &suite{processes: p, c: c, capture: capture}
			if c.Chat == nil {
				s.raw(t)
			} else {
				s.sdk(t)
			}
		})
	}
}

// A suite is one case in one capture mode.
type suite struct {
	*processes
	c       *contractCase
	capture string
	over    func(http.Handler) http.Handler // stands in front of an endpoint that the hooks use instead of NATS; nil: NATS
}

// each calls f for each client of the other languages.
func (s *suite) each(t *testing.T, f func(t *testing.T, r *runner, client string)) {
	for _, client := range s.c.Clients {
		t.Run(client, func(t *testing.T) { f(t, s.python, client) })
	}
	for _, client := range s.c.Node {
		t.Run(client, func(t *testing.T) { f(t, s.node, client) })
	}
}

// raw sends the same bytes through all hooks and compares their events.
func (s *suite) raw(t *testing.T) {
	c := s.newCall(t, "")
	want := s.run(t, new(goHook), c, s.c.Answers)
	s.each(t, func(t *testing.T, r *runner, client string) {
		c.Client = client
		got := s.run(t, r, c, s.c.Answers)
		s.compare(t, got, want)
		if s.c.Results == nil || *s.c.Results {
			s.sameResults(t, got.results, want.results)
		}
	})
}

// sdk makes the same calls through the SDKs of all languages. It repeats the requests of the other SDKs through the Go hook.
func (s *suite) sdk(t *testing.T) {
	for _, sdk := range s.c.Go {
		t.Run("go "+sdk, func(t *testing.T) { s.run(t, new(goHook), s.newCall(t, sdk), s.c.Answers) })
	}
	s.each(t, func(t *testing.T, r *runner, client string) {
		got := s.run(t, r, s.newCall(t, client), s.c.Answers)
		s.compare(t, got, s.repeat(t, got))
	})
}

func (s *suite) newCall(t testing.TB, client string) *call {
	c := &call{
		Client: client, How: s.c.How, Timeout: s.c.Timeout, Labels: s.c.Labels, Parallel: s.c.Parallel, Tool: s.c.Tool, Chat: s.c.Chat, Retries: s.c.Retries,
	}
	if r := s.c.Request; r != nil {
		c.Path, c.Headers = r.Path, r.Headers
		c.Body = encode(t, r.Encoding, r.Body.bytes())
	}
	return c
}

// run makes the calls of the case through h and reads the published events.
func (s *suite) run(t *testing.T, h hook, c *call, answers []answer) *run {
	t.Helper()
	m := startModel(t, answers)
	defer m.close()
	return s.record(t, h, m, func(n *natsd) (results []result) {
		c.Base = "http://" + m.host()
		if c.Labels.Run = s.c.Labels.Run; c.Tool != "" {
			c.Labels.Run += fmt.Sprint("#", s.runs) // JetStream drops messages of a second run with the same name as duplicates
		}
		for i := range s.c.Times {
			results = append(results, h.call(t, c)...)
			if s.c.NATS == "restarted" && i%3 == 2 {
				n.toggle(t)
			}
		}
		return results
	})
}

// repeat sends the requests of a run through the Go hook.
func (s *suite) repeat(t *testing.T, sent *run) *run {
	t.Helper()
	m := startModel(t, replay(sent.wire))
	defer m.close()
	h := new(goHook)
	return s.record(t, h, m, func(*natsd) (results []result) {
		for i, x := range sent.wire {
			c := s.newCall(t, "")
			c.Base, c.Path, c.Body, c.How, c.Parallel = "http://"+m.host(), x.path, x.request, "stream", 1
			if s.c.Parallel > 1 {
				c.Labels.Conversation += fmt.Sprint("-", i)
			}
			c.Headers = make(map[string]string)
			for k := range x.header {
				if k != "Content-Length" && k != "Accept-Encoding" {
					c.Headers[k] = x.header.Get(k)
				}
			}
			results = append(results, h.call(t, c)...)
		}
		return results
	})
}

// record opens h, calls calls, and reads the published events.
func (s *suite) record(t *testing.T, h hook, m *model, calls func(*natsd) []result) *run {
	t.Helper()
	n, began := s.nats, time.Now()
	s.runs++
	if s.c.NATS != "" {
		n = newNATS(t)
		defer n.stop()
	}
	if s.c.NATS == "restarted" {
		n.start(t)
	}
	o := &options{NATS: n.url(), Host: m.host(), Capture: s.capture, MemoryLimit: s.c.MemoryLimit}
	if s.over != nil {
		o.NATS, o.Endpoint, o.Token = "", receive(t, n, s.over), endpointToken
	}
	h.open(t, o)
	r := &run{results: calls(n)}
	if s.c.NATS == "late" && h.flush(t, 0.05).Flushed {
		t.Error("events are stored while NATS is down")
	}
	if n.server == nil {
		n.start(t)
	}
	r.stats = h.flush(t, 20)
	if !r.stats.Flushed || r.stats.Pending != 0 || r.stats.Open != 0 || r.stats.Bytes != 0 {
		t.Errorf("not all events are published: %+v", r.stats)
	}
	h.close(t)
	r.wire = m.exchanges()
	r.messages = readEvents(t, n.newMessages(t), began, m.host(), fmt.Sprint("#", s.runs))
	s.check(t, r)
	if s.c.Parallel > 1 {
		byConversation(r.messages)
	}
	return r
}

// check checks a single run.
func (s *suite) check(t *testing.T, r *run) {
	t.Helper()
	if uint64(len(r.messages)) != r.stats.Events || len(r.messages) == 0 {
		t.Errorf("%d events, stats %+v, results %+v", len(r.messages), r.stats, r.results)
	}
	checkWire(t, s.capture, r.messages, r.wire)
	for _, m := range r.messages {
		same(t, m, event.HeaderAgent, escaped(s.c.Labels.Agent))
		same(t, m, event.HeaderRun, escaped(s.c.Labels.Run))
		if m.ev.Kind == event.Request && m.ev.Code == "" {
			t.Error("a request has no place in the agent's code")
		}
		must.Equal(t, m.ev.Attrs["region"], "eu", "attributes %v", m.ev.Attrs)
		if m.ev.Capture != s.capture && m.ev.Kind <= event.Response {
			t.Errorf("%s %q", event.HeaderCapture, m.ev.Capture)
		}
		if want := cmp.Or(s.c.Error, "none"); m.ev.Kind == event.Response && m.class != want {
			t.Errorf("%s %q, want %s", event.HeaderError, m.ev.Error, want)
		}
	}
}

// escaped returns the header value of a label.
func escaped(label string) string {
	ev := event.Event{Labels: event.Labels{Agent: label}}
	return strings.Join(ev.Encode()[event.HeaderAgent], "")
}

// compareDrops expects that both hooks dropped the oldest exchanges and counted each. Their number may differ, because the
// memory of an event does, and because exchanges stay that were in flight when newer ones were dropped: the first one, or over an
// endpoint, which answers that NATS is away, some of those that the hook tried to send meanwhile.
func (s *suite) compareDrops(t *testing.T, got, want *run) {
	t.Helper()
	for _, r := range []*run{got, want} {
		kept, last := uint64(len(r.messages)/2), r.messages[len(r.messages)-1].ev
		calls := uint64(s.c.Times)
		if kept+r.stats.Dropped != calls || last.Dropped != r.stats.Dropped || last.Seq != 2*calls || r.stats.Published != kept {
			t.Errorf("%d exchanges of %d are kept, the last has %d dropped and seq %d; stats %+v", kept, calls, last.Dropped, last.Seq, r.stats)
		}
		var seqs []uint64
		older := 0 // events that are older than a dropped one
		for i, m := range r.messages {
			if seqs = append(seqs, m.ev.Seq); i > 0 && m.ev.Seq != seqs[i-1]+1 {
				older = i
			}
		}
		inFlight := 2
		if s.over != nil {
			inFlight = len(seqs) / 2
		}
		if older > inFlight {
			t.Errorf("newer exchanges were dropped before older ones: %v are left", seqs)
		}
	}
	if a, b := got.stats.Dropped, want.stats.Dropped; a+3 < b || b+3 < a {
		t.Errorf("%d exchanges are dropped, and %d in Go", a, b)
	}
}

// sameResults expects the same results for the agent.
func (s *suite) sameResults(t *testing.T, got, want []result) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d results, want %d", len(got), len(want))
	}
	for i, a := range got {
		b := want[i]
		if a.Status != b.Status || (a.Error == "") != (b.Error == "") {
			t.Errorf("call %d: status %d, error %q; in Go %d, %q", i, a.Status, a.Error, b.Status, b.Error)
		}
		if a.Error == "" && s.c.How != "close" && !bytes.Equal(a.Body, b.Body) {
			t.Errorf("call %d: body\n%s\nin Go\n%s", i, start(a.Body), start(b.Body))
		}
	}
}

// compare expects the same events from two hooks.
func (s *suite) compare(t *testing.T, got, want *run) {
	t.Helper()
	if s.c.MemoryLimit > 0 {
		s.compareDrops(t, got, want)
		return
	}
	must.Equal(t, len(got.messages), len(want.messages), "events, as from Go")
	for i := range min(len(got.messages), len(want.messages)) {
		a, b := got.messages[i], want.messages[i]
		must.Equal(t, a.Subject, b.Subject, "event %d: subject, as from Go", i)
		if diff := gocmp.Diff(b.Header, a.Header); diff != "" {
			t.Errorf("event %d: headers (-Go +hook):\n%s%q\n%q", i, diff, b.ev.Error, a.ev.Error)
		}
		// If the response ended early, the hooks may have read different parts; checkWire checks them.
		if a.class == "none" && !bytes.Equal(a.Body, b.Body) {
			t.Errorf("event %d: payload (-Go +hook):\n-%s\n+%s", i, start(b.Body), start(a.Body))
		}
	}
	must.Equal(t, got.stats, want.stats, "stats, as from Go")
}
