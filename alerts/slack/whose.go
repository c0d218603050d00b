package slack

import (
	"fmt"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts"
)

// notNew is how long before an alert a failure must have been there to be no news.
const notNew = 24 * time.Hour

// noDeploy are causes that come without anybody's change.
var noDeploy = []string{"rate_limit", "server_error", "no_response", "stream_error", "content_policy", "billing"}

// whose says whose change it was: what the ledger remembers, then which versions of the window fail and which do not.
func whose(ev alerts.Evidence, start time.Time) []string {
	if len(ev.Versions) == 1 && ev.Versions[0].Version == "" {
		return []string{"unknown: the agent names no service version (set `service.version` in `OTEL_RESOURCE_ATTRIBUTES`)"}
	}
	var lines, firsts []string
	for _, c := range remembered(ev, start) {
		lines, firsts = append(lines, c.line), append(firsts, c.version)
	}
	known := len(lines) > 0
	var bad, clean []alerts.VersionCount
	for _, v := range ev.Versions {
		switch {
		case v.Failed > 0:
			bad = append(bad, v)
		case v.Calls > 0:
			clean = append(clean, v)
		}
	}
	bound := len(lines) + maxVersions
	for _, v := range slices.Backward(bad) {
		if len(lines) == bound {
			break
		}
		s := fmt.Sprintf("%s: %s of %s calls failed", code(v.Version), number(v.Failed), number(v.Calls))
		if len(bad) == 1 && len(clean) > 0 {
			s = "all in " + s
		}
		if !v.FirstSeen.IsZero() && !slices.Contains(firsts, v.Version) {
			s += ", first seen " + date(v.FirstSeen)
		}
		lines = append(lines, s)
	}
	for _, v := range slices.Backward(clean) {
		if len(lines) == bound {
			break
		}
		lines = append(lines, fmt.Sprintf("%s: 0 of %s", code(v.Version), number(v.Calls)))
	}
	if len(bad) > 1 && len(clean) == 0 && !known {
		lines = append(lines, "every version fails, so it is not one deployment")
	}
	return lines
}

// A change is what the ledger knows of a share: the version that showed it first, the last clean one, and the line that
// tells it.
type change struct{ version, clean, line string }

// remembered is what the ledger knows of each share, but for those that say the same.
func remembered(ev alerts.Evidence, start time.Time) []change {
	var out []change
	told := map[[2]string]bool{}
	for i, s := range ev.Shares {
		k := [2]string{s.FirstVersion, s.LastClean}
		if i == maxShares || s.FirstVersion == "" || s.RootCause == "" && slices.Contains(noDeploy, s.Cause) || told[k] {
			continue
		}
		told[k] = true
		line := fmt.Sprintf("first in %s (%s), ", code(s.FirstVersion), date(s.FirstAt))
		if start.Sub(s.FirstAt) > notNew {
			line = "not new: " + line
		}
		if s.LastClean != "" {
			line += "last clean " + code(s.LastClean)
		} else {
			line += "no clean version known"
		}
		if i > 0 {
			line = code(s.ID()) + " " + line
		}
		out = append(out, change{s.FirstVersion, s.LastClean, line})
	}
	return out
}
