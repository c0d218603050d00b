package gate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts/regression"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
)

const (
	// settle is the time after which the rows of a call are in ClickHouse.
	settle = 3 * time.Second
	// lookback is the time before the rollout from which calls of the version before are read.
	lookback = time.Hour
)

// callsSQL selects the calls of the service since {from}. Retries of an SDK and calls that the agent cancelled do not count, as
// in the tallies. The time is that of the stream, so that the clocks of agents do not matter; started_at only bounds what is read.
const callsSQL = `SELECT exchange_id, service_version, environment, stage, stored_at, status, failed, error_type, duration, first_byte, stream,
		input_tokens, output_tokens, messages, cache_reusable_tokens, cache_missed_tokens, cache_break, provider, model, cached_tokens, cache_written_tokens, cache_hour_tokens, ended, toString(cause) AS cause, toString(root_cause) AS root_cause,
		multiIf(conversation_id != '', concat('c', conversation_id), run_id != '', concat('r', run_id), concat('e', exchange_id)) AS conversation
	FROM exchanges FINAL
	WHERE service = {service:String} AND ({environment:String} = '' OR environment = {environment:String}) AND ({stage:String} = '' OR stage = {stage:String})
		AND stored_at >= {from:DateTime64(9, 'UTC')} AND started_at >= {begun:DateTime64(9, 'UTC')}
		AND origin != 'import' AND retry = 0 AND error_type != 'cancelled'`

const versionsSQL = `SELECT toString(service_version) AS version, min(stored_at) AS first_at, count() AS calls
	FROM (` + callsSQL + `) GROUP BY service_version ORDER BY calls DESC, version`

// cellsSQL counts the trials: the calls before which no call of their conversation failed in the stage.
var cellsSQL = trialsSQL("", "failed", "cause IN {provider:Array(String)}", callsSQL)

// trialsSQL counts the calls before which no call of their conversation was bad, of each stage and of further columns by. provider says
// whether what is bad may be the provider's.
func trialsSQL(by, bad, provider, calls string) string {
	return strings.NewReplacer("[by]", by, "[bad]", bad, "[provider]", provider, "[calls]", calls).Replace(
		`SELECT toString(environment) AS environment, toString(stage) AS stage[by], least(n, 9) AS nth, intDiv(toUnixTimestamp(stored_at), 2) * 2 AS at,
		countIf(is_new) AS new_calls, countIf(is_new AND [bad]) AS new_failed, countIf(is_new AND [bad] AND provider) AS new_provider,
		countIf(is_old) AS old_calls, countIf(is_old AND [bad]) AS old_failed, countIf(is_old AND [bad] AND provider) AS old_provider
	FROM
	(
		SELECT environment, stage[by], stored_at, [bad], [provider] AS provider,
			service_version = {version:String} AS is_new, service_version = {baseline:String} AS is_old,
			row_number() OVER each AS n,
			sum([bad]) OVER (each ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - [bad] AS bad_before
		FROM ([calls])
		WINDOW each AS (PARTITION BY environment, stage[by], conversation ORDER BY stored_at, exchange_id)
	)
	WHERE bad_before = 0 AND (is_old OR is_new AND stored_at >= {start:DateTime64(9, 'UTC')})
	GROUP BY environment, stage[by], nth, at`)
}

// stagesSQL counts all calls of both versions by stage.
const stagesSQL = `SELECT toString(environment) AS environment, toString(stage) AS stage,
		countIf(is_new) AS new_calls, countIf(is_new AND failed) AS new_failed, countIf(NOT is_new) AS old_calls, countIf(NOT is_new AND failed) AS old_failed
	FROM (SELECT *, service_version = {version:String} AS is_new FROM (` + callsSQL + `))
	WHERE is_new AND stored_at >= {start:DateTime64(9, 'UTC')} OR service_version = {baseline:String}
	GROUP BY environment, stage ORDER BY stage, environment`

