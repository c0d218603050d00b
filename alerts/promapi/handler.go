package promapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/rules"
)

// Path is the path under which Handler answers.
const Path = "/api/v1/"

// apiVersion is the version of Prometheus whose API and PromQL Handler has. Grafana chooses its queries by it.
const apiVersion = "3.16.0"

// Bounds of one query, and of all.
const (
	maxForm       = 128 << 10 // bytes of a request
	maxExpr       = 16 << 10  // bytes of an expression
	maxPoints     = 11_000    // steps of a range query, as in Prometheus
	maxSubSteps   = 100_000   // steps of a subquery; Prometheus has no bound, and allocates memory for each step first
	maxSamples    = 5_000_000 // samples in memory, 16 bytes each
	maxConcurrent = 4
	queryTimeout  = 30 * time.Second
	lookback      = 5 * time.Minute // maximum age of the current sample of a series, the default of Prometheus
)

// Options configure a Handler.
type Options struct {
	// Engines returns the engines whose samples and rules are served. It is empty while NATS does not answer.
	Engines func() []*engine.Engine
	// Interval is engine.Config.EvaluationInterval, the step of subqueries that do not specify one.
	Interval time.Duration
	Version  string // of llmtap
	Logger   *slog.Logger
}

// A Handler serves the HTTP API of Prometheus. Access is up to the caller.
type Handler struct {
	Options
	parser parser.Parser
	promql *promql.Engine
	slots  chan struct{} // one per running query
	mux    *http.ServeMux
}

// NewHandler returns a handler for the paths below Path.
func NewHandler(o Options) *Handler {
	p := parser.NewParser(parser.Options{})
	h := &Handler{
		Options: o, parser: p, slots: make(chan struct{}, maxConcurrent), mux: http.NewServeMux(),
		promql: promql.NewEngine(promql.EngineOpts{
			MaxSamples: maxSamples, Timeout: queryTimeout, LookbackDelta: lookback, Parser: p,
			EnableAtModifier: true, EnableNegativeOffset: true, NoStepSubqueryIntervalFn: func(int64) int64 { return o.Interval.Milliseconds() },
		}),
	}
	both := func(path string, f endpoint) { // long queries are sent as forms
		h.mux.Handle("GET "+Path+path, h.serve(f))
		h.mux.Handle("POST "+Path+path, h.serve(f))
	}
	both("query", h.query)
	both("query_range", h.queryRange)
	both("series", h.series)
	both("labels", h.labels)
	both("parse_query", h.parseQuery)
	both("format_query", h.formatQuery)
	get := func(path string, f endpoint) { h.mux.Handle("GET "+Path+path, h.serve(f)) }
	get("label/{name}/values", h.labelValues)
	get("metadata", h.metadata)
	get("rules", h.rules)
	get("alerts", h.alerts)
	get("status/buildinfo", h.buildInfo)
	both("query_exemplars", func(*form) (result, *apiError) { return result{data: []string{}}, nil })
	h.mux.Handle(Path, h.serve(func(f *form) (result, *apiError) {
		return result{}, &apiError{http.StatusNotFound, "not_found", fmt.Errorf("llmtap has no %s %s of the Prometheus API", f.Method, f.URL.Path)}
	}))
	return h
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// An endpoint answers a request.
type endpoint func(f *form) (result, *apiError)

type result struct {
	data            any // encoded as JSON
	warnings, infos []string
}

// An apiError is an error with the status and the type that Prometheus gives it.
type apiError struct {
	status int
	kind   string
	err    error
}

func badData(format string, args ...any) *apiError {
	return &apiError{http.StatusBadRequest, "bad_data", fmt.Errorf(format, args...)}
}

// evaluation returns the error of an evaluation.
func evaluation(err error) *apiError {
	var canceled promql.ErrQueryCanceled
	var timeout promql.ErrQueryTimeout
	var stored promql.ErrStorage
	switch {
	case errors.As(err, &canceled), errors.Is(err, context.Canceled):
		return &apiError{499, "canceled", err} // nobody waits for it
	case errors.As(err, &timeout), errors.Is(err, context.DeadlineExceeded):
		return &apiError{http.StatusServiceUnavailable, "timeout", err}
	case errors.As(err, &stored):
		return &apiError{http.StatusInternalServerError, "internal", err}
	}
	return &apiError{http.StatusUnprocessableEntity, "execution", err}
}

func (h *Handler) serve(f endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		var res result
		var failed *apiError
		if err := r.ParseForm(); err != nil {
			failed = badData("parse the form: %w", err)
		} else {
			res, failed = f(&form{Request: r})
		}
		body := map[string]any{"status": "success", "data": res.data}
		if failed != nil {
			body = map[string]any{"status": "error", "errorType": failed.kind, "error": failed.err.Error()}
		}
		if len(res.warnings) > 0 {
			body["warnings"] = res.warnings
		}
		if len(res.infos) > 0 {
			body["infos"] = res.infos
		}
		text, err := json.Marshal(body)
		if err != nil { // a bug
			h.Logger.Error("encode an answer of the Prometheus API", "path", r.URL.Path, "err", err)
			http.Error(w, `{"status":"error","errorType":"internal","error":"the answer cannot be encoded"}`, http.StatusInternalServerError)
			return
		}
		if failed != nil {
			w.WriteHeader(failed.status)
		}
		_, _ = w.Write(text) // error ignored: the client has gone
	})
}

