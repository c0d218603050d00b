package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Constants measured with an EPYC of 2 cores, shared with other work. deploy/SIZING.md has the commands.
const (
	streamBytesPerSec    = 600e6 // that one stream accepts
	streamEventsPerSec   = 80_000
	clickHousePerInsert  = 0.05  // CPU seconds
	clickHousePerNewByte = 30e-9 // likewise
	diskPerNewByte       = 0.30  // of all tables in ClickHouse
	insertsPerBatch      = 4.7   // each makes a part
	ledgerPerFailure     = 1.2   // writes to the bucket of the ledger
	conversationBytes    = 2200  // by the analyzer's estimate, by which it forgets
	heapPerEstimate      = 2.0   // memory of conversations divided by that
	loopShare            = 0.5   // of the CPU time of an analyzer that is in one goroutine
	tallySeriesBytes     = 215   // JSON of one series in one second
	tallyFailureBytes    = 1150  // that a failed call adds: its series and an example
	tallySeries          = 1260  // in one tally; further ones become "other"
	tallyExamples        = 256   // failures with an example in a tally
	subjectBytes         = 230   // memory of NATS for one subject of the stream
)

// CPU seconds of calls and of the bytes that they have.
func natsCPU(calls, bytes float64) float64     { return 145e-6*calls + 2.6e-9*bytes }
func analyzerCPU(calls, bytes float64) float64 { return 200e-6*calls + 1.6e-9*bytes }

// Defaults of the configuration, and what is fixed in llmtap. TestDefaults compares them.
const (
	lookback       = 30 * 60.  // seconds: analyzer.session_lookback
	lookbackBytes  = 4 << 30   // analyzer.session_lookback_bytes
	memoryLimit    = 640 << 20 // memory.limit
	flushInterval  = 1.        // seconds: batcher.flush_interval
	largeInterval  = 3.        // seconds: batcher.large_flush_interval
	maxLabelValues = 200       // analyzer.max_label_values
	maxSeries      = 20_000    // alerts.max_series
	retention      = 60 * 60.  // seconds: alerts.retention
	maxPartitions  = 256
	streamMost     = 10 << 30  // bytes of the event stream, if the disk has five times as many
	tallyStream    = 256 << 20 // bytes of the stream of tallies
	stateShare     = 1. / 8    // analyzer.max_state_bytes, as a share of memory.limit
	batchShare     = 1. / 20   // batcher.max_bytes, likewise
	tables         = 6         // written by a batch
	eventsMost     = 2         // events of a call
)

// Assumptions.
const (
	busy      = 0.7  // share of a core, or of a measured maximum, that is planned with
	overhead  = 1.1  // of NATS, for headers
	linkBits  = 10e9 // bits per second of a NATS node
	partsMost = 20   // new parts of a table per second that ClickHouse merges in time; it refuses inserts at 3,000 parts
	day       = 24 * 3600

	callsPerConversation = 36934. / 12440 // in the recorded traffic, see package load
)

// A demand is what is observed of a fleet.
type demand struct {
	calls, callBytes, newBytes    float64 // per second; of both bodies; of them, what no earlier call of the conversation contained
	conversations                 float64 // with a call in the last half hour
	services, series              float64 // series: combinations of service, version, stage, provider and model
	failed                        float64 // share of the calls
	days, cores, memory, replicas float64 // of bodies; of a machine; memory.limit of an analyzer, in bytes; of the NATS stream
}

// times returns the demand of n times the calls and conversations. The number of services grows with the square root: a larger
// fleet has more services, and more calls of each.
func (d demand) times(n float64) demand {
	d.calls *= n
	d.conversations *= n
	d.services = math.Ceil(d.services * math.Sqrt(n))
	d.series = math.Ceil(d.series * math.Sqrt(n))
	return d
}

