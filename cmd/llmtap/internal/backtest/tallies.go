// Package backtest makes of stored rows what alert rules are evaluated over: the tallies that were counted when the rows
// were new.
package backtest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

const (
	firstChunk = time.Hour // of stream time that is read at once; it grows and shrinks with the number of rows
	maxChunk   = 24 * time.Hour
	fewRows    = 10_000 // of a chunk, after which the next is larger
	longCall   = 24 * time.Hour
	clockSkew  = time.Hour // of an agent
)

// Calls of a second by their labels. A failed one of each kind stands for the others.
const callsSQL = `
SELECT toUnixTimestamp(stored_at) AS second, service, service_version, environment, agent, stage, provider, model,
    multiIf(retry > 0, 'retry', NOT failed AND error_type = {cancelled:String}, 'cancelled', failed, 'failed', 'call') AS kind,
    if(kind = 'failed', status, 0) AS code, if(kind = 'failed', cause, '') AS why, if(kind = 'failed', root_cause, '') AS root,
    count() AS n, argMax([exchange_id, conversation_id, substringUTF8(error_text, 1, 512)], (stored_at, exchange_id)) AS example
FROM exchanges_final
WHERE stored_at >= {from:DateTime64(9, 'UTC')} AND stored_at < {to:DateTime64(9, 'UTC')} AND origin != {import:String}
    AND started_at >= {begun:DateTime64(9, 'UTC')} AND started_at < {ended:DateTime64(9, 'UTC')}
GROUP BY second, service, service_version, environment, agent, stage, provider, model, kind, code, why, root
ORDER BY second, service, service_version, environment, agent, stage, provider, model, kind, code, why, root`

// A finding was counted when its call ended, a signal when it was known.
const findingsSQL = `
WITH
    found AS
    (
        SELECT * FROM findings_final
        WHERE first_seen >= {begun:DateTime64(9, 'UTC')} AND first_seen < {ended:DateTime64(9, 'UTC')}
    ),
    calls AS
    (
        SELECT exchange_id, stored_at, origin FROM exchanges_final
        WHERE started_at >= {begun:DateTime64(9, 'UTC')} AND started_at < {ended:DateTime64(9, 'UTC')}
            AND exchange_id IN (SELECT exchange_id FROM found)
    )
SELECT toUnixTimestamp(greatest(f.first_seen, e.stored_at)) AS second, f.service AS service, f.service_version AS service_version,
    f.environment AS environment, f.agent AS agent, f.stage AS stage, f.provider AS provider, f.model AS model,
    f.rule_id AS rule, f.severity AS level, f.root_cause AS root, count() AS n
FROM found AS f LEFT JOIN calls AS e ON e.exchange_id = f.exchange_id
WHERE greatest(f.first_seen, e.stored_at) >= {from:DateTime64(9, 'UTC')} AND greatest(f.first_seen, e.stored_at) < {to:DateTime64(9, 'UTC')}
    AND e.origin != {import:String}
GROUP BY second, service, service_version, environment, agent, stage, provider, model, rule, level, root
ORDER BY second, service, service_version, environment, agent, stage, provider, model, rule, level, root`

// A Store answers statements, as clickhouse.Sink does.
type Store interface {
	Query(ctx context.Context, sql string, params map[string]string) (*clickhouse.Result, error)
}

// NotStored are the metrics of tallies of which ClickHouse has no rows.
var NotStored = []string{analyzer.MetricLost, analyzer.MetricDropped}

