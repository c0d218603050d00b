package wording

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// recent is the age above which a failure is no longer new.
const recent = 24 * time.Hour

// noDeployment lists causes that a deployment of the agent cannot explain.
var noDeployment = []string{"rate_limit", "server_error", "no_response", "stream_error", "content_policy", "billing"}

// failures returns the number of failures and calls of one version of ev as text.
func (m *Markup) failures(ev alerts.Evidence, v alerts.VersionCount) string {
	switch {
	case v.Failed == 0:
		return fmt.Sprintf("none in %s (%s)", m.code(v.Version), quantity.Plural(v.Calls, "call"))
	case len(ev.Rules) > 0:
		return fmt.Sprintf("%s: %s in %s", m.code(v.Version), quantity.Count(v.Failed), quantity.Plural(v.Calls, "call"))
	}
	return fmt.Sprintf("%s: %s of %s calls failed", m.code(v.Version), quantity.Count(v.Failed), quantity.Count(v.Calls))
}

// WhoseChange returns the lines about the responsible change: first from the ledger, then the versions in the window
// that fail, then the versions that do not. If brief is true, dates are omitted, and only the first line matters.
func (m *Markup) WhoseChange(ev alerts.Evidence, start time.Time, brief bool) []string {
	if ev.ProviderChanged() {
		switch {
		case ev.Rules[0] == signals.ModelChanged && ev.Example != nil:
			return []string{m.Plain(ev.Example.Summary, maxText)}
		case brief:
			return []string{"the provider's"}
		case ev.Rules[0] == signals.ModelChanged:
			return []string{"the provider's: another model answers"}
		}
		return []string{"the provider's: it accepted such requests from the same version before"}
	}
	if len(ev.Versions) == 1 && ev.Versions[0].Version == "" {
		if brief {
			return []string{"unknown, the agent reports no version"}
		}
		return []string{"unknown: the agent reports no service version (set " + m.Mono("service.version") + " in " + m.Mono("OTEL_RESOURCE_ATTRIBUTES") + ")"}
	}
	var lines, firsts []string
	for i, r := range m.regressions(ev, start) {
		if brief && i == 0 {
			return []string{r.brief}
		}
		lines, firsts = append(lines, r.line), append(firsts, r.version)
	}
	known := len(lines) > 0
	var failing, clean []alerts.VersionCount
	for _, v := range ev.Versions {
		switch {
		case v.Failed > 0:
			failing = append(failing, v)
		case v.Calls > 0:
			clean = append(clean, v)
		}
	}
	limit := len(lines) + maxVersions
	for _, v := range slices.Backward(failing) {
		if len(lines) == limit {
			break
		}
		s := m.failures(ev, v)
		if len(failing) == 1 && slices.ContainsFunc(clean, func(c alerts.VersionCount) bool { return alerts.EnoughCalls(c.Calls, v.Failed, v.Calls) }) {
			s = "only in " + s
		}
		if !brief && !v.FirstSeen.IsZero() && !slices.Contains(firsts, v.Version) {
			s += ", first call " + m.Date(v.FirstSeen)
		}
		if len(failing) > 1 && v.CallsSince > 0 && ev.LastFailed.Sub(v.LastFailed) >= time.Minute {
			s += fmt.Sprintf(", none since %s in %s", m.Clock(v.LastFailed), quantity.Plural(v.CallsSince, "call"))
		}
		lines = append(lines, s)
	}
	for _, v := range slices.Backward(clean) {
		if len(lines) == limit {
			break
		}
		s := m.failures(ev, v)
		if v.FirstSeen.After(start) {
			s += ", first call " + m.Date(v.FirstSeen)
		}
		lines = append(lines, s)
	}
	if len(failing) > 1 && len(clean) == 0 && !known {
		lines = append(lines, "all versions are affected, so a single deployment is not the cause")
	}
	return lines
}

// FirstVersion returns the first version with a failure of ev, according to the ledger; "" if it is unknown.
func (m *Markup) FirstVersion(ev alerts.Evidence, start time.Time) string {
	if list := m.regressions(ev, start); len(list) > 0 {
		return OneLine(list[0].version, maxName)
	}
	return ""
}

// A regression is the ledger's entry for a share: the first version with the failure, and the lines that report it.
type regression struct{ version, line, brief string }

// regressions returns the distinct ledger entries of the shares.
func (m *Markup) regressions(ev alerts.Evidence, start time.Time) []regression {
	var out []regression
	seen := map[[2]string]bool{}
	for i, s := range ev.Shares {
		k := [2]string{s.FirstVersion, s.LastClean}
		if i == maxShares || s.FirstVersion == "" || s.RootCause == "" && slices.Contains(noDeployment, s.Cause) || seen[k] {
			continue
		}
		seen[k] = true
		var prefix []string
		if i > 0 {
			prefix = append(prefix, m.code(s.ID()))
		}
		if start.Sub(s.FirstAt) > recent {
			prefix = append(prefix, "not new")
		}
		line := fmt.Sprintf("first seen in %s (%s), ", m.code(s.FirstVersion), m.Date(s.FirstAt))
		if len(prefix) > 0 {
			line = strings.Join(prefix, ", ") + ": " + line
		}
		short := "in " + m.code(s.FirstVersion)
		if s.LastClean != "" {
			short = "since " + m.code(s.FirstVersion)
		}
		if start.Sub(s.FirstAt) > recent {
			short = "not new, " + short
		}
		switch {
		case s.LastClean != "":
			short += ", last clean " + m.code(s.LastClean)
			line += "last clean version " + m.code(s.LastClean)
		case s.Earlier || len(ev.Versions) > 1:
			short += ", no clean version known"
			line += "no clean version known"
		default:
			short += ", the only version seen"
			line += "the only version seen"
		}
		out = append(out, regression{s.FirstVersion, line, short})
	}
	return out
}