// A need is what a fleet requires.
type need struct {
	demand

	bytes, events                               float64 // per second
	installations                               float64 // each has one event stream: more than 1 are for parts of the services
	analyzers, analyzerCores, partitions        float64
	sessionBytes                                float64 // memory of conversations
	natsNodes, natsCores, kvWrites, tallyBytes  float64 // the last two per second
	subjects, subjectBytes, network, streamDisk float64 // network: bits per second in and out of all nodes; disk of one replica
	clickHouseNodes, clickHouseCores, inserts   float64
	storeDisk                                   float64
}

// compute returns what d requires.
func compute(d demand) need {
	n := need{demand: d, events: eventsMost * d.calls, bytes: d.calls * d.callBytes}
	n.analyzerCores = analyzerCPU(d.calls, n.bytes)
	n.sessionBytes = d.conversations * conversationBytes * heapPerEstimate
	// An analyzer is limited by its memory or by the cores of its machine, a partition by its goroutine.
	n.analyzers = max(1, math.Ceil(n.analyzerCores/(d.cores*busy)), math.Ceil(d.conversations*conversationBytes/(d.memory*stateShare)))
	n.partitions = max(n.analyzers, math.Ceil(n.analyzerCores*loopShare/busy))
	n.natsCores = natsCPU(d.calls, n.bytes) * d.replicas
	n.installations = max(1, math.Ceil(n.bytes*overhead/(streamBytesPerSec*busy)), math.Ceil(n.events/(streamEventsPerSec*busy)), math.Ceil(n.partitions/maxPartitions))
	// Each event enters NATS once, goes to the other replicas, and to one reader.
	n.network = 8 * n.bytes * overhead * (d.replicas + 1)
	n.natsNodes = max(d.replicas, n.installations, math.Ceil(n.natsCores/(d.cores*busy)), math.Ceil(n.network/(linkBits*busy)))
	batches := n.partitions * batchRate(d)
	n.inserts = batches * insertsPerBatch
	n.clickHouseCores = n.inserts*clickHousePerInsert + d.calls*d.newBytes*clickHousePerNewByte
	n.clickHouseNodes = max(1, math.Ceil(n.clickHouseCores/(d.cores*busy)), math.Ceil(n.inserts/(partsMost*tables)))
	// A batch writes a checkpoint and the entries of the ledger that its failures change.
	n.kvWrites = batches + d.calls*d.failed*ledgerPerFailure
	// Each partition has a count of each series in each second in which the series has calls, and examples of failures.
	n.tallyBytes = seriesPerSecond(d, n.partitions)*tallySeriesBytes + min(d.calls*d.failed, n.partitions*tallyExamples)*tallyFailureBytes
	n.subjects = min(d.services*256*eventsMost, d.conversations*eventsMost)
	n.subjectBytes = n.subjects * subjectBytes
	n.streamDisk = n.bytes * overhead * lookback
	n.storeDisk = d.calls * day * d.days * d.newBytes * diskPerNewByte
	return n
}

// batchRate is the number of batches of a partition per second. Partitions share the limit of a batch as they share the
// events, so each fills its batches as fast as a single one would.
func batchRate(d demand) float64 {
	full := d.calls * d.newBytes / (d.memory * batchShare) // full batches per second
	if full < 1./8 {
		return 1 / flushInterval
	}
	return max(full, 1/largeInterval)
}

// seriesPerSecond returns the number of counts in all tallies of a second: of c calls that fall on s series at random,
// s(1-exp(-c/s)) series have at least one, in each partition.
func seriesPerSecond(d demand, partitions float64) float64 {
	return partitions * d.series * (1 - math.Exp(-d.calls/partitions/d.series))
}

// A limit is a rate at which something breaks, with what to change.
type limit struct {
	calls        float64 // per second
	what, change string
}

