/*
Package backtest replays alert rules over stored rows.

	calls, findings in ClickHouse ─> readTallies: as the analyzer counted them ─> engine.Backtest ─> addExample ─> Report
	calls of the weeks before ─────> past.Read: what is usual of each stage ──────┘
*/
package backtest

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/past"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const (
	firstChunk = time.Hour // stream time of the first query; later ones adapt to the number of rows
	maxChunk   = 24 * time.Hour
	fewRows    = 10_000         // a chunk with fewer rows is followed by a larger one
	maxCall    = 24 * time.Hour // maximum duration of a call
	clockSkew  = time.Hour      // maximum clock skew of agents
)

const originImport = event.OriginImport

// callsSQL counts the calls of each second by labels, with an example of a failed call, and measures them.
var callsSQL = `
WITH ` + past.Values + `
SELECT toUnixTimestamp(stored_at) AS second, service, service_version, environment, agent, stage, provider, model,
    multiIf(retry > 0, 'retry', NOT failed AND error_type = {cancelled:String}, 'cancelled', failed, 'failed', 'call') AS kind,
    if(kind = 'failed', status, 0) AS code, if(kind = 'failed', cause, '') AS why, if(kind = 'failed', root_cause, '') AS root,
    count() AS n, argMax([exchange_id, conversation_id, substringUTF8(error_text, 1, 512)], (stored_at, exchange_id)) AS example,
    if(kind = 'call' AND measured, cache_break, '') AS missed_for,
    sumIf(ifNull(cache_reusable_tokens, 0), measured) AS reusable, sumIf(ifNull(cache_missed_tokens, 0), measured) AS missed,
    sumIf(toUInt64(greatest(ifNull(cache_missed_tokens, 0) * (price.3 - price.4), 0) + 0.5), measured) AS loss,
    argMax((cache_element, cache_detail, ifNull(cache_reusable_tokens, 0), ifNull(cache_missed_tokens, 0), input), (stored_at, exchange_id)) AS cache,
    cache.1 AS cache_at, cache.2 AS cache_what, cache.3 AS cache_reusable, cache.4 AS cache_missed, cache.5 AS cache_input,
    ` + past.Columns + `
FROM exchanges FINAL
WHERE stored_at >= {from:DateTime64(9, 'UTC')} AND stored_at < {to:DateTime64(9, 'UTC')} AND origin != {import:String}
    AND started_at >= {begun:DateTime64(9, 'UTC')} AND started_at < {ended:DateTime64(9, 'UTC')}
GROUP BY second, service, service_version, environment, agent, stage, provider, model, kind, code, why, root, missed_for
ORDER BY second, service, service_version, environment, agent, stage, provider, model, kind, code, why, root, missed_for`

// findingsSQL counts findings at the end of their call, and signals at the time of detection, with an example. A signal about
// a failed call has its cause and root cause.
const findingsSQL = `
WITH
    found AS
    (
        SELECT * FROM findings FINAL
        WHERE first_seen >= {begun:DateTime64(9, 'UTC')} AND first_seen < {ended:DateTime64(9, 'UTC')}
    ),
    calls AS
    (
        SELECT exchange_id, stored_at, origin, cause, root_cause, error_text FROM exchanges FINAL
        WHERE started_at >= {begun:DateTime64(9, 'UTC')} AND started_at < {ended:DateTime64(9, 'UTC')}
            AND exchange_id IN (SELECT exchange_id FROM found)
    )
SELECT toUnixTimestamp(greatest(f.first_seen, e.stored_at)) AS second, f.service AS service, f.service_version AS service_version,
    f.environment AS environment, f.agent AS agent, f.stage AS stage, f.provider AS provider, f.model AS model,
    f.rule_id AS rule, f.severity AS level, has({of_failures:Array(String)}, rule) AS of_failure,
    multiIf(of_failure, e.cause, rule = {latent:String}, f.detail, '') AS why, if(of_failure, e.root_cause, f.root_cause) AS root, count() AS n,
    argMax([f.exchange_id, f.conversation_id, f.tool_call_id, f.tool_name, f.summary, f.evidence, f.fix, substringUTF8(e.error_text, 1, 512)],
        (f.first_seen, f.finding_id)) AS example,
    argMax(f.status, (f.first_seen, f.finding_id)) AS code, argMax(f.message_index, (f.first_seen, f.finding_id)) AS message
FROM found AS f LEFT JOIN calls AS e ON e.exchange_id = f.exchange_id
WHERE greatest(f.first_seen, e.stored_at) >= {from:DateTime64(9, 'UTC')} AND greatest(f.first_seen, e.stored_at) < {to:DateTime64(9, 'UTC')}
    AND e.origin != {import:String}
GROUP BY second, service, service_version, environment, agent, stage, provider, model, rule, level, why, root
ORDER BY second, service, service_version, environment, agent, stage, provider, model, rule, level, why, root`