// causesSQL counts the failed calls of both versions by cause, with an example of the new one.
const causesSQL = `SELECT toString(environment) AS environment, toString(stage) AS stage, cause, root_cause, toUInt16(cause IN {provider:Array(String)}) AS provider,
		countIf(is_new) AS new_failed, countIf(NOT is_new) AS old_failed, argMaxIf(exchange_id, stored_at, is_new) AS example
	FROM (SELECT *, service_version = {version:String} AS is_new FROM (` + callsSQL + `))
	WHERE failed AND (is_new AND stored_at >= {start:DateTime64(9, 'UTC')} OR service_version = {baseline:String})
	GROUP BY environment, stage, cause, root_cause HAVING new_failed > 0 ORDER BY new_failed DESC, stage, cause, root_cause LIMIT 200`

// A reader reads the calls of one service.
type reader struct {
	q rows.Querier
	o *Options
}

func (r reader) params(from time.Time) map[string]string {
	return map[string]string{
		"service": r.o.Service, "environment": r.o.Environment, "stage": r.o.Stage, "from": rows.TimeParam(from),
		"begun": rows.TimeParam(from.Add(-time.Hour)), "until": rows.TimeParam(from.AddDate(1, 0, 0)), "prices": r.o.Prices.Bound(),
	}
}

// now returns the time of ClickHouse's clock: that of this machine may be wrong.
func (r reader) now(ctx context.Context) (time.Time, error) {
	found, err := rows.Read(ctx, r.q, "the time", "SELECT now64(9, 'UTC') AS now", nil)
	if err != nil || len(found) != 1 {
		return time.Time{}, fmt.Errorf("read the time of ClickHouse: %w", err)
	}
	return found[0].Time("now"), nil
}

// A rollout is what is compared with what.
type rollout struct {
	baseline string                     // version before; "" if there is none
	start    time.Time                  // of the comparison: the first call of the new version; zero if it has no calls
	usual    map[regression.Key]float64 // of measures: what 95% of the calls of the version before do not exceed
}

// rollout finds the first call of the new version since since, and the version before.
func (r reader) rollout(ctx context.Context, since time.Time) (x rollout, err error) {
	found, err := rows.Read(ctx, r.q, "versions", versionsSQL, r.params(since.Add(-lookback)))
	if err != nil {
		return x, err
	}
	x.baseline = r.o.Baseline
	for _, v := range found {
		switch version := v.Text("version"); {
		case version == r.o.Version:
			x.start = v.Time("first_at")
			if x.start.Before(since) {
				x.start = since
			}
		case x.baseline == "" && version != "":
			x.baseline = version // it has the most calls
		}
	}
	if x.start = x.start.Truncate(regression.Tick * time.Second); x.start.IsZero() || x.baseline == "" {
		return x, nil
	}
	x.usual, err = r.usual(ctx, x, x.baseline, x.start.Add(-lookback), x.start, minUsual)
	return x, err
}

func (r reader) rolloutParams(x rollout) map[string]string {
	p := r.params(x.start.Add(-lookback))
	p["version"], p["baseline"], p["start"] = r.o.Version, x.baseline, rows.TimeParam(x.start)
	p["provider"] = rows.TextsParam(regression.ProviderCauses)
	return p
}

// cells returns the calls to compare.
func (r reader) cells(ctx context.Context, x rollout) ([]regression.Cell, error) {
	found, err := rows.Read(ctx, r.q, "calls", cellsSQL, r.rolloutParams(x))
	if err != nil {
		return nil, err
	}
	cells := make([]regression.Cell, len(found))
	for i, c := range found {
		cells[i] = regression.Cell{
			Environment: c.Text("environment"), Stage: c.Text("stage"), Position: regression.Position(c.Int("nth")), At: int64(c.Int("at")),
			New: counts(c, "new"), Old: counts(c, "old"),
		}
	}
	more, err := r.measureCells(ctx, x)
	return append(cells, more...), err
}

func counts(r rows.Row, version string) regression.Counts {
	return regression.Counts{
		Calls: uint64(r.Int(version + "_calls")), Failed: uint64(r.Int(version + "_failed")), Provider: uint64(r.Int(version + "_provider")),
	}
}
