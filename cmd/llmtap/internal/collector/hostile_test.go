package collector

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks"
)

var hostile = flag.Bool("hostile", false, "run TestHostileInput in full size (bodies of 100 MB, a million services) and print a table")

// Limits of the heap in reduced and full size. The heap includes the NATS server, with a million subjects and two million
// message ids in full size, and the messages of the test.
const (
	reducedHeap = 400 << 20
	fullHeap    = 4 << 30
)

// TestHostileInput sends invalid and extreme messages through NATS, the reader and the analyzer. Each input ends in a good
// call that must be recorded and analyzed. Unusable messages are counted and dead-lettered; the heap stays within its limit.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	slowtest.Skip(t)
	// Near the limit garbage is collected at once, so that a heap above it is in use.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(hostileHeap() * 9 / 10))
	h := newHostileHarness(t)
	table := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "input\tmessages\trows\tdead letters\tcounters\tpeak heap\tpeak RSS\ttook")
	for _, in := range hostileInputs(*hostile) {
		line := h.play(t, in)
		t.Log(strings.ReplaceAll(line, "\t", " | "))
		fmt.Fprintln(table, line)
	}
	if *hostile || testing.Verbose() {
		table.Flush()
	}
}

// hostileHeap returns the limit of the heap.
func hostileHeap() int64 {
	if *hostile {
		return fullHeap
	}
	return reducedHeap
}

// A hostileInput is messages and the expected results.
type hostileInput struct {
	name string
	send func(send sendRaw)
	rows int               // exchanges without the good call; -1: any number
	dead map[string]uint64 // dropped events and dead letters by reason; nil: any
}

// A hostileHarness is a NATS server with a partition that writes to a sink in memory.
type hostileHarness struct {
	js   natsjs.JetStream
	reg  *prometheus.Registry
	sink *memorySink
	sent int
}

func newHostileHarness(t *testing.T) *hostileHarness {
	url := collectortest.StartNATS(t, "")
	h := &hostileHarness{reg: prometheus.NewRegistry(), sink: &memorySink{seen: map[string]analyzer.Exchange{}}}
	conn := collectortest.ConnectNATS(t, url, h.reg)
	nc := must.Get(nats.Connect(url))(t)
	t.Cleanup(nc.Close)
	h.js = must.Get(natsjs.New(nc, natsjs.WithPublishAsyncMaxPending(256)))(t)
	reader := must.Get(conn.OpenReader(t.Context(), jetstream.ReaderConfig{Partitions: 1, Owner: "hostile"}))(t)
	bounded := analyzer.Default()
	bounded.MaxStateBytes = 256 << 20 // as on a small machine
	role := &analyzeRole{
		conn: conn, sink: h.sink, analyzer: bounded, batcher: sinks.DefaultBatcherConfig(), missing: func() error { return nil }, storeTimeout: defaultStoreTimeout, logger: slog.New(slog.DiscardHandler),
	}
	part := newPartition(role, 0, 1, reader, h.reg)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := part.run(ctx); err != nil {
			t.Errorf("the partition ended: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		must.Do(t, reader.Close(context.WithoutCancel(ctx)))
	})
	return h
}

// play sends in and a good call, waits for the row of the call and checks the results.
func (h *hostileHarness) play(t *testing.T, in hostileInput) string {
	t.Helper()
	begun := time.Now()
	debug.FreeOSMemory()
	resetPeakRSS()
	peak := watchHeap()
	before, deadBefore, rowsBefore := h.counters(t), h.deadLetters(t), h.sink.rows()
	messages := 0
	send := func(subject string, header event.Header, body []byte) {
		messages++
		h.publish(t, &nats.Msg{Subject: subject, Header: nats.Header(header), Data: body})
	}
	in.send(send)
	good := goodCall(h.sent)
	h.sent++
	for _, ev := range good {
		for m := range ev.Messages(event.PartBytes) {
			send(m.Subject(), m.Encode(), m.Body)
		}
	}
	select {
	case <-h.js.PublishAsyncComplete():
	case <-time.After(5 * time.Minute):
		t.Fatalf("%s: publishing timed out", in.name)
	}
	row := h.sink.wait(t, good[0].Exchange)
	if row.Cause != "orphan_tool_reply" || row.Rejects != 1 {
		t.Errorf("%s: the good call has no finding: %+v", in.name, row)
	}
	heap, rows := peak(), h.sink.rows()-rowsBefore-1
	dead := minus(h.deadLetters(t), deadBefore)
	counters := minus(h.counters(t), before)
	if in.rows >= 0 && rows != in.rows {
		t.Errorf("%s: %d rows, want %d", in.name, rows, in.rows)
	}
	for reason, n := range in.dead {
		must.Equal(t, counters[reason], n, "%s: counter %s", in.name, reason)
	}
	// In full size there are more dead letters than their stream may contain.
	if in.dead != nil && !*hostile && fmt.Sprint(dead) != fmt.Sprint(in.dead) {
		t.Errorf("%s: dead letters %v, want %v", in.name, dead, in.dead)
	}
	if heap > uint64(hostileHeap()) {
		t.Errorf("%s: peak heap %d MiB", in.name, heap>>20)
	}
	return fmt.Sprintf("%s\t%d\t%d\t%s\t%s\t%d MiB\t%s\t%v", in.name, messages, rows, words(dead), words(counters), heap>>20, peakRSS(),
		time.Since(begun).Round(10*time.Millisecond))
}

