package collector

import (
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/dist"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/analyzer/toolreply"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/past"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
	"github.com/llmtap/llmtap/sinks"
)

// ClickHouse counts the stored calls as the analyzer does, and a collector that starts for the first time learns them: once, also if it is
// killed and starts again.
func TestHistoryOfClickHouse(t *testing.T) {
	t.Parallel()
	var log testnet.Buffer
	cfg := collectortest.Config(t, func(cfg *config.Config) { cfg.Roles = []string{config.RoleAnalyze} })
	run := func(roles ...string) (c *Collector, stop func()) {
		t.Helper()
		cfg.Roles = roles
		c = must.Get(Open(t.Context(), cfg, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Progress: func(s string) { t.Log(s) }}))(t)
		end := must.Run(t, c.Run)
		must.Do(t, c.WaitReady(t.Context()))
		return c, func() { end(); c.Close() }
	}
	c, stop := run(config.RoleAnalyze)
	from := time.Now().Add(-time.Hour).UTC().Truncate(time.Hour)
	rnd := rand.New(rand.NewPCG(1, 1))
	want := engine.Past{Service: "shop", Environment: "prod", Stage: "planner", At: from}
	older := want // of a release that did not store how answers ended, nor the cache
	older.Stage = "older"
	broken := uint64(0)
	odd, prices := map[string]uint64{}, price.NewLookup(cfg.Prices)
	batch := &sinks.Batch{}
	for i := range 5000 {
		value := func() int64 { return int64(math.Exp2(20 * rnd.Float64())) }
		x := analyzer.Exchange{
			ID: uuid.NewString(), Labels: event.Labels{Service: "shop", Environment: "prod", Stage: "planner"}, StartedAt: from.Add(time.Duration(i) * 100 * time.Millisecond),
			StoredAt: time.Now().UTC(), Status: 200, Path: "/v1/chat/completions", FinishReason: "stop", Ended: analyzer.EndedNormal, Stream: i%2 == 0,
			Duration: time.Duration(value()) * time.Millisecond, FirstByte: time.Duration(value()) * time.Millisecond, InputTokens: value(), OutputTokens: value(), Messages: int(value()),
		}
		if i%3 > 0 {
			x.Provider, x.Model, x.CacheReported = "anthropic", "claude-opus-4-6", true
			x.CachedTokens, x.CacheWritten, x.CacheHour = x.InputTokens/4, x.InputTokens/2, x.InputTokens/8
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
			x.FinishReason, x.Ended = "length", analyzer.EndedLimit
		case 6:
			x.FinishReason, x.Ended = "SAFETY", analyzer.EndedFiltered
		case 7:
			x.InputTokens, x.OutputTokens = -1, -1 // unknown
		case 8:
			x.Ended, x.Cache.Reason = analyzer.EndedEmpty, promptcache.Idle
		case 9:
			x.Cache.Reason = promptcache.SystemChanged
			broken++
		}
		if counted {
			want.Calls++
		}
		if counted && measured {
			odd[x.Ended]++
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
			switch p := prices.Of(x.Provider, x.Model); {
			case x.InputTokens <= 0:
			case p == nil:
				m.Unpriced++
			default:
				m.Cost.Add(uint64(p.Microdollars(price.Tokens{Input: x.InputTokens, Cached: x.CachedTokens, Written: x.CacheWritten, Hour: x.CacheHour, Output: x.OutputTokens}) + 0.5))
			}
		}
		batch.Exchanges = append(batch.Exchanges, x)
		x.ID, x.Ended, x.Labels.Stage = uuid.NewString(), "", older.Stage
		batch.Exchanges = append(batch.Exchanges, x)
	}
	older.Calls, older.Measured = want.Calls, want.Measured
	older.Measured.Cost = dist.Dist{} // it is not stored what was written to the cache of the only model with a price
	share := func(ended string) engine.PastShare { return engine.PastShare{N: odd[ended], Of: want.Calls} }
	cache := engine.PastShare{N: broken, Of: want.Calls}
	older.Shares = map[string]engine.PastShare{"answer_limit": share(analyzer.EndedLimit), "answer_filtered": share(analyzer.EndedFiltered), "cache": cache}
	want.Shares = map[string]engine.PastShare{
		"answer_limit": share(analyzer.EndedLimit), "answer_filtered": share(analyzer.EndedFiltered),
		"answer_empty": share(analyzer.EndedEmpty), "answer_refused": share(analyzer.EndedRefused), analyzer.ToolError: {N: 2, Of: 5}, "cache": cache,
	}
	for i, reported := range []string{"", toolreply.Certain, "", toolreply.Likely, "", ""} {
		at := from.Add(time.Duration(i) * time.Second)
		x := analyzer.ToolCall{
			ID: uuid.NewString(), Labels: event.Labels{Service: "shop", Environment: "prod", Stage: "planner"}, Name: "search", State: session.Answered,
			StoredAt: time.Now().UTC(), AskedAt: at, AnsweredAt: at.Add(time.Minute), ReplyError: reported,
		}
		if i == 5 { // no reply
			x.State, x.AnsweredAt = session.Missing, time.Time{}
		}
		batch.ToolCalls = append(batch.ToolCalls, x)
	}
	must.Do(t, c.ClickHouse().Write(t.Context(), batch))
	read := func(services ...string) []engine.Past {
		t.Helper()
		list := must.Get(past.Read(t.Context(), c.ClickHouse(), past.OneThread, cfg.Prices, services, from.Add(-time.Hour), from.Add(time.Hour)))(t)
		slices.SortFunc(list, func(a, b engine.Past) int { return strings.Compare(a.Stage, b.Stage) })
		return list
	}
	must.Agree(t, cmp.Diff([]engine.Past{older, want}, read()))
	must.Equal(t, len(read("shop", "other's"))+len(read("other")), 2, "services")
	stop()

	learned := func() int { return strings.Count(log.String(), "what is usual was learned from the stored calls") }
	for i := range 2 {
		_, stop := run(config.RoleAnalyze, config.RoleAlert)
		must.Wait(t, "what is usual is learned", func() bool { return learned() > 0 })
		if i == 1 {
			time.Sleep(3 * time.Second) // it would ask again after a second
		}
		stop()
	}
	must.Equal(t, learned(), 1, "times that the stored calls were learned")
	must.Equal(t, strings.Count(log.String(), "stages=2 "), 1, "logs that two stages were learned")
}