// repliesSQL counts the replies of tools, with an example of one that reports an error.
const repliesSQL = `
SELECT toUnixTimestamp(assumeNotNull(answered_at)) AS second, service, service_version, environment, agent, stage, '' AS provider, '' AS model, tool_name,
    reply_error, count() AS n, argMax([answered_by, conversation_id, tool_call_id], (answered_at, id)) AS example
FROM tool_calls FINAL
WHERE answered_at >= {from:DateTime64(9, 'UTC')} AND answered_at < {to:DateTime64(9, 'UTC')} AND ` + past.Answered + `
GROUP BY second, service, service_version, environment, agent, stage, tool_name, reply_error
ORDER BY second, service, service_version, environment, agent, stage, tool_name, reply_error`

// notStored lists the tally metrics that have no rows in ClickHouse.
var notStored = []string{analyzer.MetricLost, analyzer.MetricDropped, analyzer.MetricUncaptured, analyzer.MetricRepeated}

// readTallies returns the counts of the calls and findings in [from, to) in chronological order, without empty seconds
// except the last one. It reads in chunks of time to bound memory, and stops at the first error.
func readTallies(ctx context.Context, q rows.Querier, prices price.Table, from, to time.Time) iter.Seq2[*analyzer.Tally, error] {
	return func(yield func(*analyzer.Tally, error) bool) {
		known, err := readKnown(ctx, q)
		if err != nil {
			yield(nil, err)
			return
		}
		for at, size := from.Truncate(time.Second), firstChunk; at.Before(to); {
			end := at.Add(size)
			if end.After(to) {
				end = to
			}
			tallies, n, err := readChunk(ctx, q, known, prices, at, end)
			switch {
			case err != nil:
				yield(nil, err)
				return
			case tallies == nil && end.Sub(at) <= time.Second:
				yield(nil, fmt.Errorf("the second %s has more than %d combinations of labels", at.Format(time.DateTime), n))
				return
			case tallies == nil:
				size = max(end.Sub(at)/4, time.Second).Truncate(time.Second)
				continue
			}
			for _, t := range tallies {
				if !yield(t, nil) {
					return
				}
			}
			if at = end; n < fewRows {
				size = min(2*size, maxChunk)
			}
		}
		yield(&analyzer.Tally{Second: to.Unix() - 1}, nil)
	}
}