func (h *hostileHarness) publish(t *testing.T, m *nats.Msg) {
	t.Helper()
	must.Get(h.js.PublishMsgAsync(m, natsjs.WithStallWait(time.Minute)))(t)
}

// goodCall returns a request with an orphan tool reply, and its rejection.
func goodCall(n int) [2]*event.Event {
	id, _ := uuid.NewV7()
	base := event.Event{
		Exchange: id.String(), Time: time.Now(), Capture: event.CaptureFull, Origin: event.OriginHook, Instance: "good", ContentType: "application/json",
		Labels: event.Labels{Service: "good", Agent: "planner", Conversation: fmt.Sprintf("good-%d", n)},
	}
	q, s := base, base
	q.Kind, q.URL, q.Method, q.Seq = event.Request, "https://api.deepseek.com/chat/completions", "POST", uint64(2*n+1)
	q.Body = []byte(`{"model":"deepseek-chat","messages":[{"role":"user","content":"go"},{"role":"tool","tool_call_id":"call_1","content":"x"}]}`)
	s.Kind, s.Status, s.Seq = event.Response, 400, uint64(2*n+2)
	s.Body = []byte(`{"error":{"message":"Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"}}`)
	return [2]*event.Event{&q, &s}
}

// counters returns the events that the analyzer and the reader dropped, by reason, and the events that hooks lost.
func (h *hostileHarness) counters(t *testing.T) map[string]uint64 {
	t.Helper()
	families := must.Get(h.reg.Gather())(t)
	m := map[string]uint64{}
	for _, f := range families {
		name := f.GetName()
		short, ok := strings.CutPrefix(name, "llmtap_analyzer_events_lost_")
		if !ok && name != "llmtap_analyzer_events_dropped_total" && name != "llmtap_ingest_events_dropped_total" {
			continue
		}
		for _, c := range f.GetMetric() {
			key := "lost events"
			if !ok {
				key = c.GetLabel()[0].GetValue()
			}
			m[key+strings.TrimPrefix(short, name)] += uint64(c.GetCounter().GetValue())
		}
	}
	return m
}

// deadLetters returns the number of dead letters by reason.
func (h *hostileHarness) deadLetters(t *testing.T) map[string]uint64 {
	t.Helper()
	s := must.Get(h.js.Stream(t.Context(), event.StreamDead))(t)
	info := must.Get(s.Info(t.Context(), natsjs.WithSubjectFilter(">")))(t)
	m := map[string]uint64{}
	for subject, n := range info.State.Subjects {
		m[strings.TrimPrefix(subject, event.DeadPrefix)] += n
	}
	return m
}

func minus(a, b map[string]uint64) map[string]uint64 {
	m := map[string]uint64{}
	for k, n := range a {
		if n > b[k] {
			m[k] = n - b[k]
		}
	}
	return m
}

func words(m map[string]uint64) string {
	var w []string
	for k, n := range m {
		w = append(w, fmt.Sprintf("%s %d", k, n))
	}
	slices.Sort(w)
	return strings.Join(append(w, "")[:max(len(w), 1)], ", ")
}

// A memorySink stores the rows of good calls and counts the others.
type memorySink struct {
	mu   sync.Mutex // guards the rest
	n    int
	seen map[string]analyzer.Exchange
}

func (s *memorySink) Write(_ context.Context, b *sinks.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n += len(b.Exchanges)
	for i := range b.Exchanges {
		if e := &b.Exchanges[i]; e.Labels.Service == "good" {
			s.seen[e.ID] = *e
		}
	}
	return nil
}

func (s *memorySink) Close() error { return nil }

func (s *memorySink) rows() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

func (s *memorySink) wait(t *testing.T, id string) analyzer.Exchange {
	t.Helper()
	var e analyzer.Exchange
	must.Wait(t, "the good call after the input is stored", func() (ok bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		e, ok = s.seen[id]
		return ok
	})
	return e
}

// watchHeap samples the heap until the returned function is called, which returns the peak.
func watchHeap() func() uint64 {
	runtime.GC() // what earlier tests have left is not part of it
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		var peak uint64
		var m runtime.MemStats
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
			select {
			case <-tick.C:
			case <-stop:
				tick.Stop()
				done <- peak
				return
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-done
	}
}

// resetPeakRSS and peakRSS use Linux's own measurement; elsewhere it is unknown.
func resetPeakRSS() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200) }

func peakRSS() string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "?"
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kb), "kB")))
			return fmt.Sprintf("%d MiB", n>>10)
		}
	}
	return "?"
}
