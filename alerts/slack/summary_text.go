package slack

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// render returns the message of s.
func (s *summary) render(access alerts.Access) message {
	firing := slices.DeleteFunc(slices.Clone(s.Members), func(m *member) bool { return !m.Firing })
	title := s.title(firing)
	about := firing
	if len(firing) == 0 {
		about = s.Members
	}
	m := message{text: escape(title)}
	m.blocks = append(m.blocks, slack.NewHeaderBlock(slack.NewTextBlockObject(slack.PlainTextType, wording.Truncate(title, maxHeader), true, false)))
	m.context(s.status())
	var lines []string
	if where := services(about); where != "" {
		m.text += ". " + where
		lines = append(lines, where)
	}
	if cause := mostly(about); cause != "" {
		m.text += ". Why: " + cause
		lines = append(lines, "*Why:* "+cause)
	}
	if lines = append(lines, worst(firing)...); len(lines) > 0 {
		m.section("", lines...)
	}
	m.context(s.all(len(firing), access))
	return m
}

// all returns the line about where all members are.
func (s *summary) all(firing int, access alerts.Access) string {
	which := fmt.Sprintf("all %s", quantity.Count(len(s.Members)))
	if firing > 0 {
		which = fmt.Sprintf("all %s that fire", quantity.Count(firing))
	}
	if access.ExternalURL != "" {
		return "<" + escape(strings.TrimRight(access.ExternalURL, "/")) + "/|Open " + which + ">"
	}
	line := "For " + which + ": `" + plain(wording.Command(access, "query", "alerts"), maxText) + "`"
	if access.Host != "" {
		line += " on " + code(access.Host)
	}
	return line
}

// title returns the headline, which is not escaped.
func (s *summary) title(firing []*member) string {
	n := quantity.Count(len(s.Members))
	if len(firing) == 0 {
		return fmt.Sprintf(":large_green_circle: RESOLVED: all %s alerts", n)
	}
	worst, critical := firing[0], 0
	for _, m := range firing {
		if m.Rank > worst.Rank {
			worst = m
		}
		if m.Rank == criticalRank {
			critical++
		}
	}
	top := wording.SeverityIcon(worst.Severity)
	count := fmt.Sprintf("%s alerts are firing", n)
	switch {
	case len(firing) == 1:
		count = fmt.Sprintf("1 of %s alerts is firing", n)
	case len(firing) < len(s.Members):
		count = fmt.Sprintf("%s of %s alerts are firing", quantity.Count(len(firing)), n)
	}
	if critical > 0 {
		count += fmt.Sprintf(", %s critical", quantity.Count(critical))
	}
	return wording.OneLine(top+" "+count, maxHeader)
}

// services names the services with the most members in one line. It is empty if none has a service.
func services(list []*member) string {
	names, _ := frequent(list, func(m *member) string { return m.Service })
	if len(names) == 0 {
		return ""
	}
	text, width := "In "+markup.Code(names[0], maxCode), utf8.RuneCountInString(names[0])
	for i, name := range names[1:] {
		if width += utf8.RuneCountInString(name) + 1; width > maxCode {
			return fmt.Sprintf("%s and %s more", text, quantity.Count(uint64(len(names)-1-i)))
		}
		text += ", " + code(name)
	}
	return text
}

// mostly names the most frequent cause. It is empty if none is known.
func mostly(list []*member) string {
	causes, n := frequent(list, func(m *member) string { return m.Cause })
	if len(causes) == 0 {
		return ""
	}
	which := "all"
	if k := n[causes[0]]; k < len(list) {
		which = quantity.Count(k)
	}
	return fmt.Sprintf("%s (%s)", markup.Code(causes[0], maxWord), which)
}

// frequent returns the values of the members that have one, the most frequent first, and their numbers of members.
func frequent(list []*member, value func(*member) string) (values []string, n map[string]int) {
	n = map[string]int{}
	for _, m := range list {
		if v := value(m); v != "" {
			n[v]++
		}
	}
	return slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(n[b]-n[a], strings.Compare(a, b)) }), n
}

// status returns the line about the state of all members.
func (s *summary) status() string {
	parts := []string{"Since " + minute(s.Since)}
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", quantity.Count(n), what))
		}
	}
	add(s.count(func(m *member) bool { return m.Firing && m.Acked }), "acknowledged")
	add(s.count(func(m *member) bool { return m.Firing && m.Muted }), "muted")
	add(s.Moved, "in messages of their own")
	return strings.Join(parts, " · ")
}

// worst returns the lines about the worst firing members.
func worst(firing []*member) (lines []string) {
	muted := func(m *member) int {
		if m.Muted {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(firing, func(a, b *member) int {
		return cmp.Or(muted(a)-muted(b), cmp.Compare(b.Rank, a.Rank), cmp.Compare(b.Failed, a.Failed), strings.Compare(a.Headline, b.Headline))
	})
	for _, m := range firing[:min(len(firing), maxWorst)] {
		lines = append(lines, wording.SeverityIcon(m.Severity)+" "+strings.ReplaceAll(plain(m.Headline, maxHeader), "*", "∗"))
	}
	return lines
}
