/*
Package sizing computes from measured constants what a fleet needs, and which limit it reaches first.

	llmtap bench --format json ──> Measured ─┐
	calls/s, bytes, conversations ──> Fleet ─┼─> Need: processes, nodes, disk, network
	limits of the configuration ─────────────┘─> Limits: the rate at which each is reached

All formulae are in this file. deploy/SIZING.md explains them and says how each constant was measured.
*/
package sizing

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/jetstream"
)

const (
	busy        = 0.7       // share of a core, or of a measured maximum, that is planned with
	day         = 24 * 3600 // seconds
	overhead    = 1.1       // of NATS, for headers
	linkBits    = 10e9      // bits per second of a NATS node
	tallyStream = 256 << 20 // bytes of the stream of tallies
	streamMost  = 10 << 30  // bytes of the event stream by default, if the disk has five times as many
	partsMost   = 20        // new parts of a table per second that ClickHouse merges in time; it refuses inserts at 3,000 parts
	tables      = 6         // written by a batch
	eventsMost  = 2         // events of a call

	tallyExamples = 256 // failures with an example in a tally

	stateShare = 1. / 8  // analyzer.max_state_bytes by default, as a share of memory.limit
	batchShare = 1. / 20 // batcher.max_bytes by default, likewise
)

// A Fleet is what is observed.
type Fleet struct {
	Calls         float64 `json:"calls_per_second"`
	CallBytes     float64 `json:"call_bytes"`     // of both bodies
	NewBytes      float64 `json:"new_call_bytes"` // of them, what no earlier call of the conversation contained
	Conversations float64 `json:"conversations"`  // with a call in the last half hour (analyzer.session_lookback)
	Services      float64 `json:"services"`
	Failed        float64 `json:"failed_share"`   // of the calls
	Series        float64 `json:"series"`         // combinations of service, version, stage, provider and model that make calls
	RetentionDays float64 `json:"retention_days"` // of message bodies
	Cores         float64 `json:"cores"`          // of a machine
	Memory        float64 `json:"memory"`         // memory.limit of an analyzer, in bytes
	Replicas      float64 `json:"replicas"`       // of the NATS stream
}

// Validate returns an error for the first value that is not positive.
func (f *Fleet) Validate() error {
	for _, v := range []struct {
		flag  string
		value float64
	}{
		{"calls", f.Calls},
		{"call-bytes", f.CallBytes},
		{"new-bytes", f.NewBytes},
		{"services", f.Services},
		{"series", f.Series},
		{"days", f.RetentionDays},
		{"cores", f.Cores},
		{"memory", f.Memory},
		{"replicas", f.Replicas},
	} {
		if !(v.value > 0) || math.IsInf(v.value, 1) {
			return fmt.Errorf("--%s: %g is not above 0", v.flag, v.value)
		}
	}
	if f.NewBytes > f.CallBytes {
		return fmt.Errorf("--new-bytes: %g is above --call-bytes %g", f.NewBytes, f.CallBytes)
	}
	return nil
}

// times returns the fleet with n times the calls and conversations. The number of services grows with the square root: a
// larger fleet has more services, and more calls of each.
func (f Fleet) times(n float64) Fleet {
	f.Calls *= n
	f.Conversations *= n
	f.Services = math.Ceil(f.Services * math.Sqrt(n))
	f.Series = math.Ceil(f.Series * math.Sqrt(n))
	return f
}

// A Need is what a fleet requires.
type Need struct {
	Fleet           Fleet   `json:"fleet"`
	Events          float64 `json:"events_per_second"`
	Bytes           float64 `json:"bytes_per_second"`
	Partitions      float64 `json:"partitions"`
	Analyzers       float64 `json:"analyzer_processes"`
	AnalyzerCores   float64 `json:"analyzer_cores"`
	NATSCores       float64 `json:"nats_cores"`
	Streams         float64 `json:"event_streams"` // 1 per installation: more are installations for parts of the services
	NATSNodes       float64 `json:"nats_nodes"`
	ClickHouseCores float64 `json:"clickhouse_cores"`
	ClickHouseNodes float64 `json:"clickhouse_nodes"`
	Inserts         float64 `json:"inserts_per_second"`
	KVWrites        float64 `json:"kv_writes_per_second"`
	TallyBytes      float64 `json:"tally_bytes_per_second"`
	Subjects        float64 `json:"subjects"`
	SubjectBytes    float64 `json:"subject_memory"`
	SessionBytes    float64 `json:"conversation_memory"`
	Network         float64 `json:"nats_network_bits_per_second"` // in and out of all NATS nodes
	StreamDisk      float64 `json:"stream_disk"`                  // of one replica
	StoreDisk       float64 `json:"clickhouse_disk"`
}

