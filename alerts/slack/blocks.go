package slack

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
)

const (
	// maxAlerts is how many alerts of a group are shown in full; at most 8 blocks each, of 50.
	maxAlerts = 5
	// maxShares and maxVersions bound the lines of one section.
	maxShares   = 5
	maxVersions = 5
)

// A message is what a group looks like in Slack.
type message struct {
	text   string // for notifications and for clients without blocks; escaped
	blocks []slack.Block
}

// render makes the message of g. Links go to base if it is not empty.
func render(g alerts.Group, base string) message {
	current := g.Current()
	var m message
	head := headline(g, current)
	m.text = escape(head)
	m.blocks = append(m.blocks, slack.NewHeaderBlock(slack.NewTextBlockObject(slack.PlainTextType, cut(head, maxHeader), true, false)))
	for i, a := range current {
		if i == maxAlerts {
			m.section("", fmt.Sprintf("… and %d more", len(current)-maxAlerts))
			break
		}
		if len(current) > 1 {
			if i > 0 {
				m.blocks = append(m.blocks, slack.NewDividerBlock())
			}
			m.section("", icon(a)+" *"+strings.ReplaceAll(escape(what(a)), "*", "∗")+"*")
		}
		m.alert(a, base)
	}
	if i := slices.IndexFunc(current, func(a alerts.Alert) bool { return a.Unavailable != "" }); i >= 0 {
		m.section("", ":warning: "+plain(current[i].Unavailable, maxSummary))
	}
	if len(current) > 0 && len(current[0].Evidence.Shares) > 0 {
		m.text += ". " + why(current[0].Evidence)[0]
		if first := remembered(current[0].Evidence, current[0].StartsAt); len(first) > 0 {
			m.text += "; first in " + code(first[0].version)
			if first[0].clean != "" {
				m.text += ", last clean " + code(first[0].clean)
			}
		}
	}
	return m
}

// alert adds the answers about one alert, in the order in which they are asked.
func (m *message) alert(a alerts.Alert, base string) {
	m.section("", since(a))
	ev := a.Evidence
	if len(ev.Shares) > 0 {
		m.section("Why", bullets(why(ev))...)
	} else if d := a.Annotations["description"]; d != "" {
		m.section("Why", plain(d, maxSummary))
	}
	if ev.Failed > 0 {
		m.section("Whose change", bullets(whose(ev, a.StartsAt))...)
	}
	if x := ev.Example; x != nil {
		m.section("Proof", append(proof(x), also(ev.More)...)...)
	} else if ev.Failed > 0 {
		m.section("Proof", "No example was kept of these calls.")
	}
	if fix := fix(a); fix != "" {
		title := "What to do"
		if a.State == alerts.Resolved {
			title = "What to do, if it is not done yet"
		}
		m.section(title, plain(fix, maxSummary))
	}
	if lines := look(a, base); len(lines) > 0 {
		m.section("Look", lines...)
	}
}

// section adds one block of lines under a bold title. Lines that Slack would refuse are left out whole.
func (m *message) section(title string, lines ...string) {
	text := ""
	if title != "" {
		text = "*" + title + "*"
	}
	for _, l := range lines {
		if utf8.RuneCountInString(text)+utf8.RuneCountInString(l) > maxSection-10 {
			text += "\n…"
			break
		}
		if text != "" {
			text += "\n"
		}
		text += l
	}
	m.blocks = append(m.blocks, slack.NewSectionBlock(slack.NewTextBlockObject(slack.MarkdownType, text, false, true), nil, nil))
}

func bullets(lines []string) []string {
	for i := range lines {
		lines[i] = "• " + lines[i]
	}
	return lines
}

// headline says what is wrong, or was.
func headline(g alerts.Group, current []alerts.Alert) string {
	if len(current) == 0 {
		return oneLine(g.Key, maxHeader)
	}
	worst, firing := current[0], 0
	for _, a := range current {
		if a.State != alerts.Firing {
			continue
		}
		if firing++; firing == 1 || a.Severity() == "critical" && worst.Severity() != "critical" {
			worst = a
		}
	}
	s := icon(worst) + " " + what(worst)
	if n := firing - 1; n > 0 {
		s = fmt.Sprintf("%s, and %d more", cut(s, maxHeader-20), n)
	}
	return s
}

func icon(a alerts.Alert) string {
	switch {
	case a.State == alerts.Resolved:
		return ":large_green_circle:"
	case a.Severity() == "critical":
		return ":red_circle:"
	case a.Severity() == "warning":
		return ":large_orange_circle:"
	}
	return ":large_blue_circle:"
}

// what is the one sentence that everybody reads; not escaped.
func what(a alerts.Alert) string {
	word := strings.ToUpper(a.Severity())
	if a.State == alerts.Resolved {
		word = "RESOLVED"
	}
	return oneLine(word+" "+subject(a)+": "+counts(a), maxHeader)
}

func counts(a alerts.Alert) string {
	ev := a.Evidence
	switch {
	case ev.Failed > 0 && ev.Calls > 0 && a.State == alerts.Resolved:
		return fmt.Sprintf("at worst %s of %s calls failed (%s)", number(ev.Failed), number(ev.Calls), percent(ev.Failed, ev.Calls))
	case ev.Failed > 0 && ev.Calls > 0:
		return fmt.Sprintf("%s of %s calls failed (%s)", number(ev.Failed), number(ev.Calls), percent(ev.Failed, ev.Calls))
	case a.Annotations["summary"] != "":
		return a.Annotations["summary"]
	}
	return fmt.Sprintf("%s (value %.4g)", a.Name, a.Value)
}

