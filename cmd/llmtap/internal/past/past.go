// Package past reads what stored calls say of their stages, for what is usual of them.
package past

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/dist"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Values are expressions of a call, for a clause WITH before Columns: what is measured of it, and whether it is.
const Values = `toInt64(duration * 1000 + 1e-6) AS ms, if(stream, toInt64(first_byte * 1000 + 1e-6), 0) AS ttft, ifNull(input_tokens, 0) AS input, ifNull(output_tokens, 0) AS output,
		retry = 0 AND status BETWEEN 200 AND 299 AND NOT failed AND error_type = ''
			AND NOT match(path, '/batches$|batchPredictionJobs$|:batchGenerateContent$|/batch/jobs$') AS measured`

const (
	measureKeys = 1024 // keys of a measure in the column measures: its buckets
	sumKey      = 512  // and the sum of its values
)

// Columns are the columns of calls that Measures reads. All measures are in one map, because an aggregation has a state for each column
// and group.
var Columns = func() string {
	var keys, values []string
	for i, v := range []string{"ms", "ttft", "input", "output", "messages"} {
		bucket := fmt.Sprintf("if(%s <= 1, 0, ceil(%d * log2(%[1]s)))", v, dist.PerOctave)
		keys = append(keys, fmt.Sprintf("toUInt16(%d + %s), toUInt16(%d)", i*measureKeys, bucket, i*measureKeys+sumKey))
		values = append(values, fmt.Sprintf("toUInt64(%s > 0), toUInt64(greatest(%[1]s, 0))", v))
	}
	return `countIf(cache_reusable_tokens IS NOT NULL AND measured) AS cache_known, countIf(cache_break NOT IN (` + unavoidable + `) AND measured) AS cache_broken,
		sumMapIf([toString(finish_reason)], [toUInt64(1)], measured) AS ended, ended.1 AS reasons, toString(ended.2) AS reason_counts,
		toString(sumMapIf([` + strings.Join(keys, ", ") + `], [` + strings.Join(values, ", ") + `], measured)) AS measures`
}()

// unavoidable are the values of cache_break that no change of the agent avoids, as in promptcache.Avoidable.
const unavoidable = "'', 'history_compacted', 'too_short', 'idle', 'parallel', 'evicted'"

// Measures returns what Columns say of the calls of a row: how answers ended, as far as that is stored, and their measures but the cost.
func Measures(r rows.Row) (odd map[string]uint64, m *analyzer.Measured, err error) {
	odd, m = map[string]uint64{analyzer.EndedLimit: 0, analyzer.EndedFiltered: 0}, &analyzer.Measured{}
	var counts []uint64
	if err := json.Unmarshal([]byte(r.Text("reason_counts")), &counts); err != nil {
		return nil, nil, fmt.Errorf("read how answers ended: %w", err)
	}
	for i, reason := range r.Texts("reasons") {
		switch {
		case wire.AtTokenLimit(reason):
			odd[analyzer.EndedLimit] += counts[i]
		case wire.Filtered(reason):
			odd[analyzer.EndedFiltered] += counts[i]
		}
	}
	var columns [2][]uint64 // keys and values, as in ([3,4],[1,20])
	if err := json.Unmarshal([]byte(brackets.Replace(r.Text("measures"))), &columns); err != nil {
		return nil, nil, fmt.Errorf("read measures: %w", err)
	}
	dists := [...]*dist.Dist{&m.Duration, &m.FirstToken, &m.InputTokens, &m.OutputTokens, &m.History}
	for i, key := range columns[0] {
		if d, bucket := dists[key/measureKeys], int(key%measureKeys); bucket == sumKey {
			d.Sum += columns[1][i]
		} else {
			d.AddBucket(bucket, columns[1][i])
		}
	}
	return odd, m, nil
}

var brackets = strings.NewReplacer("(", "[", ")", "]")

// statement counts the calls of ten minutes of each stage as tallies do.
var statement = `WITH ` + Values + `
	SELECT toString(service) AS service, toString(environment) AS environment, toString(stage) AS stage, intDiv(toUnixTimestamp(started_at), 600) * 600 AS at,
		count() AS calls, ` + Columns + `
	FROM exchanges_final
	WHERE started_at >= {from:DateTime64(9, 'UTC')} AND started_at < {until:DateTime64(9, 'UTC')}
		AND (empty({services:Array(String)}) OR hex(exchanges_final.service) IN {services:Array(String)})
		AND retry = 0 AND (failed OR error_type != 'cancelled')
	GROUP BY service, environment, stage, at`

// OneThread are settings for Read so that other queries do not wait.
const OneThread = " SETTINGS max_threads = 1"

// Read reads what engine.History asks for. Settings are a clause of the statement, or empty.
func Read(ctx context.Context, q rows.Querier, settings string, services []string, from, until time.Time) (list []engine.Past, err error) {
	names := make([]string, len(services)) // in hex, because parameters cannot hold every text
	for i, s := range services {
		names[i] = fmt.Sprintf("%X", s)
	}
	found, err := rows.Read(ctx, q, "the calls of the last weeks", statement+settings, map[string]string{
		"from": rows.TimeParam(from), "until": rows.TimeParam(until), "services": rows.TextsParam(names),
	})
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		odd, m, err := Measures(r)
		if err != nil {
			return nil, err
		}
		list = append(list, engine.Past{
			Service: r.Text("service"), Environment: r.Text("environment"), Stage: r.Text("stage"), At: time.Unix(r.Int64("at"), 0).UTC(),
			Calls: uint64(r.Int64("calls")), Odd: odd, Measured: *m,
			CacheKnown: r.Int64("cache_known") > 0, CacheBroken: uint64(r.Int64("cache_broken")),
		})
	}
	return list, nil
}