// Compute returns what f requires.
func Compute(f Fleet, m *Measured, cfg *config.Config) Need {
	n := Need{Fleet: f, Events: eventsMost * f.Calls, Bytes: f.Calls * f.CallBytes}
	n.AnalyzerCores = m.Analyzer.Of(f.Calls, n.Bytes)
	n.SessionBytes = f.Conversations * m.ConversationBytes * m.HeapPerEstimate
	// An analyzer is limited by its memory or by the cores of its machine, a partition by its goroutine.
	n.Analyzers = max(1, math.Ceil(n.AnalyzerCores/(f.Cores*busy)), math.Ceil(f.Conversations*m.ConversationBytes/(f.Memory*stateShare)))
	n.Partitions = max(n.Analyzers, math.Ceil(n.AnalyzerCores*m.LoopShare/busy))
	n.NATSCores = m.NATS.Of(f.Calls, n.Bytes) * f.Replicas
	n.Streams = max(1, math.Ceil(n.Bytes*overhead/(m.StreamBytesPerSec*busy)), math.Ceil(n.Events/(m.StreamEventsPerSec*busy)), math.Ceil(n.Partitions/jetstream.MaxPartitions))
	// Each event enters NATS once, goes to the other replicas, and to one reader.
	n.Network = 8 * n.Bytes * overhead * (f.Replicas + 1)
	n.NATSNodes = max(f.Replicas, n.Streams, math.Ceil(n.NATSCores/(f.Cores*busy)), math.Ceil(n.Network/(linkBits*busy)))
	batches := n.Partitions * batchRate(f, cfg)
	n.Inserts = batches * m.InsertsPerBatch
	n.ClickHouseCores = n.Inserts*m.ClickHousePerInsert + f.Calls*f.NewBytes*m.ClickHousePerNewByte
	n.ClickHouseNodes = max(1, math.Ceil(n.ClickHouseCores/(f.Cores*busy)), math.Ceil(n.Inserts/(partsMost*tables)))
	// A batch writes a checkpoint and the entries of the ledger that its failures change.
	n.KVWrites = batches + f.Calls*f.Failed*m.LedgerPerFailure
	// Each partition has a count of each series in each second in which the series has calls, and examples of failures.
	n.TallyBytes = seriesPerSecond(f, n.Partitions)*m.TallySeriesBytes + min(f.Calls*f.Failed, n.Partitions*tallyExamples)*m.TallyFailureBytes
	n.Subjects = min(f.Services*256*eventsMost, f.Conversations*eventsMost)
	n.SubjectBytes = n.Subjects * m.SubjectBytes
	n.StreamDisk = n.Bytes * overhead * cfg.Analyzer.SessionLookback.Seconds()
	n.StoreDisk = f.Calls * day * f.RetentionDays * f.NewBytes * m.DiskPerNewByte
	return n
}

// batchRate is the number of batches of a partition per second. Partitions share the limit of a batch as they share the
// events, so each fills its batches as fast as a single one would.
func batchRate(f Fleet, cfg *config.Config) float64 {
	full := f.Calls * f.NewBytes / (f.Memory * batchShare) // full batches per second
	if full < 1./8 {
		return 1 / cfg.Batcher.FlushInterval.Seconds()
	}
	return max(full, 1/cfg.Batcher.LargeFlushInterval.Seconds())
}

// seriesPerSecond returns the number of counts in all tallies of a second: of c calls that fall on s series at random,
// s(1-exp(-c/s)) series have at least one, in each partition.
func seriesPerSecond(f Fleet, partitions float64) float64 {
	perPartition := f.Calls / partitions
	return partitions * f.Series * (1 - math.Exp(-perPartition/f.Series))
}

