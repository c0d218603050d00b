package collector

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

// pastTimeout bounds the time in which ClickHouse must read a part of the history.
const pastTimeout = 5 * time.Minute

// pastSQL counts the calls of ten minutes of each stage as tallies do, and their measures in the buckets of package dist. One thread is
// enough, so that others do not wait.
const pastSQL = `SELECT toString(service) AS service, toString(environment) AS environment, toString(stage) AS stage, intDiv(toUnixTimestamp(started_at), 600) * 600 AS at,
		count() AS calls, sumMapIf([toString(finish_reason)], [toUInt64(1)], measured) AS ended, ended.1 AS reasons, toString(ended.2) AS reason_counts,
		toString(sumMapIf([bucket(ms)], [toUInt64(1)], measured AND ms > 0)) AS ms,
		toString(sumMapIf([bucket(ttft)], [toUInt64(1)], measured AND stream AND ttft > 0)) AS ttft,
		toString(sumMapIf([bucket(input)], [toUInt64(1)], measured AND input > 0)) AS input,
		toString(sumMapIf([bucket(output)], [toUInt64(1)], measured AND output > 0)) AS output,
		toString(sumMapIf([bucket(messages)], [toUInt64(1)], measured AND messages > 0)) AS history
	FROM
	(
		SELECT service, environment, stage, started_at, finish_reason, stream, messages, toInt64(duration * 1000) AS ms, toInt64(first_byte * 1000) AS ttft,
			ifNull(input_tokens, 0) AS input, ifNull(output_tokens, 0) AS output,
			status BETWEEN 200 AND 299 AND NOT failed AND error_type = '' AND NOT match(path, '/batches$|batchPredictionJobs$|:batchGenerateContent$|/batch/jobs$') AS measured
		FROM exchanges_final
		WHERE started_at >= {from:DateTime64(9, 'UTC')} AND started_at < {until:DateTime64(9, 'UTC')}
			AND (empty({services:Array(String)}) OR hex(service) IN {services:Array(String)})
			AND retry = 0 AND (failed OR error_type != 'cancelled')
	)
	GROUP BY service, environment, stage, at
	SETTINGS max_threads = 1`

// pastStatement is pastSQL with the expressions of buckets.
var pastStatement = func() string {
	text := pastSQL
	for _, v := range []string{"ms", "ttft", "input", "output", "messages"} {
		text = strings.ReplaceAll(text, "bucket("+v+")", fmt.Sprintf("toUInt16(if(%s <= 1, 0, ceil(%d * log2(%s))))", v, dist.PerOctave, v))
	}
	return text
}()

// history implements engine.History.
func (c *Collector) history(ctx context.Context, services []string, from, until time.Time) ([]engine.Past, error) {
	ctx, cancel := context.WithTimeout(ctx, pastTimeout)
	defer cancel()
	sink, err := c.queryable()
	if err != nil {
		return nil, err
	}
	return readPast(ctx, sink, services, from, until)
}

func readPast(ctx context.Context, q rows.Querier, services []string, from, until time.Time) (list []engine.Past, err error) {
	names := make([]string, len(services)) // in hex, because parameters cannot hold every text
	for i, s := range services {
		names[i] = fmt.Sprintf("%X", s)
	}
	found, err := rows.Read(ctx, q, "the calls of the last weeks", pastStatement, map[string]string{
		"from": rows.TimeParam(from), "until": rows.TimeParam(until), "services": rows.TextsParam(names),
	})
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		x := engine.Past{
			Service: r.Text("service"), Environment: r.Text("environment"), Stage: r.Text("stage"), At: time.Unix(r.Int64("at"), 0).UTC(), Calls: uint64(r.Int64("calls")),
			// How other answers ended is not stored.
			Odd: map[string]uint64{analyzer.EndedLimit: 0, analyzer.EndedFiltered: 0},
		}
		var counts []uint64
		if err := json.Unmarshal([]byte(r.Text("reason_counts")), &counts); err != nil {
			return nil, fmt.Errorf("read how answers ended: %w", err)
		}
		for i, reason := range r.Texts("reasons") {
			switch {
			case wire.AtTokenLimit(reason):
				x.Odd[analyzer.EndedLimit] += counts[i]
			case wire.Filtered(reason):
				x.Odd[analyzer.EndedFiltered] += counts[i]
			}
		}
		m := &x.Measured
		for name, d := range map[string]*dist.Dist{"ms": &m.Duration, "ttft": &m.FirstToken, "input": &m.InputTokens, "output": &m.OutputTokens, "history": &m.History} {
			if err := readDist(d, r.Text(name)); err != nil {
				return nil, fmt.Errorf("read column %s: %w", name, err)
			}
		}
		list = append(list, x)
	}
	return list, nil
}

// readDist adds the buckets and their counts, as in ([3,4],[1,20]), to d.
func readDist(d *dist.Dist, text string) error {
	var columns [2][]uint64
	if err := json.Unmarshal([]byte(strings.NewReplacer("(", "[", ")", "]").Replace(text)), &columns); err != nil {
		return err
	}
	for i, bucket := range columns[0] {
		d.AddBucket(int(bucket), columns[1][i])
	}
	return nil
}
