package queries

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour,
}

// layouts lists the accepted layouts of a time. The last one is the layout of times in tables.
var layouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly, "2006-01-02 15:04:05 MST",
}

// ParseTime parses a time: a duration before now ("15 minutes", "2h", "1h30m", "7d"), a date, RFC 3339, or "now". A time
// without a zone is in the zone of now. The result is in UTC.
func ParseTime(text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "now" {
		return now.UTC(), nil
	}
	for _, layout := range layouts {
		t, err := time.ParseInLocation(layout, text, now.Location())
		// An abbreviation is accepted only if it is one of now's location or UTC: others, such as CST, are ambiguous.
		if err == nil && (!strings.HasSuffix(layout, "MST") || t.Location() == now.Location() || t.Location() == time.UTC) {
			return t.UTC(), nil
		}
	}
	ago, ok := parseDuration(strings.TrimSuffix(text, " ago"))
	if !ok {
		return time.Time{}, fmt.Errorf("%q is not a time; examples are 15 minutes, 2h, 7d, 2026-11-20 and 2026-11-20T09:30:00Z", text)
	}
	return now.UTC().Add(-ago), nil
}

// parseDuration parses a sequence of numbers with units, for example 1h30m.
func parseDuration(text string) (total time.Duration, ok bool) {
	rest := strings.ReplaceAll(text, " ", "")
	for rest != "" {
		n := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
		if n <= 0 {
			return 0, false
		}
		number, err := strconv.ParseFloat(rest[:n], 64)
		rest = rest[n:]
		end := strings.IndexFunc(rest, func(r rune) bool { return r >= '0' && r <= '9' })
		if end < 0 {
			end = len(rest)
		}
		unit, known := units[strings.ToLower(rest[:end])]
		if !known {
			unit, known = units[strings.TrimSuffix(strings.ToLower(rest[:end]), "s")]
		}
		d := number * float64(unit)
		if err != nil || !known || d > float64(100*365*24*time.Hour) {
			return 0, false
		}
		total += time.Duration(d)
		rest = rest[end:]
	}
	return total, text != "" && total >= 0 && total < 200*365*24*time.Hour
}
