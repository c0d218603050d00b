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
	tallyMost   = 1260      // series in a tally, of one partition and second, with the lengths of names in BenchmarkTallyVolume; further ones become "other"
	tallyStream = 256 << 20 // bytes of the stream of tallies
	streamMost  = 10 << 30  // bytes of the event stream by default, if the disk has five times as many
	partsMost   = 20        // new parts of a table per second that ClickHouse merges in time; it refuses inserts at 3,000 parts
	tables      = 6         // written by a batch
	eventsMost  = 2         // events of a call
)

// A Fleet is what is observed.
type Fleet struct {
	Calls         float64 `json:"calls_per_second"`
	CallBytes     float64 `json:"call_bytes"`     // of both bodies
	NewBytes      float64 `json:"new_call_bytes"` // of them, what no earlier call of the conversation contained
	Conversations float64 `json:"conversations"`  // with a call in the last half hour (analyzer.session_lookback)
	Services      float64 `json:"services"`
	Series        float64 `json:"series"`         // combinations of service, version, stage, provider and model that make calls
	RetentionDays float64 `json:"retention_days"` // of message bodies
	Cores         float64 `json:"cores"`          // of a machine
	Replicas      float64 `json:"replicas"`       // of the NATS stream
}

// Validate returns an error for the first value that is not positive.
func (f *Fleet) Validate() error {
	for _, v := range []struct {
		flag  string
		value float64
	}{
		{"calls", f.Calls}, {"call-bytes", f.CallBytes}, {"new-bytes", f.NewBytes}, {"services", f.Services}, {"series", f.Series}, {"days", f.RetentionDays},
		{"cores", f.Cores}, {"replicas", f.Replicas},
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
	loop := m.Loop.Of(f.Calls, n.Bytes) // seconds per second: the partitions that are always busy
	n.AnalyzerCores = m.Analyzer.Of(f.Calls, n.Bytes)
	n.Partitions = max(1, math.Ceil(loop/busy))
	// An analyzer is limited by its memory or by the cores of its machine, and by the loops of its partitions.
	n.SessionBytes = f.Conversations * m.ConversationBytes
	n.Analyzers = max(1, math.Ceil(n.AnalyzerCores/(f.Cores*busy)), math.Ceil(n.SessionBytes/sessionMemory(cfg)))
	n.Partitions = max(n.Partitions, n.Analyzers)
	n.NATSCores = m.NATS.Of(f.Calls, n.Bytes) * f.Replicas
	n.Streams = max(1, math.Ceil(n.Bytes*overhead/(m.StreamBytesPerSec*busy)), math.Ceil(n.Events/(m.StreamEventsPerSec*busy)), math.Ceil(n.Partitions/jetstream.MaxPartitions))
	n.NATSNodes = max(f.Replicas, math.Ceil(n.NATSCores/(f.Cores*busy)), n.Streams*min(f.Replicas, 3)/3)
	n.ClickHouseCores = m.ClickHouse.Of(f.Calls, f.Calls*f.NewBytes)
	n.Inserts = n.Partitions * batchRate(m, cfg) * m.InsertsPerBatch
	n.ClickHouseNodes = max(1, math.Ceil(n.ClickHouseCores/(f.Cores*busy)), math.Ceil(n.Inserts/(partsMost*tables)))
	n.KVWrites = n.Partitions * batchRate(m, cfg) * (1 + min(m.LedgerPerBatch, 2*f.Series))
	// Each partition has a count of each series in each second in which the series has calls.
	n.TallyBytes = seriesPerSecond(f, n.Partitions) * m.TallySeriesBytes
	n.Subjects = min(f.Services*256*eventsMost, f.Conversations*eventsMost)
	n.SubjectBytes = n.Subjects * m.SubjectBytes
	// Each event enters NATS once, goes to the other replicas, and to one reader.
	n.Network = 8 * n.Bytes * overhead * (1 + (f.Replicas - 1) + 1)
	n.StreamDisk = n.Bytes * overhead * cfg.Analyzer.SessionLookback.Seconds()
	n.StoreDisk = f.Calls * day * f.RetentionDays * (m.DiskPerCall + f.NewBytes*m.DiskPerNewByte)
	return n
}

// sessionMemory is the memory for conversations of one process.
func sessionMemory(cfg *config.Config) float64 {
	return float64(cmp.Or(cfg.Analyzer.MaxStateBytes, cfg.Memory.Limit/8))
}

// batchRate is the number of batches of a partition per second: at most one per flush interval, and under load one per large
// flush interval.
func batchRate(m *Measured, cfg *config.Config) float64 {
	return min(m.BatchesPerSecond, 1/cfg.Batcher.FlushInterval.Seconds())
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

// Limits returns the limits of one installation with the default configuration and one analyzer with one partition, the
// first to be reached first.
func Limits(f Fleet, m *Measured, cfg *config.Config) []Limit {
	// at returns the rate at which need reaches most, if everything grows with the rate.
	at := func(most float64, need func(*Need) float64) float64 {
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
	perCall := f.CallBytes
	list := []Limit{
		{at(sessionMemory(cfg), func(n *Need) float64 { return n.SessionBytes }), "memory of one analyzer for conversations: the longest idle are forgotten, and their root causes with them", "memory.limit, or more analyzers"},
		{float64(cmp.Or(cfg.NATS.MaxBytes, streamMost)) / (perCall * overhead * cfg.Analyzer.SessionLookback.Seconds()), "the stream no longer holds half an hour: ClickHouse may be down for less", "nats.max_bytes and its disk"},
		{float64(cfg.Analyzer.SessionLookbackBytes) / (perCall * cfg.Analyzer.SessionLookback.Seconds()), "a restart reads back less than half an hour: idle conversations are forgotten", "analyzer.session_lookback_bytes; a restart then takes longer"},
		{busy / m.Loop.Of(1, perCall), "one partition: its analyzer is one goroutine", "partitions and analyzers"},
		{busy * f.Cores / m.Analyzer.Of(1, perCall), "the cores of one analyzer", "partitions and analyzers on more machines"},
		{busy * f.Cores / m.ClickHouse.Of(1, f.NewBytes), "the cores of one ClickHouse", "a cluster (clickhouse.cluster), with shards"},
		{busy * m.StreamBytesPerSec / (perCall * overhead), "the bytes of one stream: it has one leader", "an installation for each part of the services"},
		{busy * m.StreamEventsPerSec / eventsMost, "the events of one stream", "an installation for each part of the services"},
		{at(float64(cfg.Analyzer.MaxLabelValues), func(n *Need) float64 { return n.Fleet.Services }), "services in the counts: further ones become \"other\"", "analyzer.max_label_values and alerts.max_label_values"},
		{at(float64(cfg.Alerts.MaxSeries)/3, func(n *Need) float64 { return n.Fleet.Series }), "series of the alert role, three of a combination", "alerts.max_series; its CPU grows with it"},
		{at(tallyMost, func(n *Need) float64 { return seriesPerSecond(n.Fleet, n.Partitions) / n.Partitions }), "the counts of one partition and second: further series become \"other\"", "more partitions do not help; fewer versions and stages do"},
		{at(tallyStream/cfg.Alerts.Retention.Seconds(), func(n *Need) float64 { return n.TallyBytes }), "the stream of tallies holds less than an hour: a restarted alert role knows less", "the limit of LLMTAP_TALLY is fixed; an installation for each part of the services"},
		{at(partsMost*tables, func(n *Need) float64 { return n.Inserts }), "parts of one ClickHouse: inserts of all partitions", "batcher.flush_interval and large_flush_interval; shards"},
		{at(jetstream.MaxPartitions, func(n *Need) float64 { return n.Partitions }), "partitions: there are 256 shards", "an installation for each part of the services"},
		{at(10e9*busy, func(n *Need) float64 { return n.Network / f.Replicas }), "a network of 10 Gbit/s of a NATS node", "capture shape, faster networks, an installation for each part of the services"},
	}
	slices.SortFunc(list, func(a, b Limit) int { return cmp.Compare(a.Calls, b.Calls) })
	return list
}
