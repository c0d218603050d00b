package analyzer

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A RateLimit is the least that remained of a rate limit in the second of a Tally, by the headers of responses.
type RateLimit struct {
	Service     string `json:"service"`
	Environment string `json:"environment,omitempty"`
	Provider    string `json:"provider"`
	Model       string `json:"model,omitempty"`
	Kind        string `json:"kind"` // one of the kinds in package wire
	Remaining   uint64 `json:"remaining"`
	Limit       uint64 `json:"limit,omitempty"` // 0 if unknown
	Reset       uint64 `json:"reset,omitempty"` // seconds until it is reset, rounded up; 0 if unknown
}

func (r *RateLimit) compare(o *RateLimit) int {
	key := func(r *RateLimit) []string { return []string{r.Service, r.Environment, r.Provider, r.Model, r.Kind} }
	return slices.Compare(key(r), key(o))
}

const (
	// maxLimitBytes bounds the estimated JSON bytes of the rate limits of a tally.
	maxLimitBytes = 64 << 10
	// maxReset bounds the time until a rate limit is reset, in seconds. What is longer is no such time.
	maxReset = 366 * 24 * 3600
)

// rateLimits adds what a response said of rate limits, in the format of event.Event.RateLimits. s has the labels of its call.
func (c *counter) rateLimits(s *series, text string, now time.Time) {
	for part := range strings.FieldsSeq(text) {
		r, ok := parseRateLimit(part, now)
		if !ok {
			continue
		}
		r.Service, r.Environment, r.Provider, r.Model = s[labelService], s[labelEnvironment], s[labelProvider], s[labelModel]
		i, known := slices.BinarySearchFunc(c.limits, &r, func(a RateLimit, b *RateLimit) int { return a.compare(b) })
		switch size := 128 + jsonBytes(r.Service, r.Environment, r.Provider, r.Model); {
		case known:
			if r.Remaining < c.limits[i].Remaining {
				c.limits[i] = r
			}
		case c.limitBytes+size <= maxLimitBytes:
			c.limits, c.limitBytes = slices.Insert(c.limits, i, r), c.limitBytes+size
		}
	}
}

// parseRateLimit parses kind=remaining/limit/reset. It returns false if it is not known what remains.
func parseRateLimit(s string, now time.Time) (r RateLimit, ok bool) {
	kind, values, _ := strings.Cut(s, "=")
	switch kind {
	case wire.LimitRequests, wire.LimitTokens, wire.LimitInputTokens, wire.LimitOutputTokens:
	default:
		return r, false
	}
	remaining, rest, _ := strings.Cut(values, "/")
	limit, reset, _ := strings.Cut(rest, "/")
	if r.Remaining, ok = parseAmount(remaining); !ok {
		return r, false
	}
	r.Kind = kind
	if r.Limit, _ = parseAmount(limit); r.Limit < r.Remaining {
		r.Limit = 0 // of something else
	}
	r.Reset = parseReset(reset, now)
	return r, true
}

// parseAmount parses a number of requests or tokens. Less than nothing is nothing.
func parseAmount(s string) (uint64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f > 1<<53 {
		return 0, false
	}
	return uint64(max(f, 0)), true
}

// parseReset returns the seconds from now until s, at least 1, or 0 if s is unknown. s is a duration such as 6m0s or 12ms, a time in
// RFC 3339, a number of seconds, or the Unix time in seconds or milliseconds.
func parseReset(s string, now time.Time) uint64 {
	if s == "" {
		return 0
	}
	seconds := math.NaN()
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		switch {
		case f < 1e9:
			seconds = f
		case f < 1e11:
			seconds = f - float64(now.UnixMilli())/1e3
		default:
			seconds = (f - float64(now.UnixMilli())) / 1e3
		}
	} else if d, err := time.ParseDuration(s); err == nil {
		seconds = d.Seconds()
	} else if t, err := time.Parse(time.RFC3339, s); err == nil {
		seconds = t.Sub(now).Seconds()
	}
	if !(seconds <= maxReset) { // also if it is not a number
		return 0
	}
	return uint64(max(math.Ceil(seconds), 1))
}