// A Limit is a rate at which something breaks, with what to change.
type Limit struct {
	Calls  float64 `json:"calls_per_second"`
	What   string  `json:"breaks"`
	Change string  `json:"change"`
}

// Limits returns the rates at which limits of one installation are reached, the lowest first. The limits of one process are
// those of the default configuration; for the others, f is sized by Compute.
func Limits(f Fleet, m *Measured, cfg *config.Config) []Limit {
	one := f
	one.Memory = float64(cfg.Memory.Limit)
	// at returns the rate at which a need of f reaches most, if everything grows with the rate.
	at := func(f Fleet, most float64, need func(*Need) float64) float64 {
		low, high := 1e-6, 1e12
		for range 200 {
			mid := math.Sqrt(low * high)
			n := Compute(f.times(mid/f.Calls), m, cfg)
			if need(&n) > most {
				high = mid
			} else {
				low = mid
			}
		}
		return low
	}
	const split = "an installation for each part of the services"
	perCall, halfHour := f.CallBytes*overhead, cfg.Analyzer.SessionLookback.Seconds()
	streamMost := float64(cmp.Or(cfg.NATS.MaxBytes, streamMost))
	list := []Limit{
		{at(one, 1, func(n *Need) float64 {
			return n.Fleet.Conversations * m.ConversationBytes / (n.Fleet.Memory * stateShare)
		}), "memory of an analyzer for the conversations of half an hour: the longest idle are forgotten, and root causes that need them", "memory.limit, or more analyzers"},
		{float64(cfg.Analyzer.SessionLookbackBytes) / (perCall * halfHour), "a restart reads back less than half an hour", "analyzer.session_lookback_bytes; a restart then takes longer"},
		{streamMost / (perCall * halfHour), "the stream holds less than half an hour, so ClickHouse may be down for less", "nats.max_bytes"},
		{busy / (m.Analyzer.Of(1, f.CallBytes) * m.LoopShare), "one partition: its analyzer is one goroutine", "partitions, and more analyzers"},
		{busy * f.Cores / m.Analyzer.Of(1, f.CallBytes), "the cores of one analyzer", "more analyzers, on more machines"},
		{at(f, busy*f.Cores, func(n *Need) float64 { return n.ClickHouseCores }), "the cores of one ClickHouse", "clickhouse.cluster, with shards"},
		{at(f, partsMost*tables, func(n *Need) float64 { return n.Inserts }), "new parts of one ClickHouse", "batcher.max_bytes and batcher.large_flush_interval; shards"},
		{busy * m.StreamBytesPerSec / perCall, "bytes of the event stream, which has one leader", split},
		{busy * m.StreamEventsPerSec / eventsMost, "events of the event stream", split},
		{at(f, linkBits*busy, func(n *Need) float64 { return n.Network / n.Fleet.Replicas }), "a network of 10 Gbit/s, with as many NATS nodes as replicas", "more NATS nodes, faster networks, hooks with capture shape, or " + split},
		{at(f, jetstream.MaxPartitions, func(n *Need) float64 { return n.Partitions }), "partitions: there are 256 shards", split},
		{at(f, float64(cfg.Analyzer.MaxLabelValues), func(n *Need) float64 { return n.Fleet.Services }), "services in counts: further ones are \"other\" in alerts", "analyzer.max_label_values and alerts.max_label_values"},
		{at(f, float64(cfg.Alerts.MaxSeries)/3, func(n *Need) float64 { return n.Fleet.Series }), "series of the alert role", "alerts.max_series"},
		{at(f, m.TallySeries, func(n *Need) float64 { return seriesPerSecond(n.Fleet, n.Partitions) / n.Partitions }), "series in the tally of a partition: further ones are \"other\" in alerts", split},
		{at(f, tallyStream/cfg.Alerts.Retention.Seconds(), func(n *Need) float64 { return n.TallyBytes }), "the stream of tallies holds less than an hour, so a restarted alert role knows less", "the fixed limit of the stream LLMTAP_TALLY, or " + split},
	}
	slices.SortFunc(list, func(a, b Limit) int { return cmp.Compare(a.Calls, b.Calls) })
	return list
}
