package collector

import (
	"context"
	"log/slog"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/sinks/chdb"
)

func TestMain(m *testing.M) {
	chdb.RunChild() // the embedded ClickHouse is this binary again
	m.Run()
}

// start runs a collector until the test ends.
func start(t *testing.T, change func(*config.Config)) *Collector {
	t.Helper()
	c, err := Open(context.WithoutCancel(t.Context()), collectortest.Config(t, change), Options{Logger: slog.New(slog.DiscardHandler), Progress: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	collectortest.Run(t, c)
	return c
}