// queryable returns the samples of all engines, whose metrics differ.
func (h *Handler) queryable() (storage.Queryable, *apiError) {
	engines := h.Engines()
	if len(engines) == 0 {
		return nil, &apiError{http.StatusServiceUnavailable, "unavailable", errors.New("the tallies are not read yet: NATS does not answer, or llmtap has just started")}
	}
	return storage.QueryableFunc(func(mint, maxt int64) (storage.Querier, error) {
		var all []storage.Querier
		for _, e := range engines {
			q, err := e.Queryable().Querier(mint, maxt)
			if err != nil {
				return nil, err
			}
			all = append(all, q)
		}
		return storage.NewMergeQuerier(all, nil, storage.ChainedSeriesMerge), nil
	}), nil
}

// checkSubqueries returns an error if a subquery of a query over span has too many steps.
func (h *Handler) checkSubqueries(expr parser.Expr, span time.Duration) (err error) {
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		q, ok := node.(*parser.SubqueryExpr)
		if !ok {
			return nil
		}
		whole := span.Seconds() + q.Range.Seconds() // floats: durations may overflow
		for _, n := range path {
			if outer, ok := n.(*parser.SubqueryExpr); ok {
				whole += outer.Range.Seconds()
			}
		}
		step := q.Step
		if step == 0 {
			step = h.Interval
		}
		if whole/step.Seconds() > maxSubSteps {
			err = fmt.Errorf("the subquery %s has more than %d steps; choose a shorter range or a longer step", clip(q.String()), maxSubSteps)
		}
		return err
	})
	return err
}

// evaluate runs a query over a time span that prepare makes, while there are not too many others.
func (h *Handler) evaluate(f *form, span time.Duration, prepare func(context.Context, storage.Queryable, promql.QueryOpts, string) (promql.Query, error)) (result, *apiError) {
	parsed, failed := h.parse(f)
	if failed != nil {
		return result{}, failed
	}
	if err := h.checkSubqueries(parsed, span); err != nil {
		return result{}, badData("invalid parameter \"query\": %w", err)
	}
	expr, limit := f.FormValue("query"), f.limit()
	opts, timeout := promql.NewPrometheusQueryOpts(false, f.duration("lookback_delta", 0), nil), f.duration("timeout", queryTimeout)
	if f.failed != nil {
		return result{}, f.failed
	}
	ctx, cancel := context.WithTimeout(f.Context(), min(timeout, queryTimeout))
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return result{}, evaluation(fmt.Errorf("%d other queries are running: %w", maxConcurrent, ctx.Err()))
	}
	samples, failed := h.queryable()
	if failed != nil {
		return result{}, failed
	}
	q, err := prepare(ctx, samples, opts, expr)
	if err != nil {
		return result{}, badData("invalid parameter \"query\": %w", err)
	}
	defer q.Close()
	res := q.Exec(ctx)
	if res.Err != nil {
		return result{}, evaluation(res.Err)
	}
	warnings, infos := res.Warnings.AsStrings(expr, 10, 10)
	value, cut := encodeValue(res.Value, limit)
	if cut {
		warnings = append(warnings, "results truncated due to limit")
	}
	return result{map[string]any{"resultType": res.Value.Type(), "result": value}, warnings, infos}, nil
}

func (h *Handler) query(f *form) (result, *apiError) {
	at := f.time("time", time.Now())
	return h.evaluate(f, 0, func(ctx context.Context, samples storage.Queryable, o promql.QueryOpts, expr string) (promql.Query, error) {
		return h.promql.NewInstantQuery(ctx, samples, o, expr, at)
	})
}

func (h *Handler) queryRange(f *form) (result, *apiError) {
	start, end, step := f.time("start", time.Time{}), f.time("end", time.Time{}), f.duration("step", 0)
	switch {
	case f.failed != nil:
		return result{}, f.failed
	case start.IsZero(), end.IsZero():
		return result{}, badData("the parameters start and end are required")
	case end.Before(start):
		return result{}, badData("invalid parameter \"end\": it is before start")
	case step <= 0:
		return result{}, badData("invalid parameter \"step\": it must be positive, such as 15s")
	case end.Sub(start)/step >= maxPoints:
		return result{}, badData("the range has more than %d steps; choose a longer step", maxPoints)
	}
	return h.evaluate(f, end.Sub(start), func(ctx context.Context, samples storage.Queryable, o promql.QueryOpts, expr string) (promql.Query, error) {
		return h.promql.NewRangeQuery(ctx, samples, o, expr, start, end, step)
	})
}

// parseQuery and formatQuery serve editors, which check an expression while it is typed.
func (h *Handler) parseQuery(f *form) (result, *apiError) {
	_, failed := h.parse(f)
	return result{data: map[string]string{}}, failed
}

