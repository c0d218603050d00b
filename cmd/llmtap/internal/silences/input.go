package silences

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/llmtap/llmtap/dashboards/queries"
)

// Period returns the start and the end of a silence from the flags of llmtap alerts silence add.
func Period(from, until, duration string, now time.Time) (start, end time.Time, err error) {
	if (until == "") == (duration == "") {
		return start, end, errors.New("exactly one of --for and --until is required")
	}
	if start, err = queries.ParseTime(from, now); err != nil {
		return start, end, fmt.Errorf("--from: %w", err)
	}
	if start.Before(now) {
		start = now.UTC()
	}
	if until != "" {
		if end, err = queries.ParseTime(until, now); err != nil {
			return start, end, fmt.Errorf("--until: %w", err)
		}
		if !end.After(now) {
			return start, end, fmt.Errorf("--until: %s is in the past", end.Format(time.RFC3339))
		}
		return start, end, nil
	}
	ago, err := queries.ParseTime(duration, now)
	if err != nil || !ago.Before(now) || strings.ContainsAny(duration, "-:") {
		return start, end, fmt.Errorf("--for: %q is not a duration, such as 30m, 2h or 1d", duration)
	}
	return start, start.Add(now.Sub(ago)), nil
}

// Author returns the default author of a silence: user@host.
func Author(getenv func(string) string) string {
	name := cmp.Or(getenv("USER"), getenv("LOGNAME"))
	if u, err := user.Current(); name == "" && err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return cmp.Or(name, "unknown")
	}
	return cmp.Or(name, "unknown") + "@" + host
}
