package mcpserver

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/dashboards/web"
)

// A Filter selects calls.
type Filter struct {
	Since       string `json:"since,omitempty" jsonschema:"start of the time range: a duration before now (15 minutes, 2h, 7d) or a time (2026-11-20T09:30:00Z); default 1 hour"`
	Until       string `json:"until,omitempty" jsonschema:"end of the time range, in the same format; default now"`
	Service     string `json:"service,omitempty" jsonschema:"only this service"`
	Stage       string `json:"stage,omitempty" jsonschema:"only this stage, such as planner"`
	Environment string `json:"environment,omitempty" jsonschema:"only this environment"`
}

const (
	defaultSince = "1 hour"
	firstSince   = 7 * 24 * time.Hour // in which the first version with a failure is looked for, at least
)

// values returns f as the values of a query, with further ones as names and values. Empty ones are omitted.
func (f Filter) values(pairs ...string) queries.Values {
	v := queries.Values{}
	pairs = append([]string{"since", f.since(), "until", f.Until, "service", f.Service, "stage", f.Stage, "environment", f.Environment}, pairs...)
	for i := 0; i+1 < len(pairs); i += 2 {
		if delete(v, pairs[i]); pairs[i+1] != "" {
			v[pairs[i]] = []string{pairs[i+1]}
		}
	}
	return v
}

func (f Filter) since() string {
	if f.Since == "" {
		return defaultSince
	}
	return f.Since
}

// earlier returns the start of the time range for the first version with a failure.
func (f Filter) earlier(now time.Time) (string, error) {
	since, err := queries.ParseTime(f.since(), now)
	if week := now.Add(-firstSince); since.After(week) {
		since = week
	}
	return since.Format(time.RFC3339Nano), err
}

// A read is a query that runs beside others.
type read struct {
	name   string // of a statement of the web pages, or of a stored query
	values queries.Values
	prices string // see price.Table.Bound; "" if the query reads no prices
	rows   []rows.Row
	err    error
}

// maxReads is the maximum of concurrent queries of one call.
const maxReads = 3

// run runs all reads. It returns the error of the first one, which the answer depends on; the others have their own.
func run(ctx context.Context, q rows.Querier, now time.Time, reads ...*read) error {
	g := errgroup.Group{}
	g.SetLimit(maxReads)
	for _, r := range reads {
		g.Go(func() error {
			r.rows, r.err = r.run(ctx, q, now)
			return nil
		})
	}
	_ = g.Wait() // never fails
	return reads[0].err
}

func (r *read) run(ctx context.Context, q rows.Querier, now time.Time) ([]rows.Row, error) {
	stored, err := web.Statement(r.name)
	if err != nil {
		return nil, err
	}
	sql, params, err := stored.Bind(r.values, now)
	if err != nil {
		return nil, err
	}
	if r.prices != "" {
		params["prices"] = r.prices
	}
	res, err := q.Query(ctx, sql, params)
	if err != nil {
		return nil, err
	}
	return rows.Of(res), nil
}

// missing says which reads failed.
func missing(reads []*read) (all []string) {
	for _, r := range reads {
		if r.err != nil {
			all = append(all, r.name+": "+line(r.err.Error(), maxLine))
		}
	}
	return all
}

// An origin is the first version with a failure.
type origin struct {
	Version   string // "" if unknown
	LastClean string
	At        time.Time
	Exchange  string // an early example
}

// originOf returns the origin of the failures of a stage with a cause or root cause. occurrences are rows of first_occurrence;
// the rows of whose_change come from the memory of the analyzer, which is older than the stored calls, and take precedence.
func originOf(occurrences, ledger []rows.Row, service, stage, why string) (o origin) {
	matches := func(r rows.Row, cause string) bool {
		return (service == "" || r.Text("service") == service) && (stage == "" || r.Text("stage") == stage) &&
			(why == "" || r.Text(cause) == why || r.Text("root_cause") == why)
	}
	for _, r := range occurrences {
		if at := r.Time("first_seen"); matches(r, "cause") && (o.At.IsZero() || at.Before(o.At)) {
			o = origin{r.Text("first_version"), r.Text("last_clean_version"), at, r.Text("first_exchange_id")}
		}
	}
	for _, r := range ledger { // the most failed calls first
		if r.Text("first_version") == "" || r.Int("failed_calls") == 0 && why == "" || !matches(r, "failed_with_cause") && !matches(r, "rule_id") {
			continue
		}
		at := r.Time("since_when")
		if o.At.IsZero() || at.Before(o.At) {
			o.At, o.Exchange = at, r.Text("first_exchange_id")
		}
		if version, clean := r.Text("first_version"), r.Text("last_clean_version"); clean != "" || version != o.Version {
			o.Version, o.LastClean = version, clean // otherwise the rows may prove more
		}
		break
	}
	return o
}

// text returns the origin as a phrase, or "".
func (o origin) text() string {
	if o.Version == "" {
		return ""
	}
	text := "first seen in " + line(o.Version, maxVersion)
	if at := stamp(o.At); at != "" {
		text += " (" + at + ")"
	}
	if o.LastClean != "" {
		return text + ", last clean version " + line(o.LastClean, maxVersion)
	}
	return text + ", no clean version is known"
}

const maxVersion = 60 // characters

// named returns at most n names that are not empty.
func named(all []string, n int) string {
	all = slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "" })
	more := ""
	if len(all) > n {
		all, more = all[:n], ", …"
	}
	for i := range all {
		all[i] = line(all[i], maxVersion)
	}
	return strings.Join(all, ", ") + more
}
