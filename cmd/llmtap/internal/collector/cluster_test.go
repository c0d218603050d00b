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
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
)

// A cluster is processes of the role analyze that share a NATS server and a store.
type cluster struct {
	t             *testing.T
	rnd           *rand.Rand
	url           string
	conn          *jetstream.Conn // of the test
	js            natsjs.JetStream
	store         rowStore
	partitions    int
	apart         bool // each conversation has a service and a model of its own
	merged        bool // tallies are as an alert engine counts them, without causes that are new for a partition only
	lease         time.Duration
	processes     []*process
	started       int // processes
	conversations []*conversation
}

// A process runs the role and is its sink.
type process struct {
	store  *rowStore
	role   *analyzeRole
	conn   *jetstream.Conn
	cancel context.CancelFunc
	done   chan error
	dead   atomic.Bool
}

func newCluster(t *testing.T, seed uint64) *cluster {
	t.Helper()
	c := &cluster{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), url: collectortest.StartNATS(t, ""), lease: 400 * time.Millisecond}
	c.store.results = newResults()
	c.conn = collectortest.ConnectNATS(t, c.url, nil)
	nc := must.Get(nats.Connect(c.url))(t)
	t.Cleanup(nc.Close)
	c.js = must.Get(natsjs.New(nc))(t)
	return c
}

