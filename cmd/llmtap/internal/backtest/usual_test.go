package backtest

import (
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/analyzer/toolreply"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

func TestMain(m *testing.M) {
	chdb.RunChild() // the embedded ClickHouse is this binary again
	m.Run()
}

// startClickHouse returns a sink with the calls of a stage in the two weeks before until, six a minute. In the hour from slow on, they take
// four times as long, use ten times the tokens; a quarter of the answers each is cut off and empty, and half of the tools fail.
func startClickHouse(t *testing.T, slow, until time.Time) *clickhouse.Sink {
	t.Helper()
	collectortest.NeedClickHouse(t)
	sink := collectortest.OpenClickHouse(t)
	rnd := rand.New(rand.NewPCG(1, 1))
	value := func(median float64) float64 { return median * math.Exp(0.5*rnd.NormFloat64()) }
	batch := &sinks.Batch{}
	for at := until.Add(-14 * 24 * time.Hour); at.Before(until); at = at.Add(10 * time.Second) {
		x := analyzer.Exchange{
			ID: uuid.NewString(), Labels: event.Labels{Service: "shop", Environment: "prod", Stage: "planner"}, StartedAt: at, StoredAt: at.Add(time.Second),
			Provider: "openai", Model: "gpt-5-mini", Status: 200, Path: "/v1/chat/completions", FinishReason: "stop", Ended: analyzer.EndedNormal,
			Duration: time.Duration(value(2000)) * time.Millisecond, InputTokens: int64(value(3000)), OutputTokens: int64(value(200)), Messages: 1 + int(value(5)),
		}
		tool := analyzer.ToolCall{
			ID: uuid.NewString(), Labels: x.Labels, Name: "search", State: session.Answered, StoredAt: x.StoredAt, AskedAt: x.StartedAt, AnsweredAt: x.StoredAt, AnsweredBy: x.ID,
		}
		if !at.Before(slow) && at.Before(slow.Add(time.Hour)) {
			x.Duration, x.InputTokens = 4*x.Duration, 10*x.InputTokens
			switch ended := rnd.Float64(); {
			case ended < 0.25:
				x.FinishReason, x.Ended = "length", analyzer.EndedLimit
			case ended < 0.5:
				x.Ended = analyzer.EndedEmpty
			}
			if rnd.Float64() < 0.5 {
				tool.ReplyError = toolreply.Likely
			}
		}
		batch.ToolCalls = append(batch.ToolCalls, tool)
		if batch.Exchanges = append(batch.Exchanges, x); len(batch.Exchanges) == 10_000 {
			must.Do(t, sink.Write(t.Context(), batch))
			batch.Exchanges, batch.ToolCalls = nil, nil
		}
	}
	must.Do(t, sink.Write(t.Context(), batch))
	return sink
}

// What is usual is learned from the stored calls before the time of the backtest.
func TestUsual(t *testing.T) {
	slowtest.Skip(t)
	until := time.Now().UTC().Truncate(time.Hour)
	slow := until.Add(-2 * time.Hour)
	store := startClickHouse(t, slow, until)
	run := func(from, until time.Time) (*Report, string) {
		t.Helper()
		cfg := engine.Default()
		cfg.EvaluationInterval = 10 * time.Second
		r := must.Get(New(cfg, from, until, &terminal.Style{}))(t)
		must.Do(t, r.Run(t.Context(), cfg, price.Default(), store, io.Discard))
		var b strings.Builder
		must.Do(t, r.Write(&b, command.Text))
		return r, b.String()
	}
	r, text := run(slow.Add(-30*time.Minute), until)
	var fired []string
	for _, a := range r.Alerts {
		fired = append(fired, a.Alert)
		limit := 10 * time.Minute
		if a.Labels["measure"] == "spend" {
			limit = 65 * time.Minute // an hour of more money is a burst
		}
		if d := a.StartsAt.Sub(slow); d < 0 || d > limit || a.Labels["stage"] != "planner" || a.Seconds < 3000 {
			t.Errorf("%s after %v, for %v s", a.Alert, d, a.Seconds)
		}
	}
	slices.Sort(fired)
	must.Equal(t, strings.Join(fired, " "), "AnswersEmpty AnswersTruncated CostUnusual CostUnusual LatencyUnusual TokensUnusual ToolErrors", "alerts")
	must.Contain(t, text, "what is usual was learned from the 13 d 21 h before\n")

	r, _ = run(slow.Add(-26*time.Hour), slow.Add(-22*time.Hour))
	must.Equal(t, len(r.Alerts), 0, "alerts of quiet hours")
}
