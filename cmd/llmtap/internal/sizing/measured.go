package sizing

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/bench"
)

// A Cost is a cost that grows with the calls and with the bytes of their bodies.
type Cost struct {
	PerCall float64 `json:"per_call"` // seconds
	PerByte float64 `json:"per_byte"`
}

// Of returns the cost of a number of calls and bytes.
func (c Cost) Of(calls, bytes float64) float64 { return c.PerCall*calls + c.PerByte*bytes }

// Measured are the constants of a machine and a fleet. The first group follows from reports of llmtap bench.
type Measured struct {
	// CPU seconds.
	NATS                 Cost    `json:"nats"`     // by calls and bytes received
	Analyzer             Cost    `json:"analyzer"` // likewise
	ClickHousePerInsert  float64 `json:"clickhouse_per_insert"`
	ClickHousePerNewByte float64 `json:"clickhouse_per_new_byte"`

	InsertsPerBatch   float64 `json:"inserts_per_batch"`         // each makes a part
	LedgerPerFailure  float64 `json:"ledger_writes_per_failure"` // writes to the bucket of the ledger
	ConversationBytes float64 `json:"conversation_bytes"`        // by the analyzer's estimate, by which it forgets
	DiskPerNewByte    float64 `json:"disk_per_new_byte"`         // of all tables in ClickHouse

	// Of benchmarks, see deploy/SIZING.md.
	LoopShare          float64 `json:"loop_share"`            // of the CPU time of an analyzer that is in one goroutine
	HeapPerEstimate    float64 `json:"heap_per_estimate"`     // memory of conversations divided by the analyzer's estimate
	TallySeriesBytes   float64 `json:"tally_series_bytes"`    // JSON of one series in one second
	TallyFailureBytes  float64 `json:"tally_failure_bytes"`   // that a failed call adds: its series and an example
	TallySeries        float64 `json:"tally_series"`          // in one tally; further ones become "other"
	SubjectBytes       float64 `json:"subject_bytes"`         // memory of NATS for one subject of the stream
	StreamBytesPerSec  float64 `json:"stream_bytes_per_sec"`  // that one stream accepts
	StreamEventsPerSec float64 `json:"stream_events_per_sec"` // likewise
}

// fit returns the cost that explains measurements best, by least squares. Each has a number of units, of bytes, and a cost.
func fit(points [][3]float64) (Cost, error) {
	var uu, ub, bb, uc, bc, units, bytes, cost float64
	for _, p := range points {
		uu, ub, bb = uu+p[0]*p[0], ub+p[0]*p[1], bb+p[1]*p[1]
		uc, bc = uc+p[0]*p[2], bc+p[1]*p[2]
		units, bytes, cost = units+p[0], bytes+p[1], cost+p[2]
	}
	d := uu*bb - ub*ub
	if d <= 1e-6*uu*bb {
		return Cost{}, errors.New("the calls of all reports have the same size; measure --shape short and --shape runs")
	}
	c := Cost{PerCall: (uc*bb - bc*ub) / d, PerByte: (uu*bc - ub*uc) / d}
	// Noise can make the smaller part negative. All of the cost is then in the other.
	switch {
	case c.PerCall < 0:
		c = Cost{PerByte: cost / bytes}
	case c.PerByte < 0:
		c = Cost{PerCall: cost / units}
	}
	return c, nil
}

// Read returns the constants of reports of llmtap bench --analyzers N --format json, at least two of different shapes. What
// reports do not contain is as in Default.
func Read(files ...string) (Measured, error) {
	m := Default()
	if len(files) < 2 {
		return m, errors.New("at least two reports are required, such as of --shape short and --shape runs")
	}
	var all []*bench.Measurement
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return m, err
		}
		var x bench.Report
		if err := json.Unmarshal(text, &x); err != nil {
			return m, fmt.Errorf("read %s: %w", file, err)
		}
		if x.Analyzers < 1 {
			return m, fmt.Errorf("%s: not a report of llmtap bench --analyzers N", file)
		}
		all = append(all, &x.Run)
	}
	return m, m.set(all)
}

// set sets the constants that measurements determine.
func (m *Measured) set(all []*bench.Measurement) (err error) {
	type value func(*bench.Measurement) float64
	solve := func(units, bytes, cost value) (c Cost) {
		var points [][3]float64
		for _, x := range all {
			points = append(points, [3]float64{units(x), bytes(x), cost(x)})
		}
		if err == nil {
			c, err = fit(points)
		}
		return c
	}
	// ratio sets result to the quotient of two sums.
	ratio := func(result *float64, of, by value) {
		var sumOf, sumBy float64
		for _, x := range all {
			sumOf, sumBy = sumOf+of(x), sumBy+by(x)
		}
		if sumBy > 0 {
			*result = sumOf / sumBy
		}
	}
	calls := func(x *bench.Measurement) float64 { return float64(x.Calls) }
	received := func(x *bench.Measurement) float64 { return float64(x.Bytes) }
	inserts := func(x *bench.Measurement) float64 { return x.Volume.Inserts }
	fresh := func(x *bench.Measurement) float64 { return float64(x.Bytes) - x.Volume.SkippedBytes }
	cpu := func(name string) value {
		return func(x *bench.Measurement) float64 { return x.CPU[name] }
	}
	m.NATS = solve(calls, received, cpu(bench.NATS))
	m.Analyzer = solve(calls, received, cpu(bench.Analyzer))
	clickhouse := solve(inserts, fresh, cpu(bench.ClickHouse))
	if err != nil {
		return err
	}
	m.ClickHousePerInsert, m.ClickHousePerNewByte = clickhouse.PerCall, clickhouse.PerByte
	ratio(&m.DiskPerNewByte, func(x *bench.Measurement) float64 { return x.Volume.StoreBytes }, fresh)
	ratio(&m.InsertsPerBatch, inserts, func(x *bench.Measurement) float64 { return x.Volume.Checkpoints })
	ratio(&m.LedgerPerFailure, func(x *bench.Measurement) float64 { return x.Volume.LedgerWrites }, func(x *bench.Measurement) float64 { return float64(x.Failed) })
	ratio(&m.ConversationBytes, func(x *bench.Measurement) float64 { return x.State.ConversationBytes }, func(x *bench.Measurement) float64 { return x.State.Conversations })
	return nil
}
