package alerts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts/rules"
)

// ID is the same for all states of one alert and no other: 32 hex digits of rule, labels and start.
func (a *Alert) ID() string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s,%d", rules.Key(a.Name, a.Labels), a.StartsAt.UnixNano()))
	return hex.EncodeToString(h[:16])
}

// Severity of an alert; "" if its rule sets none.
func (a *Alert) Severity() string { return a.Labels["severity"] }

// rank orders severities; an alert hides those of lower rank on the same series.
func rank(severity string) int {
	switch severity {
	case "critical", "page":
		return 3
	case "error":
		return 2
	case "warning":
		return 1
	}
	return 0
}

// seriesKey names what an alert is about, whatever its severity.
func seriesKey(name string, kv map[string]string) string {
	kv = maps.Clone(kv)
	delete(kv, "severity")
	return rules.Key(name, kv)
}

// Firing reports whether any alert of the group fires.
func (g Group) Firing() bool {
	return slices.ContainsFunc(g.Alerts, func(a Alert) bool { return a.State == Firing })
}

// Since is when the first alert of the group started.
func (g Group) Since() time.Time {
	var t time.Time
	for _, a := range g.Alerts {
		if t.IsZero() || a.StartsAt.Before(t) {
			t = a.StartsAt
		}
	}
	return t
}

// Current is what the group says of each series: the alert that fires, else the worst that is over. Its StartsAt is
// that of the first alert of the series, so an escalation does not restart the clock. Order: of first appearance.
func (g Group) Current() []Alert {
	var out []Alert
	at := map[string]int{}
	for _, a := range g.Alerts {
		k := seriesKey(a.Name, a.Labels)
		i, ok := at[k]
		if !ok {
			at[k] = len(out)
			out = append(out, a)
			continue
		}
		start, end, peak := out[i].StartsAt, out[i].EndsAt, max(out[i].Peak, a.Peak)
		if a.StartsAt.Before(start) {
			start = a.StartsAt
		}
		if a.EndsAt.After(end) {
			end = a.EndsAt
		}
		switch firing, was := a.State == Firing, out[i].State == Firing; {
		case firing && !was, firing == was && rank(a.Severity()) >= rank(out[i].Severity()):
			out[i] = a
		}
		out[i].StartsAt, out[i].Peak = start, peak
		if out[i].State == Resolved {
			out[i].EndsAt = end
		}
	}
	return out
}

// groupKey names the message that an alert belongs to.
func groupKey(name string, kv map[string]string, by []string) string {
	var b strings.Builder
	b.WriteString(name)
	b.WriteByte('{')
	n := 0
	for _, l := range by {
		if v, ok := kv[l]; ok {
			if n++; n > 1 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%s=%q", l, v)
		}
	}
	b.WriteByte('}')
	return b.String()
}
