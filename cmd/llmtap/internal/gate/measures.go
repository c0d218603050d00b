package gate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts/regression"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/past"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// minUsual is the number of calls of the version before that tells what is usual of a measure.
const minUsual = 100

// A measure is compared like failures.
type measure struct {
	name     string
	sql      string // value of a call; NULL: it has none
	provider bool   // it depends on the provider, so only calls at the same time are compared
	worse    string // what a worse version does
	unit     string // of a value, after a space unless it begins with %; "s" for a duration, "$" for dollars
}

// cacheSQL is the share of what could be read from the prompt cache that was not, for a reason that the agent could avoid.
const cacheSQL = `100. * if(cache_break IN (` + past.Unavoidable + `), 0, cache_missed_tokens) / nullIf(cache_reusable_tokens, 0)`

var measures = []measure{
	{"duration", "nullIf(duration, 0)", true, "takes longer", "s"},
	{"first_token", "if(stream AND first_byte > 0, first_byte, NULL)", true, "answers later", "s"},
	{"input_tokens", "nullIf(toFloat64(input_tokens), 0)", false, "reads more tokens", "tokens"},
	{"output_tokens", "nullIf(toFloat64(output_tokens), 0)", false, "writes more tokens", "tokens"},
	{"history", "nullIf(toFloat64(messages), 0)", false, "sends longer histories", "messages"},
	{"cost", "nullIf(cost / 1e6, 0)", false, "costs more", "$"},
	{"tool_errors", "100. * tool_errors / nullIf(replies, 0)", false, "has more errors of tools", "% of tool replies with an error"},
	{"cache", cacheSQL, false, "misses the prompt cache more often", "% of the prompt missed"},
}

func measureNames() (names []string) {
	for _, m := range measures {
		names = append(names, m.name)
	}
	return names
}

func measureByName(name string) *measure {
	return &measures[slices.IndexFunc(measures, func(m measure) bool { return m.name == name })]
}

// valuesSQL selects the values of the calls of callsSQL that were answered.
var valuesSQL = func() string {
	var list []string
	for _, m := range measures {
		list = append(list, fmt.Sprintf("('%s', %s)", m.name, m.sql))
	}
	return `SELECT *, x.1 AS measure, assumeNotNull(x.2) AS value FROM
		(
			SELECT * FROM (WITH ` + past.Cost + ` SELECT *, cost FROM (` + callsSQL + `)) AS c LEFT JOIN
			(
				SELECT answered_by, count() AS replies, countIf(reply_error != '') AS tool_errors FROM tool_calls FINAL
				WHERE service = {service:String} AND ` + past.Answered + ` GROUP BY answered_by
			) AS t ON t.answered_by = c.exchange_id
		)
		ARRAY JOIN [` + strings.Join(list, ", ") + `] AS x
		WHERE status BETWEEN 200 AND 299 AND NOT failed AND error_type = '' AND x.2 IS NOT NULL`
}()

// usualSQL selects what 95% of the calls of a version do not exceed.
var usualSQL = `SELECT toString(environment) AS environment, toString(stage) AS stage, measure, quantileExact(0.95)(value) AS most, count() AS calls
	FROM (` + valuesSQL + `)
	WHERE service_version = {of:String} AND stored_at >= {after:DateTime64(9, 'UTC')} AND stored_at < {before:DateTime64(9, 'UTC')}
	GROUP BY environment, stage, measure`

// measureKey identifies the measure of a stage in the parameter keys.
const measureKey = `concat(hex(environment), '/', hex(stage), '/', measure)`

// measureCellsSQL is cellsSQL for values above the usual.
var measureCellsSQL = trialsSQL(", measure", "above", "measure IN {measures:Array(String)}",
	`SELECT *, value > transform(`+measureKey+`, {keys:Array(String)}, {usual:Array(Float64)}, 0.) AS above
		FROM (`+valuesSQL+`) WHERE has({keys:Array(String)}, `+measureKey+`)`)

// usual returns what 95% of the calls of a version do not exceed, of measures with enough calls.
func (r reader) usual(ctx context.Context, x rollout, version string, after, before time.Time, least uint64) (map[regression.Key]float64, error) {
	p := r.rolloutParams(x)
	p["of"], p["after"], p["before"] = version, rows.TimeParam(after), rows.TimeParam(before)
	found, err := rows.Read(ctx, r.q, "measures", usualSQL, p)
	out := map[regression.Key]float64{}
	for _, row := range found {
		if uint64(row.Int("calls")) >= least {
			out[keyOf(row)] = row.Float("most")
		}
	}
	return out, err
}