// readChunk returns the tallies of [from, to) and the number of rows; the tallies are nil if there are too many rows.
func readChunk(ctx context.Context, q rows.Querier, known *known, prices price.Table, from, to time.Time) ([]*analyzer.Tally, int, error) {
	params := map[string]string{
		"from": rows.TimeParam(from), "to": rows.TimeParam(to), "begun": rows.TimeParam(from.Add(-maxCall)), "ended": rows.TimeParam(to.Add(clockSkew)),
		"cancelled": analyzer.ErrorCancelled, "import": originImport, "latent": signals.LatentViolation,
		"of_failures": rows.TextsParam(signals.OfFailures), "until": rows.TimeParam(to.Add(clockSkew)), "prices": prices.Bound(),
	}
	calls, err := q.Query(ctx, callsSQL, params)
	if err != nil {
		return nil, 0, fmt.Errorf("read calls: %w", err)
	}
	if calls.Truncated {
		return nil, len(calls.Rows), nil
	}
	findings, err := q.Query(ctx, findingsSQL, params)
	if err != nil {
		return nil, 0, fmt.Errorf("read findings: %w", err)
	}
	if findings.Truncated {
		return nil, len(findings.Rows), nil
	}
	replies, err := q.Query(ctx, repliesSQL, params)
	if err != nil {
		return nil, 0, fmt.Errorf("read replies of tools: %w", err)
	}
	if replies.Truncated {
		return nil, len(replies.Rows), nil
	}
	tallies := []*analyzer.Tally{}
	bySecond := map[int64]*analyzer.Tally{}
	tally := func(r rows.Row) *analyzer.Tally {
		second := int64(r.Int("second"))
		t := bySecond[second]
		if t == nil {
			t = &analyzer.Tally{Second: second}
			bySecond[second] = t
			tallies = append(tallies, t)
		}
		return t
	}
	for _, r := range rows.Of(calls) {
		if err := addCall(tally(r), r, known); err != nil {
			return nil, 0, err
		}
	}
	for _, r := range rows.Of(findings) {
		addFinding(tally(r), r, known)
	}
	for _, r := range rows.Of(replies) {
		addReply(tally(r), r)
	}
	slices.SortFunc(tallies, func(a, b *analyzer.Tally) int { return int(a.Second - b.Second) })
	return tallies, max(len(calls.Rows), len(findings.Rows), len(replies.Rows)), nil
}

// addCall adds a row of callsSQL to t in the same way as the analyzer counts calls.
func addCall(t *analyzer.Tally, r rows.Row, known *known) error {
	labels, n := callLabels(r), uint64(r.Int("n"))
	count := func(metric string, labels map[string]string, n uint64) {
		t.Counts = append(t.Counts, analyzer.Count{Metric: metric, Labels: labels, N: n})
	}
	switch r.Text("kind") {
	case "retry":
		count(analyzer.MetricRetries, labels, n)
		return nil
	case "cancelled":
		count(analyzer.MetricCancelled, labels, n)
		return nil
	case "call":
		odd, measured, err := past.Measures(r)
		if err != nil {
			return err
		}
		t.Counts = append(t.Counts, analyzer.Count{Metric: analyzer.MetricCalls, Labels: labels, N: n, Measured: measured})
		for _, ended := range slices.Sorted(maps.Keys(odd)) {
			if odd[ended] > 0 {
				count(analyzer.MetricOdd, callLabels(r, "ended", ended), odd[ended])
			}
		}
		addCache(t, r, known)
		return nil
	}
	count(analyzer.MetricCalls, labels, n)
	failed := callLabels(r, "status", strconv.Itoa(r.Int("code")), "cause", r.Text("why"), "root_cause", r.Text("root"))
	count(analyzer.MetricFailed, failed, n)
	x := analyzer.Example{Labels: failed, Status: r.Int("code"), Message: -1, PublishedAt: t.Second * int64(time.Second)}
	if parts := r.Texts("example"); len(parts) == 3 {
		x.Exchange, x.Conversation, x.ErrorText = parts[0], parts[1], parts[2]
	}
	first := known.failure(failed)
	known.setVersions(&x, first)
	if first != nil && !first.counted && first.at.Unix() == t.Second {
		first.counted = true
		count(analyzer.MetricNew, failed, 1)
	}
	t.Examples = append(t.Examples, x)
	return nil
}

