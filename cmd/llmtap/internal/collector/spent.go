package collector

import (
	"context"
	"time"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// spentSQL returns what the calls that the analyzer measures cost, by hour. Those that began long before they ended are in it.
const spentSQL = `
WITH
    {price}
SELECT at, service, environment,
    toUInt64(sum(if(known = 0, 0, greatest(0, 1e6 * {dollars})))) AS microdollars,
    sumIf(calls, known = 0) AS unpriced
FROM
(
    SELECT toUnixTimestamp(toStartOfHour(stored_at)) AS at, service, environment, provider, model, count() AS calls,
        coalesce(sum(input_tokens), 0) AS input, {cache tokens}, coalesce(sum(output_tokens), 0) AS output
    FROM exchanges FINAL
    WHERE stored_at >= {from:DateTime64(9, 'UTC')} AND stored_at < {to:DateTime64(9, 'UTC')}
        AND started_at >= {begun:DateTime64(9, 'UTC')} AND started_at < {ended:DateTime64(9, 'UTC')}
        AND origin != {import:String} AND retry = 0 AND NOT failed AND error_type = '' AND (input_tokens > 0 OR output_tokens > 0)
    GROUP BY at, service, environment, provider, model
)
GROUP BY at, service, environment`

// spent returns what calls cost by hour and service, from ClickHouse.
func spent(ctx context.Context, q rows.Querier, prices price.Table, from, to time.Time) (list []engine.Spent, err error) {
	res, err := q.Query(ctx, queries.Expand(spentSQL), map[string]string{
		"from": rows.TimeParam(from), "to": rows.TimeParam(to), "prices": prices.Bound(), "import": event.OriginImport,
		"begun": rows.TimeParam(from.Add(-24 * time.Hour)), "ended": rows.TimeParam(to.Add(time.Hour)),
	})
	if err != nil {
		return nil, err
	}
	for _, r := range rows.Of(res) {
		list = append(list, engine.Spent{
			Hour: time.Unix(r.Int64("at"), 0), Service: r.Text("service"), Environment: r.Text("environment"),
			Microdollars: uint64(r.Int64("microdollars")), Unpriced: uint64(r.Int64("unpriced")),
		})
	}
	return list, nil
}

// spent returns what calls cost, from the ClickHouse of this process.
func (c *Collector) spent(ctx context.Context, from, to time.Time) ([]engine.Spent, error) {
	sink, err := c.queryable()
	if err != nil {
		return nil, err
	}
	return spent(ctx, sink, c.cfg.Prices, from, to)
}
