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

// Measured are the constants of a machine and a fleet. All but the last group follow from two reports of llmtap bench.
type Measured struct {
	// CPU seconds.
	NATS       Cost `json:"nats"`       // per call and byte received
	Analyzer   Cost `json:"analyzer"`   // likewise
	ClickHouse Cost `json:"clickhouse"` // per call and new byte
	// Loop is the time that passes in the analyzer of a partition, which is one goroutine.
	Loop Cost `json:"loop"`

	InsertsPerBatch    float64 `json:"inserts_per_batch"`  // each makes a part
	BatchesPerSecond   float64 `json:"batches_per_second"` // of a partition
	LedgerPerBatch     float64 `json:"ledger_writes_per_batch"`
	ConversationBytes  float64 `json:"conversation_bytes"`    // of memory
	DiskPerCall        float64 `json:"disk_per_call"`         // bytes in ClickHouse
	DiskPerNewByte     float64 `json:"disk_per_new_byte"`     // likewise
	TallySeriesBytes   float64 `json:"tally_series_bytes"`    // JSON of one series in one second
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
	solve := func(cost *Cost, value func(*bench.Measurement) (bytes, cost float64)) {
		bytesA, costA := value(a)
		bytesB, costB := value(b)
		if err == nil {
			*cost, err = fit(float64(a.Calls), bytesA, costA, float64(b.Calls), bytesB, costB)
		}
	}
	received := func(x *bench.Measurement) float64 { return float64(x.Bytes) }
	fresh := func(x *bench.Measurement) float64 { return max(1, float64(x.Bytes)-x.Volume.SkippedBytes) }
	solve(&m.NATS, func(x *bench.Measurement) (float64, float64) { return received(x), x.CPU[bench.NATS] })
	solve(&m.Analyzer, func(x *bench.Measurement) (float64, float64) { return received(x), x.CPU[bench.Analyzer] })
	solve(&m.Loop, func(x *bench.Measurement) (float64, float64) { return received(x), x.Stages[bench.StageAnalyze] })
	solve(&m.ClickHouse, func(x *bench.Measurement) (float64, float64) { return fresh(x), x.CPU[bench.ClickHouse] })
	var disk Cost
	solve(&disk, func(x *bench.Measurement) (float64, float64) { return fresh(x), x.Volume.StoreBytes })
	m.DiskPerCall, m.DiskPerNewByte = disk.PerCall, disk.PerByte
	batches := a.Volume.Checkpoints + b.Volume.Checkpoints
	if batches > 0 {
		m.InsertsPerBatch = (a.Volume.Inserts + b.Volume.Inserts) / batches
		m.LedgerPerBatch = (a.Volume.LedgerWrites + b.Volume.LedgerWrites) / batches
		m.BatchesPerSecond = batches / (a.Seconds + b.Seconds)
	}
	if n := a.State.Conversations + b.State.Conversations; n > 0 {
		m.ConversationBytes = (a.State.ConversationBytes + b.State.ConversationBytes) / n
	}
	return err
}
