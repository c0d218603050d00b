package sizing

import (
	"encoding/json"
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

// Measured are the constants of a machine and a fleet. The first group follows from two reports of llmtap bench.
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
	TallySeries        float64 `json:"tally_series"`          // in one tally; further ones become "other"
	SubjectBytes       float64 `json:"subject_bytes"`         // memory of NATS for one subject of the stream
	StreamBytesPerSec  float64 `json:"stream_bytes_per_sec"`  // that one stream accepts
	StreamEventsPerSec float64 `json:"stream_events_per_sec"` // likewise
}

// fit returns the cost that explains two measurements.
func fit(calls1, bytes1, cost1, calls2, bytes2, cost2 float64) (Cost, error) {
	d := calls1*bytes2 - calls2*bytes1
	if d == 0 {
		return Cost{}, fmt.Errorf("the calls of both reports have the same size; measure --shape short and --shape runs")
	}
	c := Cost{PerCall: (cost1*bytes2 - cost2*bytes1) / d, PerByte: (calls1*cost2 - calls2*cost1) / d}
	// Noise can make the smaller part negative. All of the cost is then in the other.
	switch {
	case c.PerCall < 0:
		c = Cost{PerByte: (cost1 + cost2) / (bytes1 + bytes2)}
	case c.PerByte < 0:
		c = Cost{PerCall: (cost1 + cost2) / (calls1 + calls2)}
	}
	return c, nil
}

// Read returns the constants of two reports of llmtap bench --analyzers 1 --format json, with different shapes. What a
// report does not contain is as in Default.
func Read(files ...string) (Measured, error) {
	m := Default()
	if len(files) != 2 {
		return m, fmt.Errorf("two reports are required, of --shape short and --shape runs; got %d", len(files))
	}
	var x [2]bench.Report
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return m, err
		}
		if err := json.Unmarshal(text, &x[i]); err != nil {
			return m, fmt.Errorf("read %s: %w", file, err)
		}
		if x[i].Analyzers != 1 {
			return m, fmt.Errorf("%s: not a report of llmtap bench --analyzers 1", file)
		}
	}
	return m, m.set(&x[0].Run, &x[1].Run)
}

// set sets the constants that two measurements determine.
func (m *Measured) set(a, b *bench.Measurement) (err error) {
	solve := func(units, bytes, cost func(*bench.Measurement) float64) (c Cost) {
		if err == nil {
			c, err = fit(units(a), bytes(a), cost(a), units(b), bytes(b), cost(b))
		}
		return c
	}
	calls := func(x *bench.Measurement) float64 { return float64(x.Calls) }
	received := func(x *bench.Measurement) float64 { return float64(x.Bytes) }
	inserts := func(x *bench.Measurement) float64 { return x.Volume.Inserts }
	fresh := func(x *bench.Measurement) float64 { return max(1, float64(x.Bytes)-x.Volume.SkippedBytes) }
	cpu := func(name string) func(*bench.Measurement) float64 {
		return func(x *bench.Measurement) float64 { return x.CPU[name] }
	}
	m.NATS = solve(calls, received, cpu(bench.NATS))
	m.Analyzer = solve(calls, received, cpu(bench.Analyzer))
	clickhouse := solve(inserts, fresh, cpu(bench.ClickHouse))
	if err != nil {
		return err
	}
	m.ClickHousePerInsert, m.ClickHousePerNewByte = clickhouse.PerCall, clickhouse.PerByte
	m.DiskPerNewByte = (a.Volume.StoreBytes + b.Volume.StoreBytes) / (fresh(a) + fresh(b))
	if n := a.Volume.Checkpoints + b.Volume.Checkpoints; n > 0 {
		m.InsertsPerBatch = (inserts(a) + inserts(b)) / n
	}
	if n := float64(a.Failed + b.Failed); n > 0 {
		m.LedgerPerFailure = (a.Volume.LedgerWrites + b.Volume.LedgerWrites) / n
	}
	if n := a.State.Conversations + b.State.Conversations; n > 0 {
		m.ConversationBytes = (a.State.ConversationBytes + b.State.ConversationBytes) / n
	}
	return nil
}