// subject is whose calls an alert is about.
func subject(a alerts.Alert) string {
	who, service := a.Labels["stage"], a.Labels["service"]
	if who == "" {
		who = a.Labels["agent"]
	}
	who, service = oneLine(who, 40), oneLine(service, 40)
	switch {
	case who != "" && service != "":
		return who + " of " + service
	case who+service != "":
		return who + service
	}
	return a.Name
}

func since(a alerts.Alert) string {
	var b strings.Builder
	if a.State == alerts.Resolved {
		fmt.Fprintf(&b, "*From* %s *to* %s (%s)", date(a.StartsAt), clock(a.EndsAt), duration(a.EndsAt.Sub(a.StartsAt)))
	} else {
		fmt.Fprintf(&b, "*Since* %s", date(a.StartsAt))
		if d := a.UpdatedAt.Sub(a.StartsAt); d > 0 {
			fmt.Fprintf(&b, " (%s)", duration(d))
		}
	}
	if a.Evidence.Window > 0 && a.Evidence.Calls > 0 {
		fmt.Fprintf(&b, ", counted over %s", duration(a.Evidence.Window))
	}
	for _, l := range []string{"service", "environment", "stage"} {
		if v := a.Labels[l]; v != "" {
			fmt.Fprintf(&b, " · %s %s", l, code(v))
		}
	}
	fmt.Fprintf(&b, " · rule %s", code(a.Name))
	if a.FoundLate {
		b.WriteString("\n:hourglass: Found late: llmtap evaluated this time more than a minute afterwards.")
	}
	return b.String()
}

// why is one line for each cause, largest share first.
func why(ev alerts.Evidence) []string {
	var lines []string
	rest := ev.Failed
	for i, s := range ev.Shares {
		if i == maxShares {
			lines = append(lines, fmt.Sprintf("%s of %s: other causes", number(rest), number(ev.Failed)))
			break
		}
		rest -= min(rest, s.Failed)
		line := fmt.Sprintf("%s of %s: %s", number(s.Failed), number(ev.Failed), plain(s.Description(), maxSummary))
		if id := s.ID(); id != "" {
			line += " (" + code(id) + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

// fix is what to do about the largest share, else what the rule says.
func fix(a alerts.Alert) string {
	if len(a.Evidence.Shares) > 0 && a.Evidence.Shares[0].Fix != "" {
		return a.Evidence.Shares[0].Fix
	}
	return a.Annotations["runbook"]
}

// proof shows one failed call: where, what was wrong, what the provider said.
func proof(x *analyzer.Example) []string {
	lines := []string{"In " + place(x)}
	if x.Summary != "" {
		lines = append(lines, plain(x.Summary, maxSummary))
	}
	if x.Evidence != "" {
		lines = append(lines, plain(x.Evidence, maxQuote))
	}
	switch {
	case x.ErrorText != "" && x.Status > 0:
		lines = append(lines, fmt.Sprintf("The provider answered %d:", x.Status), "> "+plain(x.ErrorText, maxQuote))
	case x.ErrorText != "":
		lines = append(lines, "No answer came:", "> "+plain(x.ErrorText, maxQuote))
	case x.Status > 0:
		lines = append(lines, fmt.Sprintf("The provider answered %d without a text.", x.Status))
	}
	return lines
}

// place is where an example was seen.
func place(x *analyzer.Example) string {
	where := fmt.Sprintf("conversation %s", code(x.Conversation))
	if x.Conversation == "" {
		where = fmt.Sprintf("exchange %s", code(x.Exchange))
	}
	if x.Message >= 0 && x.Rule != "" {
		where += fmt.Sprintf(", `messages[%d]`", x.Message)
	}
	if x.ToolCallID != "" {
		where += ", tool call " + code(x.ToolCallID)
	}
	if x.Rule != "" {
		where += ", rule " + code(x.Rule)
	}
	return where
}

// also names the other conversations, a line each.
func also(more []*analyzer.Example) []string {
	var lines []string
	for _, x := range more {
		line := "Also in " + place(x)
		if x.Summary == "" && x.ErrorText != "" {
			line += ": " + plain(x.ErrorText, maxName)
		}
		lines = append(lines, line)
	}
	return lines
}

// look is where to go on: a page if there is one, and commands.
func look(a alerts.Alert, base string) []string {
	var lines, commands []string
	usable := func(id string) bool { return id != "" && !strings.ContainsAny(id, "`\n\r") && len(id) <= 200 }
	if x := a.Evidence.Example; x != nil {
		if base != "" && usable(x.Conversation) {
			lines = append(lines, fmt.Sprintf("<%s/conversation/%s|The conversation, message by message>", strings.TrimRight(base, "/"), escape(url.PathEscape(x.Conversation))))
		}
		if usable(x.Exchange) {
			commands = append(commands, "llmtap show "+escape(shell(x.Exchange))+" # the call, the fault marked")
		}
		if usable(x.Conversation) {
			commands = append(commands, "llmtap show "+escape(shell(x.Conversation))+" # its conversation")
		}
	}
	query := "llmtap query causes"
	if a.Evidence.Failed == 0 {
		query = "llmtap query finding_examples"
	}
	service, stage := a.Labels["service"], a.Labels["stage"]
	if usable(service) {
		query += " --service " + escape(shell(service))
		if usable(stage) {
			query += " --stage " + escape(shell(stage))
		}
		commands = append(commands, query)
	}
	if len(commands) > 0 {
		lines = append(lines, "```"+strings.Join(commands, "\n")+"```")
	}
	return lines
}