func testLogger() *slog.Logger {
	if os.Getenv("LLMTAP_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}

func (c *cluster) connect() *jetstream.Conn {
	c.t.Helper()
	cfg := jetstream.Default()
	cfg.URL = c.url
	return must.Get(jetstream.Connect(c.t.Context(), cfg, testLogger(), nil))(c.t)
}

// start starts a process.
func (c *cluster) start() {
	c.t.Helper()
	c.started++
	p := &process{store: &c.store, conn: c.connect(), done: make(chan error, 1)}
	cfg := sinks.DefaultBatcherConfig()
	cfg.MaxRows, cfg.FlushInterval, cfg.MinBackoff, cfg.MaxBackoff = 80, 30*time.Millisecond, 10*time.Millisecond, 50*time.Millisecond
	p.role = &analyzeRole{
		conn: p.conn, sink: p, analyzer: analyzer.Default(), batcher: cfg, partitions: c.partitions, owner: fmt.Sprint("process ", c.started),
		leaseTTL: c.lease, interval: 50 * time.Millisecond, storeTimeout: 200 * time.Millisecond, logger: testLogger().With("process", c.started),
		missing: func() error { return nil }, ended: make(chan struct{}, 1), assigned: map[int]*assignment{},
	}
	p.role.analyzer.ExchangeTimeout = time.Second
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	p.cancel = cancel
	go func() { p.done <- p.role.run(ctx) }()
	c.processes = append(c.processes, p)
	c.t.Cleanup(func() { p.dead.Store(true); p.conn.Close(); cancel() })
}

// kill stops process i as SIGKILL does: nothing of it reaches NATS or the store any more.
func (c *cluster) kill(i int) {
	p := c.processes[i]
	p.dead.Store(true)
	p.conn.Close()
	p.cancel()
	<-p.done // any error
	c.processes = slices.Delete(c.processes, i, i+1)
}

// stop stops process i as SIGTERM does.
func (c *cluster) stop(i int) {
	c.t.Helper()
	p := c.processes[i]
	p.cancel()
	if err := <-p.done; err != nil {
		c.t.Errorf("process %d ended: %v", i, err)
	}
	p.conn.Close()
	c.processes = slices.Delete(c.processes, i, i+1)
}

func (c *cluster) stopAll() {
	c.t.Helper()
	for len(c.processes) > 0 {
		c.stop(0)
	}
}

// Write implements sinks.Sink.
func (p *process) Write(_ context.Context, b *sinks.Batch) error {
	s := p.store
	time.Sleep(time.Duration(s.delay.Load()))
	s.mu.Lock()
	defer s.mu.Unlock()
	half := s.refusing && len(b.Exchanges)%2 == 0 // a failed write may have stored some rows
	if !s.refusing || half {
		for i := range b.ToolCalls {
			newer(s.results.calls, b.ToolCalls[i].ID, b.ToolCalls[i], func(t *analyzer.ToolCall) uint64 { return t.Seq })
		}
		for i := range b.Findings {
			newer(s.results.findings, b.Findings[i].ID, b.Findings[i], func(fi *analyzer.Finding) uint64 { return fi.Seq })
		}
	}
	switch {
	case p.dead.Load():
		return errKilled
	case s.refusing:
		return &sinks.RetryError{Err: fmt.Errorf("refused")}
	}
	for i := range b.Exchanges {
		newer(s.results.exchanges, b.Exchanges[i].ID, b.Exchanges[i], func(e *analyzer.Exchange) uint64 { return e.Seq })
	}
	return nil
}

// Close implements sinks.Sink.
func (p *process) Close() error { return nil }

// tallied returns the number of calls in the tallies.
func (c *cluster) tallied() (n uint64) {
	for _, counts := range c.tallies() {
		for series, c := range counts {
			if strings.HasPrefix(series, analyzer.MetricCalls+" ") {
				n += c
			}
		}
	}
	return n
}

// tallies returns the counts by partition and second.
func (c *cluster) tallies() map[second]map[string]uint64 {
	c.t.Helper()
	all, newest, causes := map[second]map[string]uint64{}, map[int]int64{}, newNewCauses()
	err := collectortest.ReplayStream(c.t.Context(), c.js, event.StreamTally, func(m natsjs.Msg, _ *natsjs.MsgMetadata) error {
		var t analyzer.Tally
		if err := json.Unmarshal(m.Data(), &t); err != nil {
			return err
		}
		if t.Second <= newest[t.Partition] {
			return nil
		}
		newest[t.Partition] = t.Second
		if c.merged {
			causes.filter(&t)
		}
		counts := map[string]uint64{}
		for _, c := range t.Counts {
			counts[fmt.Sprint(c.Metric, " ", c.Labels)] += c.N
		}
		if len(counts) > 0 {
			all[second{t.Partition, t.Second}] = counts
		}
		return nil
	})
	must.Do(c.t, err)
	return all
}

// finish waits until everything is stored and tallied, stops the processes and returns the results.
func (c *cluster) finish() results {
	c.t.Helper()
	stream := must.Get(c.js.Stream(c.t.Context(), event.StreamEvents))(c.t)
	// A request without a response expires after a second, and stream time is two seconds late.
	c.wait(stream.CachedInfo().State.LastTime.Add(2 * time.Second).Unix())
	// A partition publishes tallies before it submits the rows of the same step. A tally of a second that has not passed yet is
	// of a later step.
	c.wait(time.Now().Unix())
	c.stopAll()
	rows := c.store.snapshot()
	rows.tallies, rows.ledger = c.tallies(), c.ledger()
	return rows
}

// wait waits until the events in the stream are read and stored, and tallied up to the second end.
func (c *cluster) wait(end int64) {
	c.t.Helper()
	must.Wait(c.t, "finished", func() bool { return c.unfinished(end) == "" }, func() any { return c.unfinished(end) })
}

// ledger returns the stored ledger entries by key.
func (c *cluster) ledger() map[string]string {
	c.t.Helper()
	kv := must.Get(c.conn.KV(c.t.Context(), event.BucketLedger))(c.t)
	all := map[string]string{}
	must.Do(c.t, kv.Each(c.t.Context(), func(key string, value []byte, _ uint64) error {
		all[key] = string(value)
		return nil
	}))
	return all
}

// unfinished describes what is not stored, or not tallied up to the second end, yet.
func (c *cluster) unfinished(end int64) string {
	c.t.Helper()
	tallies := must.Get(c.js.Stream(c.t.Context(), event.StreamTally))(c.t)
	state := must.Get(c.conn.Inspect(c.t.Context()))(c.t)
	if len(state.Partitions) != c.partitions {
		return fmt.Sprintf("%d partitions", len(state.Partitions))
	}
	for i, p := range state.Partitions {
		m, err := tallies.GetLastMsgForSubject(c.t.Context(), fmt.Sprint(event.TallyPrefix, i))
		if err != nil || p.Pending > 0 {
			return fmt.Sprintf("%s: %d pending, newest tally: %v", p.Name, p.Pending, err)
		}
		var t analyzer.Tally
		if err := json.Unmarshal(m.Data, &t); err != nil || t.Second < end {
			return fmt.Sprintf("%s: tallied up to %d of %d", p.Name, t.Second, end)
		}
	}
	return ""
}

// reset deletes everything but the event stream.
func (c *cluster) reset() {
	c.t.Helper()
	c.store.mu.Lock()
	c.store.results = newResults()
	c.store.mu.Unlock()
	for _, name := range []string{event.StreamTally, "KV_" + event.BucketCheckpoint, "KV_" + event.BucketLedger} {
		must.Do(c.t, c.js.DeleteStream(c.t.Context(), name))
	}
	must.Do(c.t, c.conn.Ensure(c.t.Context()))
}

// A conversation generates the events of an agent.
type conversation struct {
	id      string
	service string
	model   string
	defect  int // 0 none, 1 saves responses without their calls, 2 skips replies, 3 truncates its history
	rnd     *rand.Rand
	history []map[string]any
	pending *event.Event // the request without a response
	calls   int
}

var lastExchange atomic.Uint64

// next returns the next event: a request, or the response to it.
func (k *conversation) next() *event.Event {
	e := &event.Event{
		Time: time.Now(), Capture: event.CaptureFull, Origin: event.OriginHook, ContentType: "application/json", Part: 1, Parts: 1,
		Labels: event.Labels{Service: k.service, ServiceVersion: fmt.Sprint("1.", k.defect), Stage: "planner", Conversation: k.id},
	}
	if k.pending != nil {
		e.Kind, e.Exchange = event.Response, k.pending.Exchange
		k.respond(e)
		k.pending = nil
		return e
	}
	if k.defect == 3 && len(k.history) > 6 {
		k.history = k.history[3:]
	}
	if len(k.history) == 0 || k.rnd.IntN(3) == 0 {
		k.say("user", fmt.Sprint("do task ", k.rnd.IntN(1000)))
	}
	e.Kind, e.Exchange = event.Request, fmt.Sprintf("%08x-0000-7000-8000-%012x", lastExchange.Add(1), k.rnd.Uint64()>>16)
	e.URL, e.Method = "https://api.openai.com/v1/chat/completions", "POST"
	e.Body, _ = json.Marshal(map[string]any{"model": k.model, "messages": k.history})
	e.BodyBytes = len(e.Body)
	if k.rnd.IntN(20) > 0 { // else there is no response
		k.pending = e
	}
	return e
}

func (k *conversation) say(role, text string) {
	k.history = append(k.history, map[string]any{"role": role, "content": text})
}

// respond makes e the response, and appends it to the history.
func (k *conversation) respond(e *event.Event) {
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
		if k.defect != 1 || k.rnd.IntN(2) == 0 {
			saved["tool_calls"] = calls
		}
	}
	e.Body, _ = json.Marshal(map[string]any{"id": "r", "model": k.model, "choices": []map[string]any{{"index": 0, "finish_reason": "stop", "message": said}}})
	e.BodyBytes = len(e.Body)
	k.history = append(k.history, saved)
	for i, id := range ids {
		if k.defect != 2 || i == 0 {
			k.history = append(k.history, map[string]any{"role": "tool", "tool_call_id": id, "content": "done"})
		}
	}
}
