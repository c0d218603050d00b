package collector

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/past"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
)

// ClickHouse counts the stored calls as the analyzer does, and a collector that starts for the first time learns them: once, also if it is
// killed and starts again.
func TestHistoryOfClickHouse(t *testing.T) {
	var log collectortest.Buffer
	cfg := collectortest.Config(t, func(cfg *config.Config) { cfg.Roles = []string{config.RoleAnalyze} })
	run := func(roles ...string) (c *Collector, stop func()) {
		t.Helper()
		cfg.Roles = roles
		c = must.Get(Open(t.Context(), cfg, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Progress: func(s string) { t.Log(s) }}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- c.Run(ctx) }()
		must.Do(t, c.WaitReady(ctx))
		return c, func() { cancel(); must.Do(t, <-stopped); c.Close() }
	}
	c, stop := run(config.RoleAnalyze)
	from := time.Now().Add(-time.Hour).UTC().Truncate(time.Hour)
	rnd := rand.New(rand.NewPCG(1, 1))
	want := engine.Past{Service: "shop", Environment: "prod", Stage: "planner", At: from, CacheKnown: true, Odd: map[string]uint64{analyzer.EndedLimit: 0, analyzer.EndedFiltered: 0}}
	batch := &sinks.Batch{}
	for i := range 5000 {
		value := func() int64 { return int64(math.Exp2(20 * rnd.Float64())) }
		x := analyzer.Exchange{
			ID: uuid.NewString(), Labels: event.Labels{Service: "shop", Environment: "prod", Stage: "planner"}, StartedAt: from.Add(time.Duration(i) * 100 * time.Millisecond),
			StoredAt: time.Now().UTC(), Status: 200, Path: "/v1/chat/completions", FinishReason: "stop", Stream: i%2 == 0,
			Duration: time.Duration(value()) * time.Millisecond, FirstByte: time.Duration(value()) * time.Millisecond, InputTokens: value(), OutputTokens: value(), Messages: int(value()),
		}
		counted, measured := true, true
		switch i % 10 {
		case 1:
			x.Retry, counted = 1, false
		case 2:
			x.ErrorType, counted = analyzer.ErrorCancelled, false
		case 3:
			x.Status, x.Failed, measured = 500, true, false
		case 4:
			x.Path, measured = "/v1/messages/batches", false
		case 5:
			x.FinishReason = "length"
			want.Odd[analyzer.EndedLimit]++
		case 6:
			x.FinishReason = "SAFETY"
			want.Odd[analyzer.EndedFiltered]++
		case 7:
			x.InputTokens, x.OutputTokens = -1, -1 // unknown
		case 8:
			x.CacheReported, x.Cache.Reason = true, promptcache.Idle
		case 9:
			x.CacheReported, x.Cache.Reason = true, promptcache.ToolsChanged
			want.CacheBroken++
		}
		if counted {
			want.Calls++
		}
		if counted && measured {
			m := &want.Measured
			m.Duration.Add(uint64(x.Duration.Milliseconds()))
			if x.Stream {
				m.FirstToken.Add(uint64(x.FirstByte.Milliseconds()))
			}
			if x.InputTokens > 0 {
				m.InputTokens.Add(uint64(x.InputTokens))
				m.OutputTokens.Add(uint64(x.OutputTokens))
			}
			m.History.Add(uint64(x.Messages))
		}
		batch.Exchanges = append(batch.Exchanges, x)
	}
	must.Do(t, c.ClickHouse().Write(t.Context(), batch))
	read := func(services ...string) []engine.Past {
		t.Helper()
		return must.Get(past.Read(t.Context(), c.ClickHouse(), past.OneThread, services, from.Add(-time.Hour), from.Add(time.Hour)))(t)
	}
	must.Agree(t, cmp.Diff([]engine.Past{want}, read()))
	must.Equal(t, len(read("shop", "other's"))+len(read("other")), 1, "services")
	stop()

	learned := func() int { return strings.Count(log.String(), "what is usual was learned from the stored calls") }
	for i := range 2 {
		_, stop := run(config.RoleAnalyze, config.RoleAlert)
		for deadline := time.Now().Add(30 * time.Second); learned() == 0 && time.Now().Before(deadline); {
			time.Sleep(20 * time.Millisecond)
		}
		if i == 1 {
			time.Sleep(3 * time.Second) // it would ask again after a second
		}
		stop()
	}
	must.Equal(t, learned(), 1, "times that the stored calls were learned")
	must.Equal(t, strings.Count(log.String(), "stages=1 "), 1, "logs that one stage was learned")
}
