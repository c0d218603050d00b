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
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Cost are expressions of a call for a clause WITH: its tokens input, cached, written, hour and output, and cost, what they cost in
// microdollars; 0 if that is unknown, as of the calls of an older release, which did not store the tokens written to a cache, to a model
// that has a price for these. They need the parameters begun and until, between which the calls began, and prices. The price of a
// model is looked up once, not for each call.
var Cost = queries.Expand(`(SELECT (groupArray(name), groupArray(place)) FROM (
			WITH {price}
			SELECT concat(provider, '\n', model) AS name, toUInt64(known) AS place FROM (SELECT DISTINCT provider, model FROM exchanges
				WHERE started_at >= {begun:DateTime64(9, 'UTC')} AND started_at < {until:DateTime64(9, 'UTC')})
			UNION ALL SELECT '', 0)) AS models,
		{prices},
		transform(concat(provider, '\n', model), models.1, models.2, toUInt64(0)) AS known, prices[known] AS price,
		ifNull(input_tokens, 0) AS input, ifNull(cached_tokens, 0) AS cached, ifNull(cache_written_tokens, 0) AS written, ifNull(cache_hour_tokens, 0) AS hour,
		ifNull(output_tokens, 0) AS output, input > 0 OR output > 0 AS used,
		if(used AND known > 0 AND (ended != '' OR price.6 = price.3), toInt64(1e6 * {dollars} + 0.5), 0) AS cost`)

// Values are expressions of a call, for a clause WITH before Columns: what is measured of it, and whether it is. They need the parameters
// of Cost.
var Values = Cost + `,
		toInt64(duration * 1000 + 1e-6) AS ms, if(stream, toInt64(first_byte * 1000 + 1e-6), 0) AS ttft,
		retry = 0 AND status BETWEEN 200 AND 299 AND NOT failed AND error_type = ''
			AND NOT match(path, '/batches$|batchPredictionJobs$|:batchGenerateContent$|/batch/jobs$') AS measured`

const (
	measureKeys = 1024 // keys of a measure in the column measures: its buckets
	sumKey      = 512  // and the sum of its values
	unpriced    = 6 * measureKeys
)

// Columns are the columns of calls that Measures reads. All measures are in one map, because an aggregation has a state for each column
// and group.
var Columns = func() string {
	var keys, values []string
	for i, v := range []string{"ms", "ttft", "input", "output", "messages", "cost"} {
		bucket := fmt.Sprintf("if(%s <= 1, 0, ceil(%d * log2(%[1]s)))", v, dist.PerOctave)
		keys = append(keys, fmt.Sprintf("toUInt16(%d + %s), toUInt16(%d)", i*measureKeys, bucket, i*measureKeys+sumKey))
		values = append(values, fmt.Sprintf("toUInt64(%s > 0), toUInt64(greatest(%[1]s, 0))", v))
	}
	keys, values = append(keys, fmt.Sprintf("toUInt16(%d)", unpriced)), append(values, "toUInt64(used AND known = 0)")
	return `countIf(cache_reusable_tokens IS NOT NULL AND measured) AS cache_known, countIf(cache_break NOT IN (` + Unavoidable + `) AND measured) AS cache_broken,
		sumMapIf([if(ended = '', concat('` + older + `', finish_reason), ended)], [toUInt64(1)], measured) AS ends, ends.1 AS reasons, toString(ends.2) AS reason_counts,
		toString(sumMapIf([` + strings.Join(keys, ", ") + `], [` + strings.Join(values, ", ") + `], measured)) AS measures`
}()

// Unavoidable are the values of cache_break that no change of the agent avoids, as in promptcache.Avoidable.
const Unavoidable = "'', 'history_compacted', 'too_short', 'idle', 'parallel', 'evicted', 'version_changed'"

// older begins the finish reason of a call of which is not stored how it ended: that of an older release, or without a readable answer.
const older = "?"

