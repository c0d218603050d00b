package slack

import (
	"fmt"
	"maps"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// A sentState is the part of an alert's state that was last sent for one series. A change in it is news.
type sentState struct {
	State    alerts.State    `json:"state"`
	Severity string          `json:"severity"`
	Known    map[string]bool `json:"known"`           // causes and failing versions
	Muted    string          `json:"muted,omitempty"` // muting.id
}

// sentStates returns the states sent once g has been sent; before are the states sent earlier. Known causes are kept,
// so a cause that disappears and returns is news only once. What happens while a group is muted is news afterwards.
func sentStates(g alerts.Group, before map[string]sentState) map[string]sentState {
	out := map[string]sentState{}
	muted := g.Muted()
	for _, a := range g.Current() {
		k := a.Series()
		if muted && a.State == alerts.Firing {
			if was, known := before[k]; known {
				was.Muted = mutedBy(&a).id
				out[k] = was
			}
			continue
		}
		x := sentState{State: a.State, Severity: a.Severity(), Known: maps.Clone(before[k].Known), Muted: mutedBy(&a).id}
		if x.Known == nil {
			x.Known = map[string]bool{}
		}
		for _, f := range facts(a) {
			x.Known[f.key] = true
		}
		out[k] = x
	}
	return out
}

// A fact is one cause or failing version, and the line that reports it.
type fact struct{ key, line string }

func facts(a alerts.Alert) []fact {
	var out []fact
	ev := a.Evidence
	lines := why(ev, true)
	for i, s := range ev.Shares {
		if i < maxShares && ev.Material(s.Failed) {
			out = append(out, fact{"cause " + s.Cause + " " + s.RootCause, "New " + wording.Kind(&ev, s) + ": " + lines[i]})
		}
	}
	for _, v := range ev.Versions {
		if ev.Material(v.Failed) {
			out = append(out, fact{"version " + v.Version, "Now also in " + failures(ev, v)})
		}
	}
	return out
}

// news returns one line for each change of g since the states in before were sent.
func news(g alerts.Group, before map[string]sentState) []string {
	var out []string
	current, over := g.Current(), false
	firing := maps.Clone(before)
	maps.DeleteFunc(firing, func(_ string, s sentState) bool { return s.State != alerts.Firing })
	known := map[string]bool{} // facts that people know of the problem, whichever alert has them
	for _, s := range before {
		maps.Copy(known, s.Known)
	}
	for _, a := range current {
		name := ""
		if len(current) > 1 && a.Problem == "" {
			name = plain(subject(a), maxHeader) + ": "
		}
		was, shown := before[a.Series()]
		switch {
		case !shown && a.Problem != "" && a.State == alerts.Resolved && g.Firing(): // it began and ended unseen
			continue
		case !shown || was.State == alerts.Resolved && a.State == alerts.Firing:
			line := headline(a)
			if a.Problem != "" && a.Rank() < sentRank(firing) { // people know the problem and its severity
				line = "Also " + otherAlert(a)
			}
			out = append(out, icon(a)+" "+plain(line, maxHeader))
			continue
		case a.State == alerts.Resolved && was.State == alerts.Firing:
			switch {
			case a.Problem == "":
				out = append(out, endOf(a, name)...)
			case g.Firing():
				out = append(out, fmt.Sprintf("%s %s ended after %s; the problem goes on: %s", ended, plain(a.Name, maxName), quantity.Span(a.EndsAt.Sub(a.StartsAt)), plain(headline(whole(g, current)), maxHeader)))
			case !over: // once for all alerts
				over = true
				out = append(out, endOf(whole(g, current), "")...)
			}
			continue
		case a.State == alerts.Resolved:
			continue
		case was.Severity != a.Severity():
			out = append(out, fmt.Sprintf("%s %sNow %s: %s", icon(a), name, plain(severity(a), maxHeader), plain(wording.Counts(&a), maxHeader)))
		}
		for _, f := range facts(a) {
			if was.Known[f.key] || a.Problem != "" && known[f.key] {
				continue
			}
			known[f.key] = true
			out = append(out, name+f.line)
		}
	}
	return out
}

// endOf returns the lines about the end of a.
func endOf(a alerts.Alert, name string) []string {
	out := []string{fmt.Sprintf("%s %sResolved after %s: %s", icon(a), name, quantity.Span(a.EndsAt.Sub(a.StartsAt)), plain(wording.Counts(&a), maxHeader))}
	if last := lastFailure(a); last != "" {
		out = append(out, last)
	}
	return out
}

// reminder returns the lines for a group that still fires but has no news.
func reminder(g alerts.Group) []string {
	var out []string
	current := g.Current()
	if g.Problem() != "" {
		current = []alerts.Alert{whole(g, current)}
	}
	for _, a := range current {
		if a.State == alerts.Firing {
			line := fmt.Sprintf(":bell: Still firing after %s: %s", quantity.Span(a.UpdatedAt.Sub(a.StartsAt)), plain(headline(a), maxHeader))
			if out = append(out, line); lastFailure(a) != "" {
				out = append(out, lastFailure(a))
			}
		}
	}
	return out
}
