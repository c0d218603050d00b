package wording

import (
	"fmt"
	"maps"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// Told is what readers of the messages about a group have been told. A change in it is news.
type Told struct {
	Sent    map[string]Sent `json:"sent"`              // last states sent, by series
	Acked   string          `json:"acked"`             // ackID that was last sent
	Decided string          `json:"decided,omitempty"` // Markup.Decided that was last sent
}

// Tell returns what readers know once g has been sent; before is what they knew.
func (m *Markup) Tell(g alerts.Group, before Told) Told {
	return Told{Sent: m.states(g, before.Sent), Acked: ackID(g), Decided: m.Decided(g)}
}

// A Sent is the part of an alert's state that was last sent for one series. A change in it is news.
type Sent struct {
	State    alerts.State    `json:"state"`
	Severity string          `json:"severity"`
	Known    map[string]bool `json:"known"`           // causes and failing versions
	Muted    string          `json:"muted,omitempty"` // muting.id
}

// states returns the states sent once g has been sent; before are the states sent earlier. Known causes are kept,
// so a cause that disappears and returns is news only once. What happens while a group is muted is news afterwards.
func (m *Markup) states(g alerts.Group, before map[string]Sent) map[string]Sent {
	out := map[string]Sent{}
	muted := g.Muted()
	for _, a := range g.Current() {
		k := a.Series()
		if muted && a.State == alerts.Firing {
			if was, known := before[k]; known {
				was.Muted = m.mutedBy(&a).id
				out[k] = was
			}
			continue
		}
		x := Sent{State: a.State, Severity: a.Severity(), Known: maps.Clone(before[k].Known), Muted: m.mutedBy(&a).id}
		if x.Known == nil {
			x.Known = map[string]bool{}
		}
		for _, f := range m.facts(a) {
			x.Known[f.key] = true
		}
		out[k] = x
	}
	return out
}

// A fact is one cause or failing version, and the line that reports it.
type fact struct{ key, line string }

func (m *Markup) facts(a alerts.Alert) []fact {
	var out []fact
	ev := a.Evidence
	lines := m.Causes(ev, true)
	for i, s := range ev.Shares {
		if i < maxShares && ev.Material(s.Failed) {
			out = append(out, fact{"cause " + s.Cause + " " + s.RootCause, "New " + Kind(&ev, s) + ": " + lines[i]})
		}
	}
	for _, v := range ev.Versions {
		if ev.Material(v.Failed) {
			out = append(out, fact{"version " + v.Version, "Now also in " + m.failures(ev, v)})
		}
	}
	return out
}

// News returns one line for each change of g since the states in before were sent.
func (m *Markup) News(g alerts.Group, before map[string]Sent) []string {
	var out []string
	current, over := g.Current(), false
	firing := maps.Clone(before)
	maps.DeleteFunc(firing, func(_ string, s Sent) bool { return s.State != alerts.Firing })
	known := map[string]bool{} // facts that people know of the problem, whichever alert has them
	for _, s := range before {
		maps.Copy(known, s.Known)
	}
	for _, a := range current {
		name := ""
		if len(current) > 1 && a.Problem == "" {
			name = m.Plain(ShortSubject(a), maxHeadline) + ": "
		}
		was, shown := before[a.Series()]
		switch {
		case !shown && a.Problem != "" && a.State == alerts.Resolved && g.Firing(): // it began and ended unseen
			continue
		case !shown || was.State == alerts.Resolved && a.State == alerts.Firing:
			line := Headline(a)
			if a.Problem != "" && a.Rank() < SentRank(firing) { // people know the problem and its severity
				line = "Also " + Other(a)
			}
			out = append(out, Icon(a)+" "+m.Plain(line, maxHeadline))
			continue
		case a.State == alerts.Resolved && was.State == alerts.Firing:
			switch {
			case a.Problem == "":
				out = append(out, m.endOf(a, name)...)
			case g.Firing():
				out = append(out, fmt.Sprintf("%s %s ended after %s; the problem goes on: %s", EndedIcon, m.Plain(a.Name, maxName), quantity.Span(a.EndsAt.Sub(a.StartsAt)), m.Plain(Headline(Whole(g, current)), maxHeadline)))
			case !over: // once for all alerts
				over = true
				out = append(out, m.endOf(Whole(g, current), "")...)
			}
			continue
		case a.State == alerts.Resolved:
			continue
		case was.Severity != a.Severity():
			out = append(out, fmt.Sprintf("%s %sNow %s: %s", Icon(a), name, m.Plain(severityWord(a), maxHeadline), m.Plain(Counts(&a), maxHeadline)))
		}
		for _, f := range m.facts(a) {
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
func (m *Markup) endOf(a alerts.Alert, name string) []string {
	out := []string{fmt.Sprintf("%s %sResolved after %s: %s", Icon(a), name, quantity.Span(a.EndsAt.Sub(a.StartsAt)), m.Plain(Counts(&a), maxHeadline))}
	if last := m.LastFailure(a); last != "" {
		out = append(out, last)
	}
	return out
}

// Reminder returns the lines for a group that still fires but has no news.
func (m *Markup) Reminder(g alerts.Group) []string {
	var out []string
	current := g.Current()
	if g.Problem() != "" {
		current = []alerts.Alert{Whole(g, current)}
	}
	for _, a := range current {
		if a.State == alerts.Firing {
			line := fmt.Sprintf(":bell: Still firing after %s: %s", quantity.Span(a.UpdatedAt.Sub(a.StartsAt)), m.Plain(Headline(a), maxHeadline))
			if out = append(out, line); m.LastFailure(a) != "" {
				out = append(out, m.LastFailure(a))
			}
		}
	}
	return out
}

// SentRank returns one more than the highest Rank of states, or 0 if there is none.
func SentRank(states map[string]Sent) (rank int) {
	for _, s := range states {
		a := alerts.Alert{Labels: map[string]string{"severity": s.Severity}}
		rank = max(rank, a.Rank()+1)
	}
	return rank
}