// addCache adds what became of the prompt cache in the calls of a row of callsSQL to t.
func addCache(t *analyzer.Tally, r rows.Row, known *known) {
	count := func(metric string, labels map[string]string, n int64) {
		if n > 0 {
			t.Counts = append(t.Counts, analyzer.Count{Metric: metric, Labels: labels, N: uint64(n)})
		}
	}
	reason := r.Text("missed_for")
	labels := callLabels(r, "reason", reason)
	count(analyzer.MetricCacheReusable, callLabels(r), r.Int64("reusable"))
	count(analyzer.MetricCacheMissed, labels, r.Int64("missed"))
	count(analyzer.MetricCacheLoss, labels, r.Int64("loss"))
	if !promptcache.Avoidable(reason) {
		return
	}
	count(analyzer.MetricCacheBroken, labels, r.Int64("n"))
	v := promptcache.Verdict{
		Reason: reason, Element: r.Text("cache_at"), Detail: r.Text("cache_what"), Reusable: r.Int64("cache_reusable"), Missed: r.Int64("cache_missed"),
	}
	x := analyzer.Example{
		Labels: labels, Finding: true, Status: 200, Message: v.Message(), PublishedAt: t.Second * int64(time.Second),
		Summary: v.Summary(), Evidence: v.Evidence(r.Int64("cache_input")), Fix: v.Fix(),
	}
	if parts := r.Texts("example"); len(parts) == 3 {
		x.Exchange, x.Conversation = parts[0], parts[1]
	}
	known.setVersions(&x, known.finding(callLabels(r, "rule", signals.CacheBroken, "root_cause", reason)))
	t.Examples = append(t.Examples, x)
}

// addFinding adds a row of findingsSQL to t in the same way as the analyzer counts findings.
func addFinding(t *analyzer.Tally, r rows.Row, known *known) {
	labels := callLabels(r, "rule", r.Text("rule"), "severity", r.Text("level"), "cause", r.Text("why"), "root_cause", r.Text("root"))
	t.Counts = append(t.Counts, analyzer.Count{Metric: analyzer.MetricFindings, Labels: labels, N: uint64(r.Int("n"))})
	text := r.Texts("example")
	if len(text) != 8 {
		return
	}
	x := analyzer.Example{
		Labels: labels, Finding: true, Rule: r.Text("rule"), PublishedAt: t.Second * int64(time.Second), Status: r.Int("code"), Message: r.Int("message"),
		Exchange: text[0], Conversation: text[1], ToolCallID: text[2], ToolName: text[3], Summary: text[4], Evidence: text[5], Fix: text[6], ErrorText: text[7],
	}
	known.setVersions(&x, known.finding(labels))
	t.Examples = append(t.Examples, x)
}

// addReply adds a row of repliesSQL to t. Its labels are those of the call, without provider and model.
func addReply(t *analyzer.Tally, r rows.Row) {
	n, tool, certain := uint64(r.Int("n")), r.Text("tool_name"), r.Text("reply_error")
	t.Counts = append(t.Counts, analyzer.Count{Metric: analyzer.MetricToolReplies, Labels: callLabels(r, "tool", tool), N: n})
	if certain == "" {
		return
	}
	labels := callLabels(r, "tool", tool, "confidence", certain)
	t.Counts = append(t.Counts, analyzer.Count{Metric: analyzer.MetricToolErrors, Labels: labels, N: n})
	x := analyzer.Example{Labels: labels, Finding: true, Message: -1, ToolName: tool, PublishedAt: t.Second * int64(time.Second)}
	x.Summary, x.Fix = analyzer.Odd(analyzer.ToolError)
	if parts := r.Texts("example"); len(parts) == 3 {
		x.Exchange, x.Conversation, x.ToolCallID = parts[0], parts[1], parts[2]
	}
	t.Examples = append(t.Examples, x)
}

// callLabels returns the labels common to all counts, plus further, a list of name, value pairs. Empty labels are omitted.
func callLabels(r rows.Row, further ...string) map[string]string {
	for _, name := range []string{"service", "service_version", "environment", "agent", "stage", "provider", "model"} {
		further = append(further, name, r.Text(name))
	}
	labels := make(map[string]string, len(further)/2)
	for i := 0; i < len(further); i += 2 {
		if further[i+1] != "" {
			labels[further[i]] = further[i+1]
		}
	}
	return labels
}
