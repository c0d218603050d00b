package wording

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// Status returns the lines about what people and other alerts have decided about g: who handles it, and why nobody is
// notified of it.
func (m *Markup) Status(g alerts.Group) []string {
	var lines []string
	if g.Ack != nil {
		lines = append(lines, fmt.Sprintf(":eyes: Acknowledged by %s %s", m.Person(g.Ack.By, g.Ack.ByName), m.Clock(g.Ack.At)))
	}
	if line := m.Decided(g); line != "" {
		lines = append(lines, line)
	}
	for _, a := range g.Alerts {
		if line := m.mutedBy(&a).line; line != "" && a.State == alerts.Firing && !slices.Contains(lines, line) && len(lines) < maxMuted {
			lines = append(lines, line)
		}
	}
	return lines
}

// StatusNews returns one line for each change of status since readers were told.
func (m *Markup) StatusNews(g alerts.Group, told Told) []string {
	var lines []string
	add := func(line string) {
		if !slices.Contains(lines, line) { // alerts of a group often share a silence
			lines = append(lines, line)
		}
	}
	switch id := ackID(g); {
	case id == told.Acked:
	case g.Ack != nil:
		add(m.Status(g)[0])
	case g.Firing():
		add(":eyes: No longer acknowledged")
	}
	switch line := m.Decided(g); {
	case line == told.Decided:
	case line != "" && strings.HasSuffix(told.Decided, "\n"+line): // only the assignment is left
		add(":bell: Reopened: it is not fixed\n" + line)
	case line != "":
		if was, rest, ok := strings.Cut(line, "\n"); ok && strings.HasSuffix("\n"+told.Decided, "\n"+rest) {
			line = was // the assignment is as before
		}
		add(line)
	default:
		add(":bell: Reopened: nobody is assigned, and it is not fixed")
	}
	for _, a := range g.Current() {
		was, known := told.Sent[a.Series()]
		now := m.mutedBy(&a)
		switch {
		case !known || a.State != alerts.Firing || now.id == was.Muted:
		case now.id != "":
			add(now.line)
		case was.State == alerts.Firing:
			what := "The silence has ended"
			if strings.HasPrefix(was.Muted, inhibitedBy) {
				what = "No longer part of another alert"
			}
			add(fmt.Sprintf(":bell: %s, still firing after %s: %s", what, quantity.Span(a.UpdatedAt.Sub(a.StartsAt)), m.Plain(Headline(a), maxHeadline)))
		}
	}
	return lines
}

// Decided returns the line on what people have decided about the problem of g, and whether that still holds; "" if nothing.
func (m *Markup) Decided(g alerts.Group) string {
	p := g.Known
	if p == nil {
		return ""
	}
	version := func(v string) string {
		if v == "" {
			return ""
		}
		return " in " + m.code(v)
	}
	var parts []string
	switch {
	case p.Regressed != nil:
		r := p.Regressed
		parts = append(parts, fmt.Sprintf(":rotating_light: %s again%s; fixed%s, said %s", m.Bold("Regressed:"), version(r.Version), version(r.Fixed.Version), m.Person("", r.Fixed.By)))
	case p.Resolved != nil:
		parts = append(parts, fmt.Sprintf(":white_check_mark: Fixed%s, says %s", version(p.Resolved.Version), m.Person("", p.Resolved.By)))
	}
	if p.Assignee != "" {
		parts = append(parts, ":bust_in_silhouette: Assigned to "+m.Person(p.Assignee, p.Assignee))
	}
	return strings.Join(parts, "\n")
}

// A muting is the reason why people are not notified of an alert.
type muting struct {
	id   string // changes with every reason; empty if there is none
	line string
}

const inhibitedBy = "inhibitor " // prefix of muting.id

func (m *Markup) mutedBy(a *alerts.Alert) muting {
	switch {
	case a.Silence != nil:
		s := a.Silence
		line := fmt.Sprintf(":no_bell: Silenced by %s until %s", m.Plain(s.CreatedBy, maxName), m.Date(s.EndsAt))
		if s.Comment != "" {
			line += ": " + m.Plain(s.Comment, maxText)
		}
		return muting{fmt.Sprintf("silence %s %d", s.ID, s.EndsAt.Unix()), line}
	case a.Inhibitor != nil:
		line := ":link: Part of " + m.code(a.Inhibitor.Name)
		if u := a.Inhibitor.URL; u != "" {
			line = ":link: Part of " + m.Link(u, m.Plain(a.Inhibitor.Name, maxName))
		}
		if s := a.Inhibitor.Summary; s != "" {
			line += ": " + m.Plain(s, maxText)
		}
		return muting{inhibitedBy + a.Inhibitor.ID, line}
	}
	return muting{}
}

// ackID identifies the acknowledgement of g. It is empty if there is none.
func ackID(g alerts.Group) string {
	if g.Ack == nil {
		return ""
	}
	return fmt.Sprintf("%s %d", g.Ack.By, g.Ack.At.UnixNano())
}
