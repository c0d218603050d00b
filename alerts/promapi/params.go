package promapi

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
)

// The range of times of Prometheus.
var (
	minTime = time.UnixMilli(math.MinInt64 / 1000)
	maxTime = time.UnixMilli(math.MaxInt64 / 1000)
)

// timeOf returns a time parameter: Unix seconds, or RFC 3339.
func timeOf(r *http.Request, name string, otherwise time.Time) (time.Time, *apiError) {
	text := r.FormValue(name)
	if text == "" {
		return otherwise, nil
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		if ms := s * 1000; ms >= float64(minTime.UnixMilli()) && ms <= float64(maxTime.UnixMilli()) {
			return time.UnixMilli(int64(math.Round(ms))).UTC(), nil
		}
	} else if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	return time.Time{}, badData("invalid parameter %q: %q is not a time: it is Unix seconds, or like 2026-11-20T09:30:00Z", name, clip(text))
}

// durationOf returns a parameter of a duration: seconds, or like 5m.
func durationOf(r *http.Request, name string, otherwise time.Duration) (time.Duration, *apiError) {
	text := r.FormValue(name)
	if text == "" {
		return otherwise, nil
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		if ns := s * float64(time.Second); math.Abs(ns) < math.MaxInt64 {
			return time.Duration(ns), nil
		}
	} else if d, err := model.ParseDuration(text); err == nil {
		return time.Duration(d), nil
	}
	return 0, badData("invalid parameter %q: %q is not a duration: it is seconds, or like 5m", name, clip(text))
}

// limitOf returns the parameter limit, the maximum number of series or values; 0: all.
func limitOf(r *http.Request) (int, *apiError) {
	text := r.FormValue("limit")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, badData("invalid parameter \"limit\": %q is not a number of at least 0", clip(text))
	}
	return n, nil
}

func queryOptions(r *http.Request) (promql.QueryOpts, int, *apiError) {
	limit, failed := limitOf(r)
	if failed != nil {
		return nil, 0, failed
	}
	delta, failed := durationOf(r, "lookback_delta", 0)
	return promql.NewPrometheusQueryOpts(false, delta, nil), limit, failed
}

// clip bounds a text for an error.
func clip(text string) string {
	if len(text) > 100 {
		return text[:100] + "…"
	}
	return text
}