// limits returns the rates at which limits of one installation are reached, the lowest first. The limits of one process are
// those of the default configuration; for the others, d is sized by compute.
func limits(d demand) []limit {
	one := d
	one.memory = memoryLimit
	// at returns the rate at which a need of d reaches most, if everything grows with the rate.
	at := func(d demand, most float64, value func(*need) float64) float64 {
		low, high := 1e-6, 1e12
		for range 200 {
			mid := math.Sqrt(low * high)
			n := compute(d.times(mid / d.calls))
			if value(&n) > most {
				high = mid
			} else {
				low = mid
			}
		}
		return low
	}
	const split = "an installation for each part of the services"
	perCall := d.callBytes * overhead
	list := []limit{
		{
			at(one, 1, func(n *need) float64 { return n.conversations * conversationBytes / (n.memory * stateShare) }),
			"memory of an analyzer for the conversations of half an hour: the longest idle are forgotten, and root causes that need them", "memory.limit, or more analyzers",
		},
		{lookbackBytes / (perCall * lookback), "a restart reads back less than half an hour", "analyzer.session_lookback_bytes; a restart then takes longer"},
		{streamMost / (perCall * lookback), "the stream holds less than half an hour, so ClickHouse may be down for less", "nats.max_bytes"},
		{busy / (analyzerCPU(1, d.callBytes) * loopShare), "one partition: its analyzer is one goroutine", "partitions, and more analyzers"},
		{busy * d.cores / analyzerCPU(1, d.callBytes), "the cores of one analyzer", "more analyzers, on more machines"},
		{at(d, busy*d.cores, func(n *need) float64 { return n.clickHouseCores }), "the cores of one ClickHouse", "clickhouse.cluster, with shards"},
		{at(d, partsMost*tables, func(n *need) float64 { return n.inserts }), "new parts of one ClickHouse", "batcher.max_bytes and batcher.large_flush_interval; shards"},
		{busy * streamBytesPerSec / perCall, "bytes of the event stream, which has one leader", split},
		{busy * streamEventsPerSec / eventsMost, "events of the event stream", split},
		{
			at(d, linkBits*busy, func(n *need) float64 { return n.network / n.replicas }),
			"a network of 10 Gbit/s, with as many NATS nodes as replicas", "more NATS nodes, faster networks, hooks with capture shape, or " + split,
		},
		{at(d, maxPartitions, func(n *need) float64 { return n.partitions }), "partitions: there are 256 shards", split},
		{
			at(d, maxLabelValues, func(n *need) float64 { return n.services }),
			`services in counts: further ones are "other" in alerts`, "analyzer.max_label_values and alerts.max_label_values",
		},
		{at(d, maxSeries/3., func(n *need) float64 { return n.series }), "series of the alert role", "alerts.max_series"},
		{
			at(d, tallySeries, func(n *need) float64 { return seriesPerSecond(n.demand, n.partitions) / n.partitions }),
			`series in the tally of a partition: further ones are "other" in alerts`, split,
		},
		{
			at(d, tallyStream/retention, func(n *need) float64 { return n.tallyBytes }),
			"the stream of tallies holds less than an hour, so a restarted alert role knows less", "the fixed limit of the stream LLMTAP_TALLY, or " + split,
		},
	}
	slices.SortFunc(list, func(a, b limit) int { return cmp.Compare(a.calls, b.calls) })
	return list
}

// size prints what a fleet needs, and for 10, 100 and 1000 times as many calls, and what breaks first.
func size(_ context.Context, out io.Writer, flags *flag.FlagSet, args []string) error {
	var d demand
	positive := []*float64{}
	number := func(to *float64, name string, value float64, usage string) {
		flags.Float64Var(to, name, value, usage)
		positive = append(positive, to)
	}
	number(&d.calls, "calls", 100, "calls per second")
	number(&d.callBytes, "call-bytes", 37_000, "mean bytes of the bodies of a call")
	number(&d.newBytes, "new-bytes", 5800, "bytes of them that no earlier call of the conversation contained")
	flags.Float64Var(&d.conversations, "conversations", 0, "conversations with calls in half an hour; 0: as in recorded traffic")
	number(&d.services, "services", 20, "services; their number grows with the square root of the calls")
	number(&d.series, "series", 120, "combinations of service, version, stage, provider and model; likewise")
	flags.Float64Var(&d.failed, "failed", 0.0276, "share of the calls that fail")
	number(&d.days, "days", 14, "days that ClickHouse keeps bodies")
	number(&d.cores, "cores", 16, "cores of a machine")
	number(&d.memory, "memory", 16, "memory.limit of an analyzer, in GiB")
	number(&d.replicas, "replicas", 3, "replicas in NATS")
	_ = flags.Parse(args) // exits
	if slices.ContainsFunc(positive, func(v *float64) bool { return !(*v > 0) || math.IsInf(*v, 1) }) || d.newBytes > d.callBytes {
		return fmt.Errorf("all numbers must be above 0, and -new-bytes at most -call-bytes")
	}
	d.memory *= 1 << 30
	if d.conversations == 0 {
		d.conversations = d.calls / callsPerConversation * lookback
	}
	printNeeds(out, d)
	return nil
}

