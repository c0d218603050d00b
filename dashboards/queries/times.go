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

// forms are the ways to write a moment. One without a zone is UTC, as every time that a query prints.
var forms = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly}

// ParseTime reads a moment: a length of time before now ("15 minutes", "2h", "1h30m", "7d"), a date, RFC 3339, or "now".
func ParseTime(text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "now" {
		return now, nil
	}
	for _, form := range forms {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC(), nil
		}
	}
	ago, ok := parseLength(strings.TrimSuffix(text, " ago"))
	if !ok {
		return time.Time{}, fmt.Errorf("%q is no time; write 15 minutes, 2h, 7d, 2026-11-20 or 2026-11-20T09:30:00Z", text)
	}
	return now.Add(-ago), nil
}

// parseLength reads a length of time: numbers with units, one after another.
func parseLength(text string) (total time.Duration, ok bool) {
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
		length := number * float64(unit)
		if err != nil || !known || length > float64(100*365*24*time.Hour) {
			return 0, false
		}
		total += time.Duration(length)
		rest = rest[end:]
	}
	return total, text != "" && total >= 0 && total < 200*365*24*time.Hour
}
