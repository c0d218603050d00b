package promapi

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
)

// The range of times of Prometheus.
var (
	minTime = time.UnixMilli(math.MinInt64 / 1000)
	maxTime = time.UnixMilli(math.MaxInt64 / 1000)
)

// A form is a request whose form is parsed. It reads parameters, and failed is the error of the first one that is invalid.
type form struct {
	*http.Request
	failed *apiError
}

// invalid records an error of a parameter.
func (f *form) invalid(name, text, want string) {
	if f.failed == nil {
		f.failed = badData("invalid parameter %q: %q is not %s", name, clip(text), want)
	}
}

// time returns a time parameter: Unix seconds, or RFC 3339.
func (f *form) time(name string, otherwise time.Time) time.Time {
	text := f.FormValue(name)
	if text == "" {
		return otherwise
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		if ms := s * 1000; ms >= float64(minTime.UnixMilli()) && ms <= float64(maxTime.UnixMilli()) {
			return time.UnixMilli(int64(math.Round(ms))).UTC()
		}
	} else if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t
	}
	f.invalid(name, text, "a time: it is Unix seconds, or like 2026-11-20T09:30:00Z")
	return otherwise
}

// duration returns a parameter of a duration: seconds, or like 5m.
func (f *form) duration(name string, otherwise time.Duration) time.Duration {
	text := f.FormValue(name)
	if text == "" {
		return otherwise
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		if ns := s * float64(time.Second); math.Abs(ns) < math.MaxInt64 {
			return time.Duration(ns)
		}
	} else if d, err := model.ParseDuration(text); err == nil {
		return time.Duration(d)
	}
	f.invalid(name, text, "a duration: it is seconds, or like 5m")
	return otherwise
}

// limit returns the parameter limit, the maximum number of series or values; 0: all.
func (f *form) limit() int {
	text := f.FormValue("limit")
	n, err := strconv.Atoi(text)
	if text != "" && (err != nil || n < 0) {
		f.invalid("limit", text, "a number of at least 0")
	}
	return n
}

// clip bounds a text for an error.
func clip(text string) string {
	if len(text) > 100 {
		return text[:100] + "…"
	}
	return text
}
