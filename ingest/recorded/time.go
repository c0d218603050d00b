package recorded

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Range of event times, less the maximum duration.
var (
	earliest = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2261, 1, 1, 0, 0, 0, 0, time.UTC)
)

// parseTime parses a time in one of the formats of Line. It returns the zero time if s is invalid.
func parseTime(s Text) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", http.TimeFormat} { // all accept fractions
		if t, err := time.Parse(layout, string(s)); err == nil {
			return plausible(t)
		}
	}
	whole, fraction, _ := strings.Cut(string(s), ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}
	}
	nanos, err := strconv.ParseUint((fraction + "000000000")[:9], 10, 32)
	if err != nil {
		return time.Time{}
	}
	if seconds > 1e11 {
		return plausible(time.UnixMilli(seconds))
	}
	return plausible(time.Unix(seconds, int64(nanos)))
}

func plausible(t time.Time) time.Time {
	if t = t.UTC(); t.Before(earliest) || !t.Before(latest) {
		return time.Time{}
	}
	return t
}
