package slack

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/alerts"
)

// A gist is what was told of one series: what makes a later state news.
type gist struct {
	State    alerts.State    `json:"state"`
	Severity string          `json:"severity"`
	Known    map[string]bool `json:"known"` // causes and failing versions
}

// minShare is the part of the failed calls from which a cause or a version is news.
const minShare = 0.05

// gistOf adds what g says to what was known before, so that a cause that comes and goes is news once.
func gistOf(g alerts.Group, before map[string]gist) map[string]gist {
	out := map[string]gist{}
	for _, a := range g.Current() {
		k := seriesOf(a)
		x := gist{State: a.State, Severity: a.Severity(), Known: maps.Clone(before[k].Known)}
		if x.Known == nil {
			x.Known = map[string]bool{}
		}
		for _, n := range facts(a) {
			x.Known[n.key] = true
		}
		out[k] = x
	}
	return out
}

// seriesOf names what an alert is about, whatever its severity.
func seriesOf(a alerts.Alert) string {
	var b strings.Builder
	b.WriteString(a.Name)
	for _, k := range slices.Sorted(maps.Keys(a.Labels)) {
		if k != "severity" {
			fmt.Fprintf(&b, ",%s=%s", k, a.Labels[k])
		}
	}
	return b.String()
}

// A fact is one cause or failing version, and the line that tells it.
type fact struct{ key, line string }

func facts(a alerts.Alert) []fact {
	var out []fact
	ev := a.Evidence
	enough := func(failed uint64) bool { return failed > 0 && float64(failed) >= minShare*float64(ev.Failed) }
	lines := why(ev)
	for i, s := range ev.Shares {
		if i < maxShares && enough(s.Failed) {
			out = append(out, fact{"cause " + s.Cause + " " + s.RootCause, "new cause: " + lines[i]})
		}
	}
	for _, v := range ev.Versions {
		if enough(v.Failed) {
			out = append(out, fact{
				"version " + v.Version,
				fmt.Sprintf("now also in %s: %s of %s calls failed", code(v.Version), number(v.Failed), number(v.Calls)),
			})
		}
	}
	return out
}

// news is what the thread says of g after before was told: nothing, or one line for each change.
func news(g alerts.Group, before map[string]gist) []string {
	var out []string
	current := g.Current()
	for _, a := range current {
		name := ""
		if len(current) > 1 {
			name = escape(subject(a)) + ": "
		}
		was, known := before[seriesOf(a)]
		switch {
		case !known || was.State == alerts.Resolved && a.State == alerts.Firing:
			out = append(out, icon(a)+" "+escape(what(a)))
			continue
		case a.State == alerts.Resolved && was.State == alerts.Firing:
			out = append(out, fmt.Sprintf("%s %sresolved after %s, %s", icon(a), name, duration(a.EndsAt.Sub(a.StartsAt)), escape(counts(a))))
			continue
		case a.State == alerts.Resolved:
			continue
		case was.Severity != a.Severity():
			out = append(out, fmt.Sprintf("%s %snow %s: %s", icon(a), name, escape(strings.ToUpper(a.Severity())), escape(counts(a))))
		}
		for _, f := range facts(a) {
			if !was.Known[f.key] {
				out = append(out, name+f.line)
			}
		}
	}
	return out
}

// reminder is what the thread says when nothing is new but it still fires.
func reminder(g alerts.Group) []string {
	var out []string
	for _, a := range g.Current() {
		if a.State == alerts.Firing {
			out = append(out, fmt.Sprintf(":bell: still firing after %s: %s", duration(a.UpdatedAt.Sub(a.StartsAt)), escape(what(a))))
		}
	}
	return out
}