func keyOf(r rows.Row) regression.Key {
	return regression.Key{Environment: r.Text("environment"), Stage: r.Text("stage"), Measure: r.Text("measure")}
}

// measureCells returns the calls to compare in measures.
func (r reader) measureCells(ctx context.Context, x rollout) (cells []regression.Cell, err error) {
	if len(x.usual) == 0 {
		return nil, nil
	}
	p := r.rolloutParams(x)
	var keys, values, provider []string
	for k, v := range x.usual {
		keys = append(keys, fmt.Sprintf("%X/%X/%s", k.Environment, k.Stage, k.Measure))
		values = append(values, strconv.FormatFloat(v, 'g', -1, 64))
	}
	for _, m := range measures {
		if m.provider {
			provider = append(provider, m.name)
		}
	}
	p["keys"], p["usual"], p["measures"] = rows.TextsParam(keys), "["+strings.Join(values, ",")+"]", rows.TextsParam(provider)
	found, err := rows.Read(ctx, r.q, "measures of calls", measureCellsSQL, p)
	for _, c := range found {
		k := keyOf(c)
		cells = append(cells, regression.Cell{
			Environment: k.Environment, Stage: k.Stage, Measure: k.Measure, Position: regression.Position(c.Int("nth")), At: int64(c.Int("at")),
			New: counts(c, "new"), Old: counts(c, "old"),
		})
	}
	return cells, err
}

// A Measure is the comparison of a measure of one stage.
type Measure struct {
	Measure string  `json:"measure"`
	Before  float64 `json:"before"` // 95% of the calls of the version before had at most this, before the start
	After   float64 `json:"after"`  // the same of the new version; 0 if it has no calls
	// The compared calls, and those of them with more than Before. A conversation counts once.
	ComparedNew MeasureCounts `json:"compared_new"`
	ComparedOld MeasureCounts `json:"compared_old"`
	Evidence    float64       `json:"evidence"`
}

// MeasureCounts are calls of a version.
type MeasureCounts struct {
	Calls uint64 `json:"calls"`
	Above uint64 `json:"above"`
}

// addMeasures adds the comparisons of measures to the stages.
func (g *gate) addMeasures(ctx context.Context, x *Report, r regression.Result) error {
	if len(g.rollout.usual) == 0 {
		return nil
	}
	after, err := g.usual(ctx, g.rollout, g.Version, g.rollout.start, g.rollout.start.Add(24*time.Hour), 1)
	if err != nil {
		return err
	}
	for _, c := range r.Groups {
		i := slices.IndexFunc(x.Stages, func(s Stage) bool { return s.Stage == c.Stage && s.Environment == c.Environment })
		if c.Measure == "" || i < 0 {
			continue
		}
		x.Stages[i].Measures = append(x.Stages[i].Measures, Measure{
			c.Measure, g.rollout.usual[c.Key], after[c.Key], MeasureCounts{c.New.Calls, c.New.Failed}, MeasureCounts{c.Old.Calls, c.Old.Failed}, c.Evidence,
		})
	}
	return nil
}

// String returns the comparison in words.
func (m *Measure) String() string {
	x := measureByName(m.Measure)
	value := func(v float64) string {
		switch x.unit {
		case "s":
			return strconv.FormatFloat(v, 'g', 3, 64) + " s"
		case "$":
			return "$" + strconv.FormatFloat(v, 'g', 3, 64)
		}
		if x.unit[0] != '%' {
			return quantity.Count(int(v)) + " " + x.unit
		}
		return quantity.Count(int(v)) + x.unit
	}
	now := ""
	if m.After > 0 {
		now = ", now up to " + value(m.After)
	}
	return fmt.Sprintf("%s: 95%% of calls up to %s before%s; %d of %s above that, %d of %s of the version before; evidence %s",
		strings.ReplaceAll(m.Measure, "_", " "), value(m.Before), now, m.ComparedNew.Above, quantity.Plural(m.ComparedNew.Calls, "compared call"),
		m.ComparedOld.Above, quantity.Count(m.ComparedOld.Calls), round(m.Evidence))
}