// Measures returns what Columns say of the calls of a row: how answers ended, also 0 for the ways that are known, and their measures.
func Measures(r rows.Row) (odd map[string]uint64, m *analyzer.Measured, err error) {
	odd, m = map[string]uint64{analyzer.EndedLimit: 0, analyzer.EndedFiltered: 0, analyzer.EndedEmpty: 0, analyzer.EndedRefused: 0}, &analyzer.Measured{}
	var counts []uint64
	if err := json.Unmarshal([]byte(r.Text("reason_counts")), &counts); err != nil {
		return nil, nil, fmt.Errorf("read how answers ended: %w", err)
	}
	all := true
	for i, ended := range r.Texts("reasons") {
		if reason, ok := strings.CutPrefix(ended, older); ok {
			all = false
			switch {
			case wire.AtTokenLimit(reason):
				odd[analyzer.EndedLimit] += counts[i]
			case wire.Filtered(reason):
				odd[analyzer.EndedFiltered] += counts[i]
			}
		} else if ended != analyzer.EndedNormal {
			odd[ended] += counts[i]
		}
	}
	if !all {
		delete(odd, analyzer.EndedEmpty)
		delete(odd, analyzer.EndedRefused)
	}
	var columns [2][]uint64 // keys and values, as in ([3,4],[1,20])
	if err := json.Unmarshal([]byte(brackets.Replace(r.Text("measures"))), &columns); err != nil {
		return nil, nil, fmt.Errorf("read measures: %w", err)
	}
	dists := [...]*dist.Dist{&m.Duration, &m.FirstToken, &m.InputTokens, &m.OutputTokens, &m.History, &m.Cost}
	for i, key := range columns[0] {
		if key == unpriced {
			m.Unpriced = columns[1][i]
		} else if d, bucket := dists[key/measureKeys], int(key%measureKeys); bucket == sumKey {
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
	FROM exchanges FINAL
	WHERE started_at >= {from:DateTime64(9, 'UTC')} AND started_at < {until:DateTime64(9, 'UTC')}
		AND (empty({services:Array(String)}) OR hex(exchanges.service) IN {services:Array(String)})
		AND retry = 0 AND (failed OR error_type != 'cancelled')
	GROUP BY service, environment, stage, at`

// anyStatement spares the others. In a new database nearly all of the 112 parts of four weeks are empty; to find that with the others took
// 8 s of CPU.
const anyStatement = "SELECT 1 FROM exchanges WHERE started_at >= {from:DateTime64(9, 'UTC')} AND started_at < {until:DateTime64(9, 'UTC')} LIMIT 1"

// Answered selects the replies of tools that tallies count.
const Answered = `state IN ('answered', 'late', 'duplicate') AND asked_at >= {begun:DateTime64(9, 'UTC')} AND asked_at < {until:DateTime64(9, 'UTC')}`

// repliesStatement counts the replies of tools in ten minutes of each stage.
const repliesStatement = `SELECT toString(service) AS service, toString(environment) AS environment, toString(stage) AS stage,
		intDiv(toUnixTimestamp(assumeNotNull(answered_at)), 600) * 600 AS at, count() AS replies, countIf(reply_error != '') AS errors
	FROM tool_calls FINAL
	WHERE answered_at >= {from:DateTime64(9, 'UTC')} AND answered_at < {until:DateTime64(9, 'UTC')} AND ` + Answered + `
		AND (empty({services:Array(String)}) OR hex(tool_calls.service) IN {services:Array(String)})
	GROUP BY service, environment, stage, at`

// maxWait is the time from a call of a tool to its reply beyond which the reply is left out.
const maxWait = 24 * time.Hour

// OneThread are settings for Read so that other queries do not wait.
const OneThread = " SETTINGS max_threads = 1"

// Read reads what engine.History asks for. Settings are a clause of the statement, or empty.
func Read(ctx context.Context, q rows.Querier, settings string, prices price.Table, services []string, from, until time.Time) (list []engine.Past, err error) {
	names := make([]string, len(services)) // in hex, because parameters cannot hold every text
	for i, s := range services {
		names[i] = fmt.Sprintf("%X", s)
	}
	params := map[string]string{
		"from": rows.TimeParam(from), "until": rows.TimeParam(until), "begun": rows.TimeParam(from.Add(-maxWait)), "services": rows.TextsParam(names), "prices": prices.Bound(),
	}
	if some, err := rows.Read(ctx, q, "the calls of the last weeks", anyStatement, params); err != nil || len(some) == 0 {
		return nil, err
	}
	found, err := rows.Read(ctx, q, "the calls of the last weeks", statement+settings, params)
	if err != nil {
		return nil, err
	}
	replied, err := rows.Read(ctx, q, "the replies of tools in the last weeks", repliesStatement+settings, params)
	if err != nil {
		return nil, err
	}
	type key struct {
		service, environment, stage string
		at                          int64
	}
	keyOf := func(r rows.Row) key {
		return key{r.Text("service"), r.Text("environment"), r.Text("stage"), r.Int64("at")}
	}
	replies := map[key]engine.PastShare{}
	for _, r := range replied {
		replies[keyOf(r)] = engine.PastShare{N: uint64(r.Int64("errors")), Of: uint64(r.Int64("replies"))}
	}
	for _, r := range found {
		odd, m, err := Measures(r)
		if err != nil {
			return nil, err
		}
		k, calls := keyOf(r), uint64(r.Int64("calls"))
		shares := map[string]engine.PastShare{}
		for ended, n := range odd {
			shares[analyzer.OddID(ended)] = engine.PastShare{N: n, Of: calls}
		}
		if _, ok := odd[analyzer.EndedEmpty]; ok { // stored by a release that also stores the errors of tools
			shares[analyzer.ToolError] = replies[k]
		}
		if r.Int64("cache_known") > 0 {
			shares["cache"] = engine.PastShare{N: uint64(r.Int64("cache_broken")), Of: calls}
		}
		list = append(list, engine.Past{
			Service: k.service, Environment: k.environment, Stage: k.stage, At: time.Unix(k.at, 0).UTC(), Calls: calls, Shares: shares, Measured: *m,
		})
	}
	return list, nil
}