// printNeeds prints the needs of d and of its multiples, and the limits.
func printNeeds(out io.Writer, d demand) {
	var needs []need
	for _, n := range []float64{1, 10, 100, 1000} {
		needs = append(needs, compute(d.times(n)))
	}
	var table [][]string
	line := func(name, unit string, value func(*need) float64) {
		cells := []string{name}
		for i := range needs {
			cells = append(cells, amount(value(&needs[i]), unit))
		}
		table = append(table, cells)
	}
	line("calls per second", "", func(n *need) float64 { return n.calls })
	line("bodies per second", "B", func(n *need) float64 { return n.bytes })
	line("conversations in half an hour", "", func(n *need) float64 { return n.conversations })
	line("services", "", func(n *need) float64 { return n.services })
	line("installations", "", func(n *need) float64 { return n.installations })
	line("analyzer processes", "", func(n *need) float64 { return n.analyzers })
	line("analyzers: cores", "", func(n *need) float64 { return n.analyzerCores })
	line("analyzers: partitions", "", func(n *need) float64 { return n.partitions })
	line("analyzers: memory of conversations", "B", func(n *need) float64 { return n.sessionBytes })
	line("NATS nodes", "", func(n *need) float64 { return n.natsNodes })
	line("NATS: cores", "", func(n *need) float64 { return n.natsCores })
	line("NATS: KV writes per second", "", func(n *need) float64 { return n.kvWrites })
	line("NATS: tallies per second", "B", func(n *need) float64 { return n.tallyBytes })
	line("NATS: subjects", "", func(n *need) float64 { return n.subjects })
	line("NATS: memory of subjects", "B", func(n *need) float64 { return n.subjectBytes })
	line("NATS: network of all nodes", "bit/s", func(n *need) float64 { return n.network })
	line("NATS: disk for half an hour", "B", func(n *need) float64 { return n.streamDisk })
	line("ClickHouse nodes", "", func(n *need) float64 { return n.clickHouseNodes })
	line("ClickHouse: cores", "", func(n *need) float64 { return n.clickHouseCores })
	line("ClickHouse: inserts (parts) per second", "", func(n *need) float64 { return n.inserts })
	line(fmt.Sprintf("ClickHouse: disk for %g days", d.days), "B", func(n *need) float64 { return n.storeDisk })
	printTable(out, table)
	fmt.Fprintln(out)
	table = [][]string{{"calls per second", "what happens from this rate on", "change"}}
	for _, l := range limits(d) {
		if l.calls <= 10*needs[len(needs)-1].calls {
			table = append(table, []string{amount(l.calls, ""), l.what, l.change})
		}
	}
	printTable(out, table)
}

// amount formats n with two significant digits and a decimal prefix, such as 1.2 GB.
func amount(n float64, unit string) string {
	prefixes := []string{"", "k", "M", "G", "T", "P"}
	i := 0
	for n >= 999.5 && i < len(prefixes)-1 {
		n, i = n/1000, i+1
	}
	digits := 0
	switch {
	case n == math.Trunc(n) && i == 0: // a number of things
	case n < 0.995:
		digits = 2
	case n < 9.95:
		digits = 1
	}
	return strings.TrimSpace(fmt.Sprintf("%.*f %s%s", digits, n, prefixes[i], unit))
}