func (h *Handler) formatQuery(f *form) (result, *apiError) {
	expr, failed := h.parse(f)
	if failed != nil {
		return result{}, failed
	}
	return result{data: expr.Pretty(0)}, nil
}

func (h *Handler) parse(f *form) (parser.Expr, *apiError) {
	if f.failed != nil {
		return nil, f.failed
	}
	text := f.FormValue("query")
	if len(text) > maxExpr {
		return nil, badData("invalid parameter \"query\": an expression has at most %d bytes, this one has %d", maxExpr, len(text))
	}
	expr, err := h.parser.ParseExpr(text)
	if err != nil {
		return nil, badData("invalid parameter \"query\": %w", err)
	}
	return expr, nil
}

// selected returns the labels of the series that match any of the parameters match[], or all series if there is none and it is
// not required.
func (h *Handler) selected(f *form, required bool) ([]labels.Labels, *apiError) {
	start, end := f.time("start", minTime), f.time("end", maxTime)
	if f.failed != nil {
		return nil, f.failed
	}
	texts := f.Form["match[]"]
	if len(texts) == 0 {
		if required {
			return nil, badData("no match[] parameter: give one, such as match[]=llmtap_calls_total")
		}
		texts = []string{`{__name__=~".+"}`}
	}
	samples, failed := h.queryable()
	if failed != nil {
		return nil, failed
	}
	q, err := samples.Querier(start.UnixMilli(), end.UnixMilli())
	if err != nil {
		return nil, evaluation(err)
	}
	defer func() { _ = q.Close() }() // it holds nothing
	var out []labels.Labels
	for _, text := range texts {
		if len(text) > maxExpr {
			return nil, badData("invalid parameter \"match[]\": a selector has at most %d bytes, this one has %d", maxExpr, len(text))
		}
		matchers, err := h.parser.ParseMetricSelector(text)
		if err != nil {
			return nil, badData("invalid parameter \"match[]\": %w", err)
		}
		set := q.Select(f.Context(), false, &storage.SelectHints{Start: start.UnixMilli(), End: end.UnixMilli(), Func: "series"}, matchers...)
		for set.Next() {
			out = append(out, set.At().Labels())
		}
		if err := set.Err(); err != nil {
			return nil, evaluation(err)
		}
	}
	slices.SortFunc(out, labels.Compare)
	return slices.CompactFunc(out, labels.Equal), nil
}

func (h *Handler) series(f *form) (result, *apiError) {
	all, failed := h.selected(f, true)
	if failed != nil {
		return result{}, failed
	}
	return limited(f, all)
}

func (h *Handler) labels(f *form) (result, *apiError) {
	return h.values(f, func(l labels.Labels, add func(string)) { l.Range(func(l labels.Label) { add(l.Name) }) })
}

func (h *Handler) labelValues(f *form) (result, *apiError) {
	name := f.PathValue("name")
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return result{}, badData("invalid label name: %q", name)
	}
	return h.values(f, func(l labels.Labels, add func(string)) {
		if v := l.Get(name); v != "" {
			add(v)
		}
	})
}

// values returns the sorted distinct values that each adds for the selected series.
func (h *Handler) values(f *form, each func(l labels.Labels, add func(string))) (result, *apiError) {
	all, failed := h.selected(f, false)
	if failed != nil {
		return result{}, failed
	}
	seen := map[string]bool{}
	out := []string{}
	for _, l := range all {
		each(l, func(v string) {
			if !seen[v] {
				seen[v] = true
				out = append(out, v)
			}
		})
	}
	slices.Sort(out)
	return limited(f, out)
}

// limited returns the first elements of list, as many as the parameter limit says.
func limited[T any](f *form, list []T) (result, *apiError) {
	n := f.limit()
	switch {
	case f.failed != nil:
		return result{}, f.failed
	case list == nil:
		list = []T{}
	case n > 0 && len(list) > n:
		return result{data: list[:n], warnings: []string{"results truncated due to limit"}}, nil
	}
	return result{data: list}, nil
}

func (h *Handler) metadata(f *form) (result, *apiError) {
	type entry struct {
		Type string `json:"type"`
		Help string `json:"help"`
		Unit string `json:"unit"`
	}
	limit := f.limit()
	if f.failed != nil {
		return result{}, f.failed
	}
	out := map[string][]entry{}
	for _, name := range rules.KnownMetrics() {
		if only := f.FormValue("metric"); only != "" && only != name || limit > 0 && len(out) == limit {
			continue
		}
		kind := "gauge"
		if strings.HasSuffix(name, "_total") {
			kind = "counter"
		}
		out[name] = []entry{{kind, rules.Help(name), ""}}
	}
	return result{data: out}, nil
}

func (h *Handler) buildInfo(*form) (result, *apiError) {
	return result{data: map[string]string{
		"version": apiVersion, "revision": h.Version, "branch": "", "buildUser": "", "buildDate": "", "goVersion": runtime.Version(),
		"application": "llmtap",
	}}, nil
}