// Tallies are the counts of the calls that ended in [from, to) and of what was found then, in order of time and without the
// seconds that have none, but for the last. It reads a part of the time at once, so that memory is bounded. It ends with
// the first error.
func Tallies(ctx context.Context, s Store, from, to time.Time) iter.Seq2[*analyzer.Tally, error] {
	return func(yield func(*analyzer.Tally, error) bool) {
		known, err := readKnown(ctx, s)
		if err != nil {
			yield(nil, err)
			return
		}
		for at, size := from.Truncate(time.Second), firstChunk; at.Before(to); {
			end := at.Add(size)
			if end.After(to) {
				end = to
			}
			tallies, rows, err := readChunk(ctx, s, known, at, end)
			switch {
			case err != nil:
				yield(nil, err)
				return
			case tallies == nil && end.Sub(at) <= time.Second:
				yield(nil, fmt.Errorf("the second %s has more than %d kinds of calls", at.Format(time.DateTime), rows))
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
			if at = end; rows < fewRows {
				size = min(2*size, maxChunk)
			}
		}
		yield(&analyzer.Tally{Second: to.Unix() - 1}, nil)
	}
}

// readChunk returns the tallies of [from, to), nil if they have too many rows.
func readChunk(ctx context.Context, s Store, known *known, from, to time.Time) ([]*analyzer.Tally, int, error) {
	text := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000000000") }
	params := map[string]string{
		"from": text(from), "to": text(to), "begun": text(from.Add(-longCall)), "ended": text(to.Add(clockSkew)),
		"cancelled": analyzer.ErrorCancelled, "import": originImport,
	}
	calls, err := s.Query(ctx, callsSQL, params)
	if err != nil {
		return nil, 0, fmt.Errorf("read calls: %w", err)
	}
	if calls.Truncated {
		return nil, len(calls.Rows), nil
	}
	findings, err := s.Query(ctx, findingsSQL, params)
	if err != nil {
		return nil, 0, fmt.Errorf("read findings: %w", err)
	}
	if findings.Truncated {
		return nil, len(findings.Rows), nil
	}
	tallies := []*analyzer.Tally{}
	bySecond := map[int64]*analyzer.Tally{}
	tally := func(second int64) *analyzer.Tally {
		t := bySecond[second]
		if t == nil {
			t = &analyzer.Tally{Second: second}
			bySecond[second] = t
			tallies = append(tallies, t)
		}
		return t
	}
	for _, values := range calls.Rows {
		r := row{res: calls, values: values}
		t := tally(r.int("second"))
		addCall(t, &r, known)
		if r.err != nil {
			return nil, 0, r.err
		}
	}
	for _, values := range findings.Rows {
		r := row{res: findings, values: values}
		t := tally(r.int("second"))
		kv := r.labels()
		set(kv, "rule", r.text("rule"), "severity", r.text("level"), "root_cause", r.text("root"))
		t.Counts = append(t.Counts, analyzer.Count{Metric: analyzer.MetricFindings, Labels: kv, N: uint64(r.int("n"))})
		if r.err != nil {
			return nil, 0, r.err
		}
	}
	slices.SortFunc(tallies, func(a, b *analyzer.Tally) int { return int(a.Second - b.Second) })
	return tallies, max(len(calls.Rows), len(findings.Rows)), nil
}

// addCall counts a row of callsSQL as the analyzer counted its calls.
func addCall(t *analyzer.Tally, r *row, known *known) {
	kv, n := r.labels(), uint64(r.int("n"))
	count := func(metric string, kv map[string]string, n uint64) {
		t.Counts = append(t.Counts, analyzer.Count{Metric: metric, Labels: kv, N: n})
	}
	switch r.text("kind") {
	case "retry":
		count(analyzer.MetricRetries, kv, n)
		return
	case "cancelled":
		count(analyzer.MetricCancelled, kv, n)
		return
	case "call":
		count(analyzer.MetricCalls, kv, n)
		return
	}
	count(analyzer.MetricCalls, kv, n)
	failed := r.labels()
	set(failed, "status", strconv.FormatInt(r.int("code"), 10), "cause", r.text("why"), "root_cause", r.text("root"))
	count(analyzer.MetricFailed, failed, n)
	x := analyzer.Example{Labels: failed, Status: int(r.int("code")), Message: -1, PublishedAt: t.Second * int64(time.Second)}
	if parts := r.list("example"); len(parts) == 3 {
		x.Exchange, x.Conversation, x.ErrorText = parts[0], parts[1], parts[2]
	}
	if first := known.failure(failed); first != nil {
		x.FirstVersion, x.FirstAt, x.LastClean = first.version, first.at.UnixNano(), known.lastClean(failed, first)
		if !first.counted && first.at.Unix() == t.Second {
			first.counted = true
			count(analyzer.MetricNew, failed, 1)
		}
	}
	t.Examples = append(t.Examples, x)
}
