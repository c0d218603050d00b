package bench

import (
	"context"
	"slices"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/deploy/bench/process"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// A Measurement is the result of one phase. Its JSON is documented in deploy/SIZING.md; fields may be added.
type Measurement struct {
	Phase        string  `json:"phase"` // run, overload, outage
	Rate         float64 `json:"rate"`  // calls per second, as wanted
	Seconds      float64 `json:"seconds"`
	Calls        int64   `json:"calls"`
	Failed       int64   `json:"failed_calls"`
	Events       int64   `json:"events"`
	Bytes        int64   `json:"bytes"` // of bodies
	DrainSeconds float64 `json:"drain_seconds"`
	Kept         float64 `json:"kept"` // share of the rate that the load could publish
	Sustained    bool    `json:"sustained"`

	Queryable Latency  `json:"published_to_queryable"`
	Alerting  *Latency `json:"published_to_alert,omitempty"`          // nil: alerts are not received
	CatchUp   *Latency `json:"published_to_alert_catch_up,omitempty"` // of failures that begin after an overload or an outage
	Alarms    []Alarm  `json:"alarms,omitempty"`                      // of llmtap about itself
	Backlog   Backlog  `json:"largest_backlog"`

	CPU    map[string]float64 `json:"cpu_seconds"`    // by process
	Memory map[string]int64   `json:"peak_memory"`    // by process, in bytes, when their sum was largest
	Other  float64            `json:"other_cores"`    // used by other processes of the machine
	Stages map[string]float64 `json:"llmtap_seconds"` // by stage inside llmtap: time that passed, not CPU
	Volume Volume             `json:"volume"`         // what was written
	State  State              `json:"state"`          // of the analyzers at the end
	Disk   map[string]int64   `json:"disk,omitempty"` // bytes at the end, by server

	Published int64 `json:"published"` // calls that JetStream has acknowledged
	Stored    int64 `json:"stored"`
	Lost      int64 `json:"lost"`
	Double    int64 `json:"double"`
}

// A Latency summarizes times in seconds.
type Latency struct {
	Count   int     `json:"count"`
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	Most    float64 `json:"max"`
	Missing int     `json:"missing"` // not arrived when the phase ended
}

// latency summarizes ds, which it sorts.
func latency(ds []time.Duration) Latency {
	if len(ds) == 0 {
		return Latency{}
	}
	slices.Sort(ds)
	at := func(q float64) float64 { return ds[int(q*float64(len(ds)-1)+0.5)].Seconds() }
	return Latency{Count: len(ds), P50: at(0.5), P99: at(0.99), Most: at(1)}
}

// A Volume is what llmtap wrote during a phase, by its own metrics.
type Volume struct {
	Inserts       float64            `json:"clickhouse_inserts"` // each makes a part
	Rows          map[string]float64 `json:"rows"`               // by table
	Checkpoints   float64            `json:"checkpoint_writes"`
	LedgerWrites  float64            `json:"ledger_writes"`
	Tallies       float64            `json:"tallies"`
	TallyBytes    float64            `json:"tally_bytes"`
	SkippedBytes  float64            `json:"request_bytes_skipped"` // of requests, known from the request before
	ReceivedBytes float64            `json:"received_bytes"`
	StoreBytes    float64            `json:"store_bytes"`             // of all tables on disk
	Forgotten     float64            `json:"forgotten_conversations"` // to stay within analyzer.max_state_bytes
}

// A State is what the analyzers keep in memory.
type State struct {
	Conversations     float64 `json:"conversations"`
	ConversationBytes float64 `json:"conversation_bytes"`
	MemoBytes         float64 `json:"memo_bytes"`
}

// StageAnalyze is the stage of the analyzer, one goroutine for each partition.
const StageAnalyze = "analyze"

// stages of llmtap, by the metric that measures them.
var stages = []struct{ name, metric string }{
	{StageAnalyze, "llmtap_analyzer_batch_duration_seconds_sum"},
	{"insert", "llmtap_sinks_clickhouse_insert_duration_seconds_sum"},
	{"write batches", "llmtap_sinks_write_duration_seconds_sum"},
	{"checkpoint", "llmtap_ingest_commit_duration_seconds_sum"},
}

// tables are those whose rows are counted.
var tables = []string{"exchanges", "findings", "tool_calls", "runs", "messages", "history"}

// counters are the counters of the target at one time.
type counters struct {
	metrics process.Metrics
	tallies uint64
	tallied uint64  // bytes
	ledger  uint64  // writes
	store   float64 // bytes of all tables
	disk    map[string]int64
}

func (b *bench) counters(ctx context.Context) (c counters, err error) {
	if c.metrics, err = b.target.metrics(ctx); err != nil {
		return c, err
	}
	state, err := b.fleet.conn.Inspect(ctx)
	if err != nil {
		return c, err
	}
	for _, s := range state.Streams {
		if s.Name == event.StreamTally {
			c.tallies, c.tallied = s.Messages, s.Bytes
		}
	}
	kv, err := b.fleet.conn.KV(ctx, event.BucketLedger)
	if err != nil {
		return c, err
	}
	if c.ledger, err = kv.Writes(ctx); err != nil {
		return c, err
	}
	parts, err := rows.Read(ctx, b.target.store, "size of the tables", "SELECT sum(bytes_on_disk) AS bytes FROM system.parts WHERE active AND database = currentDatabase()", nil)
	if err != nil {
		return c, err
	}
	c.store = float64(parts[0].Int("bytes"))
	c.disk = map[string]int64{}
	if b.target.natsDir != "" {
		c.disk[NATS] = process.SizeOf(b.target.natsDir)
	}
	if b.target.engineDir != "" {
		c.disk[ClickHouse] = process.SizeOf(b.target.engineDir)
	}
	return c, nil
}

// use sets what the processes used.
func (m *Measurement) use(u process.Usage) { m.CPU, m.Memory, m.Other = u.CPU, u.Sets, u.Other }

// count sets what changed from one time to another.
func (m *Measurement) count(from, to counters) {
	change := func(metric string, pairs ...string) float64 {
		return max(0, to.metrics.Sum(metric, pairs...)-from.metrics.Sum(metric, pairs...))
	}
	m.Stages, m.Volume.Rows, m.Disk = map[string]float64{}, map[string]float64{}, to.disk
	for _, s := range stages {
		m.Stages[s.name] = change(s.metric)
	}
	for _, t := range tables {
		m.Volume.Rows[t] = change("llmtap_sinks_clickhouse_rows_written_total", `table="`+t+`"`)
	}
	v := &m.Volume
	v.Inserts, v.Checkpoints = change("llmtap_sinks_clickhouse_insert_duration_seconds_count"), change("llmtap_ingest_commit_duration_seconds_count")
	v.SkippedBytes, v.ReceivedBytes = change("llmtap_analyzer_request_bytes_skipped_total"), change("llmtap_ingest_received_bytes_total")
	v.LedgerWrites, v.Tallies, v.TallyBytes = float64(to.ledger-from.ledger), float64(to.tallies)-float64(from.tallies), float64(to.tallied)-float64(from.tallied)
	v.StoreBytes, v.Forgotten = to.store-from.store, change("llmtap_analyzer_events_dropped_total", `reason="session"`)
	m.State = State{
		to.metrics.Sum("llmtap_analyzer_conversations"), to.metrics.Sum("llmtap_analyzer_conversations_bytes"), to.metrics.Sum("llmtap_analyzer_memos_bytes"),
	}
}

// alerts sets the times of alerts: those of failures that began before over, and of those in the catch-up after it.
func (m *Measurement) alerts(c *canary, over time.Time) {
	between := func(from, to time.Time) *Latency {
		took, missing := c.took(from, to)
		l := latency(took)
		l.Missing = missing
		return &l
	}
	m.Alerting = between(time.Time{}, over)
	if m.Phase != "run" {
		m.CatchUp = between(over, time.Now())
	}
}

// Throughput returns the calls per second that were stored until all were. If the rate was not sustained, it is what llmtap can
// store.
func (m *Measurement) Throughput() float64 { return float64(m.Calls) / (m.Seconds + m.DrainSeconds) }

// gb returns the bytes of bodies in 10^9 bytes.
func (m *Measurement) gb() float64 { return float64(m.Bytes) / 1e9 }

// perSecond returns n by the second of publishing.
func (m *Measurement) perSecond(n float64) float64 {
	if m.Seconds == 0 {
		return 0
	}
	return n / m.Seconds
}
