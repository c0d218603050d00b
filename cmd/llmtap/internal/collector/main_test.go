package collector

import (
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks/chdb"
)

func TestMain(m *testing.M) {
	chdb.RunChild() // the embedded ClickHouse is this binary again
	slowtest.Waits()
	m.Run()
}

// noStore is the time in which collectors without a ClickHouse try to store the last rows.
const noStore = 100 * time.Millisecond

// start runs a collector until the test ends, and waits until it is ready.
func start(t *testing.T, change func(*config.Config)) *Collector {
	t.Helper()
	c := open(t, change)
	collectortest.RunReady(t, c)
	return c
}

// open opens a collector without running it.
func open(t *testing.T, change func(*config.Config)) *Collector {
	t.Helper()
	c := must.Get(Open(t.Context(), collectortest.Config(t, change), Options{Logger: testLogger(), Progress: func(s string) { t.Log(s) }}))(t)
	return c
}
