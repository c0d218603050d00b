package slack

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// status returns the lines about what people and other alerts have decided about g: who handles it, and why nobody is
// notified of it.
func status(g alerts.Group) []string {
	var lines []string
	if g.Ack != nil {
		lines = append(lines, fmt.Sprintf(":eyes: Acknowledged by %s %s", person(g.Ack.By, g.Ack.ByName), clock(g.Ack.At)))
	}
	if line := decided(g); line != "" {
		lines = append(lines, line)
	}
	for _, a := range g.Alerts {
		if line := mutedBy(&a).line; line != "" && a.State == alerts.Firing && !slices.Contains(lines, line) && len(lines) < maxAlerts {
			lines = append(lines, line)
		}
	}
	return lines
}

// statusNews returns one line for each change of status since p was sent.
func statusNews(g alerts.Group, p *notice) []string {
	var lines []string
	add := func(line string) {
		if !slices.Contains(lines, line) { // alerts of a group often share a silence
			lines = append(lines, line)
		}
	}
	switch id := ackID(g); {
	case id == p.Acked:
	case g.Ack != nil:
		add(status(g)[0])
	case g.Firing():
		add(":eyes: No longer acknowledged")
	}
	switch line := decided(g); {
	case line == p.Decided:
	case line != "" && strings.HasSuffix(p.Decided, "\n"+line): // only the assignment is left
		add(":bell: Reopened: it is not fixed\n" + line)
	case line != "":
		if was, rest, ok := strings.Cut(line, "\n"); ok && strings.HasSuffix("\n"+p.Decided, "\n"+rest) {
			line = was // the assignment is as before
		}
		add(line)
	default:
		add(":bell: Reopened: nobody is assigned, and it is not fixed")
	}
	for _, a := range g.Current() {
		was, known := p.Sent[a.Series()]
		now := mutedBy(&a)
		switch {
		case !known || a.State != alerts.Firing || now.id == was.Muted:
		case now.id != "":
			add(now.line)
		case was.State == alerts.Firing:
			what := "The silence has ended"
			if strings.HasPrefix(was.Muted, inhibitedBy) {
				what = "No longer part of another alert"
			}
			add(fmt.Sprintf(":bell: %s, still firing after %s: %s", what, quantity.Span(a.UpdatedAt.Sub(a.StartsAt)), plain(headline(a), maxHeader)))
		}
	}
	return lines
}

// decided returns the line on what people have decided about the problem of g, and whether that still holds; "" if nothing.
func decided(g alerts.Group) string {
	p := g.Known
	if p == nil {
		return ""
	}
	version := func(v string) string {
		if v == "" {
			return ""
		}
		return " in " + code(v)
	}
	var parts []string
	switch {
	case p.Regressed != nil:
		r := p.Regressed
		parts = append(parts, fmt.Sprintf(":rotating_light: *Regressed:* again%s; fixed%s, said %s", version(r.Version), version(r.Fixed.Version), person("", r.Fixed.By)))
	case p.Resolved != nil:
		parts = append(parts, fmt.Sprintf(":white_check_mark: Fixed%s, says %s", version(p.Resolved.Version), person("", p.Resolved.By)))
	}
	if p.Assignee != "" {
		parts = append(parts, ":bust_in_silhouette: Assigned to "+person(p.Assignee, p.Assignee))
	}
	return strings.Join(parts, "\n")
}

// A muting is the reason why people are not notified of an alert.
type muting struct {
	id   string // changes with every reason; empty if there is none
	line string
}

const inhibitedBy = "inhibitor " // prefix of muting.id

func mutedBy(a *alerts.Alert) muting {
	switch {
	case a.Silence != nil:
		s := a.Silence
		line := fmt.Sprintf(":no_bell: Silenced by %s until %s", plain(s.CreatedBy, maxName), date(s.EndsAt))
		if s.Comment != "" {
			line += ": " + plain(s.Comment, maxText)
		}
		return muting{fmt.Sprintf("silence %s %d", s.ID, s.EndsAt.Unix()), line}
	case a.Inhibitor != nil:
		line := ":link: Part of " + code(a.Inhibitor.Name)
		if u := a.Inhibitor.URL; u != "" {
			line = fmt.Sprintf(":link: Part of <%s|%s>", escape(u), plain(a.Inhibitor.Name, maxName))
		}
		if s := a.Inhibitor.Summary; s != "" {
			line += ": " + plain(s, maxText)
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

var userID = regexp.MustCompile(`^[UW][A-Z0-9]{2,20}$`)

// person returns the name of a person. Slack shows the id of a user as the current name.
func person(id, name string) string {
	switch {
	case userID.MatchString(id):
		return "<@" + id + ">"
	case name != "":
		return plain(name, maxName)
	case id != "":
		return plain(id, maxName)
	}
	return "someone"
}
