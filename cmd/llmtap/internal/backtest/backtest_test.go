package backtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/dist"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A store has fixed results by statement.
type store map[string]*clickhouse.Result

func (s store) Query(_ context.Context, sql string, params map[string]string) (*clickhouse.Result, error) {
	res := s[sql]
	if now := "2026-11-20 09:10:00"; res == nil || sql == callsSQL && (params["from"] > now || params["to"] < now) {
		return &clickhouse.Result{}, nil
	}
	return res, nil
}

func result(columns string, rows ...[]any) *clickhouse.Result {
	res := &clickhouse.Result{Rows: rows}
	for name := range strings.FieldsSeq(columns) {
		res.Columns = append(res.Columns, clickhouse.Column{Name: name})
	}
	return res
}

var (
	from   = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	at     = from.Add(10 * time.Minute)
	stored = store{
		callsSQL: result("second service stage kind code why root n example reasons reason_counts measures",
			[]any{uint32(at.Unix()), "shop", "planner", "call", uint16(0), "", "", uint64(3), []string{"x0", "c0", ""}, []string{"limit", "normal"}, "[1,2]", "([0,40,512,2080],[0,3,3000,1])"},
			[]any{uint32(at.Unix()), "shop", "planner", "failed", uint16(400), "auth", "", uint64(2), []string{"x1", "c1", "no key"}, []string{}, "[]", "([],[])"}),
		defectsSQL:  result("service stage why root version at", []any{"shop", "planner", "cache_broken", "system_changed", "1.1", at}),
		failuresSQL: result("service stage why root version at", []any{"shop", "planner", "auth", "", "1.1", at}),
		versionsSQL: result("service stage version at", []any{"shop", "planner", "1.1", at}, []any{"shop", "planner", "1.0", from}),
	}
)

func TestReadTallies(t *testing.T) {
	var got []*analyzer.Tally
	for tally, err := range readTallies(t.Context(), stored, price.Default(), from, from.Add(2*time.Hour)) {
		must.Do(t, err)
		got = append(got, tally)
	}
	calls := map[string]string{"service": "shop", "stage": "planner"}
	failed := map[string]string{"service": "shop", "stage": "planner", "cause": "auth", "status": "400"}
	want := []*analyzer.Tally{
		{
			Second: at.Unix(),
			Counts: []analyzer.Count{
				{Metric: analyzer.MetricCalls, Labels: calls, N: 3, Measured: &analyzer.Measured{
					Duration: dist.Dist{Sum: 3000, N: 3, Buckets: []dist.Count{{Bucket: 40, N: 3}}}, InputTokens: dist.Dist{N: 1, Buckets: []dist.Count{{Bucket: 32, N: 1}}},
				}},
				{Metric: analyzer.MetricOdd, Labels: map[string]string{"service": "shop", "stage": "planner", "ended": "limit"}, N: 1},
				{Metric: analyzer.MetricCalls, Labels: calls, N: 2},
				{Metric: analyzer.MetricFailed, Labels: failed, N: 2},
				{Metric: analyzer.MetricNew, Labels: failed, N: 1},
			},
			Examples: []analyzer.Example{{
				Labels: failed, Exchange: "x1", Conversation: "c1", Status: 400, ErrorText: "no key", Message: -1, PublishedAt: at.UnixNano(),
				FirstVersion: "1.1", FirstAt: at.UnixNano(), LastClean: "1.0",
			}},
		},
		{Second: from.Add(2*time.Hour).Unix() - 1},
	}
	must.Agree(t, cmp.Diff(want, got, cmpopts.EquateEmpty()))
}

// A call that missed the prompt cache is counted, with an example if the agent could have avoided that.
func TestReadCache(t *testing.T) {
	known := must.Get(readKnown(t.Context(), stored))(t)
	columns := "service stage n example missed_for reusable missed loss cache_at cache_what cache_reusable cache_missed cache_input"
	of := func(reason string) *analyzer.Tally {
		out := &analyzer.Tally{Second: at.Unix()}
		row := []any{"shop", "planner", uint64(3), []string{"x0", "c0", ""}, reason, int64(9000), int64(6000), int64(1500), "system", "time", int64(3000), int64(2000), int64(4000)}
		addCache(out, rows.Of(result(columns, row))[0], known)
		return out
	}
	calls := map[string]string{"service": "shop", "stage": "planner"}
	missed := map[string]string{"service": "shop", "stage": "planner", "reason": "system_changed"}
	must.Agree(t, cmp.Diff(&analyzer.Tally{
		Second: at.Unix(),
		Counts: []analyzer.Count{
			{Metric: analyzer.MetricCacheReusable, Labels: calls, N: 9000},
			{Metric: analyzer.MetricCacheMissed, Labels: missed, N: 6000},
			{Metric: analyzer.MetricCacheLoss, Labels: missed, N: 1500},
			{Metric: analyzer.MetricCacheBroken, Labels: missed, N: 3},
		},
		Examples: []analyzer.Example{{
			Labels: missed, Finding: true, Exchange: "x0", Conversation: "c0", Status: 200, Message: -1, PublishedAt: at.UnixNano(), FirstVersion: "1.1", FirstAt: at.UnixNano(), LastClean: "1.0",
			Summary:  "the system prompt changed: it contains the time",
			Evidence: "2,000 of 3,000 reusable tokens were not read from the cache, in a call with 4,000 input tokens; the first difference is in system",
			Fix:      "Put what changes, such as the time, into the newest message, and keep the system prompt of a conversation as it is.",
		}},
	}, of("system_changed")))
	must.Equal(t, len(of("idle").Counts), 3, "counts of a call after a pause")
	must.Equal(t, len(of("idle").Examples), 0, "examples of a call after a pause")
}

func TestReport(t *testing.T) {
	cfg := engine.Default()
	cfg.EvaluationInterval = 10 * time.Second
	r := must.Get(New(cfg, from, from.Add(time.Hour), &terminal.Style{}))(t)
	must.Do(t, r.Run(t.Context(), cfg, price.Default(), stored, nil))
	var b strings.Builder
	must.Do(t, r.Write(&b, command.Text))
	for _, want := range []string{
		"0 alerts between 2026-11-20 09:00:00 UTC and 2026-11-20 10:00:00 UTC; 5 calls, 2 failed\n", "\nnever fired: AgentLoop, AnswersEmpty, AnswersTruncated, BadRequestBurst, ",
		"not tested: CostBudget: what was spent in the month before is not read\n",
		"not tested: EventsLost: llmtap_lost_events_total is not stored\n",
	} {
		must.Contain(t, b.String(), want)
	}
}
