package collector

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/sinks"
)

// A flock is processes of the role analyze that share a NATS and a store.
type flock struct {
	t          *testing.T
	rnd        *rand.Rand
	url        string
	conn       *jetstream.Conn // the test's own
	js         natsjs.JetStream
	store      flockStore
	partitions int
	lease      time.Duration
	processes  []*flockProcess
	started    int
	talks      []*talk
}

// A flockProcess is one of them.
type flockProcess struct {
	store  *flockStore
	role   *analyzeRole
	conn   *jetstream.Conn
	cancel context.CancelFunc
	done   chan error
	dead   atomic.Bool
}

func newFlock(t *testing.T, seed uint64) *flock {
	t.Helper()
	cfg := natsserver.Default()
	cfg.Dir, cfg.Port, cfg.Logger = t.TempDir(), -1, slog.New(slog.DiscardHandler)
	srv, err := natsserver.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	f := &flock{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), url: srv.URL(), lease: 400 * time.Millisecond}
	f.store.rows = newFlockRows()
	f.conn = f.connect()
	t.Cleanup(f.conn.Close)
	if err := f.conn.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(f.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if f.js, err = natsjs.New(nc); err != nil {
		t.Fatal(err)
	}
	return f
}

func flockLogger() *slog.Logger {
	if os.Getenv("LLMTAP_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}

func (f *flock) connect() *jetstream.Conn {
	f.t.Helper()
	cfg := jetstream.Default()
	cfg.URL = f.url
	conn, err := jetstream.Connect(f.t.Context(), cfg, flockLogger(), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return conn
}

// start adds a process.
func (f *flock) start() {
	f.t.Helper()
	f.started++
	p := &flockProcess{store: &f.store, conn: f.connect(), done: make(chan error, 1)}
	cfg := sinks.DefaultBatcherConfig()
	cfg.MaxRows, cfg.FlushInterval, cfg.MinBackoff, cfg.MaxBackoff = 80, 30*time.Millisecond, 10*time.Millisecond, 50*time.Millisecond
	p.role = &analyzeRole{
		conn: p.conn, sink: p, analyzer: analyzer.Default(), batcher: cfg, partitions: f.partitions, owner: fmt.Sprint("process ", f.started),
		leaseTTL: f.lease, interval: 50 * time.Millisecond, storeTimeout: 200 * time.Millisecond, logger: flockLogger().With("process", f.started),
		ended: make(chan struct{}, 1), assigned: map[int]*assignment{},
	}
	p.role.analyzer.ExchangeTimeout = time.Second
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	p.cancel = cancel
	go func() { p.done <- p.role.run(ctx) }()
	f.processes = append(f.processes, p)
	f.t.Cleanup(func() { p.dead.Store(true); p.conn.Close(); cancel() })
}

// kill ends process i as SIGKILL does: from one moment on nothing of it reaches NATS or the store.
func (f *flock) kill(i int) {
	p := f.processes[i]
	p.dead.Store(true)
	p.conn.Close()
	p.cancel()
	<-p.done // with whatever error
	f.processes = slices.Delete(f.processes, i, i+1)
}

// halt ends process i as SIGTERM does.
func (f *flock) halt(i int) {
	f.t.Helper()
	p := f.processes[i]
	p.cancel()
	if err := <-p.done; err != nil {
		f.t.Errorf("process %d ended: %v", i, err)
	}
	p.conn.Close()
	f.processes = slices.Delete(f.processes, i, i+1)
}

func (f *flock) stop() {
	f.t.Helper()
	for len(f.processes) > 0 {
		f.halt(0)
	}
}

// Write implements sinks.Sink.
func (p *flockProcess) Write(_ context.Context, b *sinks.Batch) error {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	half := s.refusing && len(b.Exchanges)%2 == 0 // a write that fails may have stored something
	if !s.refusing || half {
		for i := range b.ToolCalls {
			newer(s.rows.calls, b.ToolCalls[i].ID, b.ToolCalls[i], func(c *analyzer.ToolCall) uint64 { return c.Seq })
		}
		for i := range b.Findings {
			newer(s.rows.findings, b.Findings[i].ID, b.Findings[i], func(f *analyzer.Finding) uint64 { return f.Seq })
		}
	}
	switch {
	case p.dead.Load():
		return errKilled
	case s.refusing:
		return &sinks.RetryError{Err: fmt.Errorf("not now")}
	}
	for i := range b.Exchanges {
		newer(s.rows.exchanges, b.Exchanges[i].ID, b.Exchanges[i], func(e *analyzer.Exchange) uint64 { return e.Seq })
	}
	return nil
}

// Close implements sinks.Sink.
func (p *flockProcess) Close() error { return nil }

// tallied is the number of calls in the tallies.
func (f *flock) tallied() (n uint64) {
	for _, counts := range f.tallies() {
		for series, c := range counts {
			if len(series) > len(analyzer.MetricCalls) && series[:len(analyzer.MetricCalls)] == analyzer.MetricCalls {
				n += c
			}
		}
	}
	return n
}

// tallies is what an alert engine counts.
func (f *flock) tallies() map[second]map[string]uint64 {
	f.t.Helper()
	all, newest := map[second]map[string]uint64{}, map[int]int64{}
	err := collectortest.ReplayStream(f.t.Context(), f.js, event.StreamTally, func(m natsjs.Msg, _ *natsjs.MsgMetadata) error {
		var t analyzer.Tally
		if err := json.Unmarshal(m.Data(), &t); err != nil {
			return err
		}
		if t.Second <= newest[t.Partition] {
			return nil
		}
		newest[t.Partition] = t.Second
		counts := map[string]uint64{}
		for _, c := range t.Counts {
			counts[fmt.Sprint(c.Metric, " ", c.Labels)] += c.N
		}
		if len(counts) > 0 {
			all[second{t.Partition, t.Second}] = counts
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return all
}

// finish waits until everything is stored and counted, ends the processes and returns what they left.
func (f *flock) finish() flockRows {
	f.t.Helper()
	stream, err := f.js.Stream(f.t.Context(), event.StreamEvents)
	if err != nil {
		f.t.Fatal(err)
	}
	// A request without an answer times out after a second, and stream time stays two behind.
	over := stream.CachedInfo().State.LastTime.Add(2 * time.Second).Unix()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		left := f.unfinished(over)
		if left == "" {
			break
		}
		if time.Since(begun) > 60*time.Second {
			f.t.Fatalf("not finished: %s", left)
		}
	}
	f.stop()
	rows := f.store.snapshot()
	rows.tallies, rows.ledger = f.tallies(), f.ledger()
	return rows
}

// ledger is what is kept, by key.
func (f *flock) ledger() map[string]string {
	f.t.Helper()
	kv, err := f.conn.KV(f.t.Context(), event.BucketLedger)
	if err != nil {
		f.t.Fatal(err)
	}
	all := map[string]string{}
	if err := kv.Each(f.t.Context(), func(key string, value []byte, _ uint64) error {
		all[key] = string(value)
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
	return all
}

// unfinished says what is not stored or not counted yet.
func (f *flock) unfinished(over int64) string {
	f.t.Helper()
	tallies, err := f.js.Stream(f.t.Context(), event.StreamTally)
	if err != nil {
		f.t.Fatal(err)
	}
	state, err := f.conn.Inspect(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if len(state.Partitions) != f.partitions {
		return fmt.Sprintf("%d partitions", len(state.Partitions))
	}
	for i, p := range state.Partitions {
		m, err := tallies.GetLastMsgForSubject(f.t.Context(), fmt.Sprint(event.TallyPrefix, i))
		if err != nil || p.Pending > 0 {
			return fmt.Sprintf("%s: %d behind, newest tally %v", p.Name, p.Pending, err)
		}
		var t analyzer.Tally
		if err := json.Unmarshal(m.Data, &t); err != nil || t.Second < over {
			return fmt.Sprintf("%s: tallied up to %d of %d", p.Name, t.Second, over)
		}
	}
	return ""
}

// reset forgets everything but the stream of events.
func (f *flock) reset() {
	f.t.Helper()
	f.store.mu.Lock()
	f.store.rows = newFlockRows()
	f.store.mu.Unlock()
	for _, name := range []string{event.StreamTally, "KV_" + event.BucketCheckpoint, "KV_" + event.BucketLedger} {
		if err := f.js.DeleteStream(f.t.Context(), name); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := f.conn.Ensure(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// A talk is one conversation of an agent.
type talk struct {
	id      string
	bug     int // 0 none, 1 saves answers without their calls, 2 skips replies, 3 forgets its history
	rnd     *rand.Rand
	history []map[string]any
	open    *event.Event // the request that waits for its answer
	calls   int
}

var talkExchanges atomic.Uint64

// next is the next event: a request, or the answer to it.
func (k *talk) next() *event.Event {
	e := &event.Event{
		Time: time.Now(), Capture: event.CaptureFull, Origin: event.OriginHook, ContentType: "application/json", Part: 1, Parts: 1,
		Labels: event.Labels{Service: "shop", ServiceVersion: fmt.Sprint("1.", k.bug), Stage: "planner", Conversation: k.id},
	}
	if k.open != nil {
		e.Kind, e.Exchange = event.Response, k.open.Exchange
		k.answer(e)
		k.open = nil
		return e
	}
	if k.bug == 3 && len(k.history) > 6 {
		k.history = k.history[3:]
	}
	if len(k.history) == 0 || k.rnd.IntN(3) == 0 {
		k.say("user", fmt.Sprint("do task ", k.rnd.IntN(1000)))
	}
	e.Kind, e.Exchange = event.Request, fmt.Sprintf("%08x-0000-7000-8000-%012x", talkExchanges.Add(1), k.rnd.Uint64()>>16)
	e.URL, e.Method = "https://api.openai.com/v1/chat/completions", "POST"
	e.Body, _ = json.Marshal(map[string]any{"model": "gpt-4.1", "messages": k.history})
	e.BodyBytes = len(e.Body)
	if k.rnd.IntN(20) > 0 { // else it is never answered
		k.open = e
	}
	return e
}

func (k *talk) say(role, text string) {
	k.history = append(k.history, map[string]any{"role": role, "content": text})
}

// answer makes e the answer, and the agent go on with it.
func (k *talk) answer(e *event.Event) {
	e.Status, e.Duration = 200, time.Duration(k.rnd.IntN(900))*time.Millisecond
	if k.rnd.IntN(6) == 0 {
		e.Status = 400
		e.Body = []byte(`{"error":{"message":"Messages with role 'tool' must be a response to a preceding message with 'tool_calls'","type":"invalid_request_error"}}`)
		e.BodyBytes = len(e.Body)
		return
	}
	said := map[string]any{"role": "assistant", "content": fmt.Sprint("this is what I think about the task ", k.rnd.IntN(1000))}
	var ids []string
	for range k.rnd.IntN(3) {
		k.calls++
		ids = append(ids, fmt.Sprintf("call_%s_%d", k.id, k.calls))
	}
	saved := maps.Clone(said)
	if len(ids) > 0 {
		var calls []map[string]any
		for _, id := range ids {
			calls = append(calls, map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "read_file", "arguments": `{"path":"a"}`}})
		}
		said["tool_calls"] = calls
		if k.bug != 1 || k.rnd.IntN(2) == 0 {
			saved["tool_calls"] = calls
		}
	}
	e.Body, _ = json.Marshal(map[string]any{"id": "r", "model": "gpt-4.1", "choices": []map[string]any{{"index": 0, "finish_reason": "stop", "message": said}}})
	e.BodyBytes = len(e.Body)
	k.history = append(k.history, saved)
	for i, id := range ids {
		if k.bug != 2 || i == 0 {
			k.history = append(k.history, map[string]any{"role": "tool", "tool_call_id": id, "content": "done"})
		}
	}
}
