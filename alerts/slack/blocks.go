package slack

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
)

const (
	// maxAlerts is the maximum number of alerts shown for a group. Each has at most 8 blocks, and Slack allows 50.
	maxAlerts = 5
	// maxShares and maxVersions bound the number of lines about causes and about versions.
	maxShares   = 5
	maxVersions = 5
)

// A message is the representation of a group in Slack.
type message struct {
	text   string // escaped text for notifications and for clients that do not show blocks
	blocks []slack.Block
}

// render returns the message of g.
func render(g alerts.Group, externalURL string) message {
	current := g.Current()
	var m message
	title := groupHeadline(g, current)
	m.text = escape(title)
	m.blocks = append(m.blocks, slack.NewHeaderBlock(slack.NewTextBlockObject(slack.PlainTextType, alerts.Truncate(title, maxHeader), true, false)))
	for i, a := range current {
		if i == maxAlerts {
			m.section("", fmt.Sprintf("… and %d more", len(current)-maxAlerts))
			break
		}
		if len(current) > 1 {
			if i > 0 {
				m.blocks = append(m.blocks, slack.NewDividerBlock())
			}
			m.section("", icon(a)+" *"+strings.ReplaceAll(escape(headline(a)), "*", "∗")+"*")
		}
		m.alert(a, externalURL)
	}
	if i := slices.IndexFunc(current, func(a alerts.Alert) bool { return a.Unavailable != "" }); i >= 0 {
		m.section("", ":warning: "+plain(current[i].Unavailable, maxText))
	}
	if len(current) > 0 && len(current[0].Evidence.Shares) > 0 {
		m.text += ". " + why(current[0].Evidence)[0]
		if first := regressions(current[0].Evidence, current[0].StartsAt); len(first) > 0 {
			m.text += "; first seen in " + code(first[0].version)
			if first[0].clean != "" {
				m.text += ", last clean version " + code(first[0].clean)
			}
		}
	}
	return m
}

// alert adds the sections about one alert.
func (m *message) alert(a alerts.Alert, externalURL string) {
	m.section("", since(a))
	ev := a.Evidence
	if len(ev.Shares) > 0 {
		m.section("Why", bullets(why(ev))...)
	} else if d := a.Annotations["description"]; d != "" {
		m.section("Why", plain(d, maxText))
	}
	if ev.Failed > 0 {
		m.section("Whose change", bullets(whoseChange(ev, a.StartsAt))...)
	}
	if x := ev.Example; x != nil {
		m.section("Proof", append(proof(x), furtherExamples(ev.More)...)...)
	} else if ev.Failed > 0 {
		m.section("Proof", "No example of these calls is available.")
	}
	if fix := fix(a); fix != "" {
		title := "What to do"
		if a.State == alerts.Resolved {
			title = "What to do, if not done yet"
		}
		m.section(title, plain(fix, maxText))
	}
	if lines := links(a, externalURL); len(lines) > 0 {
		m.section("Investigate", lines...)
	}
}

// section adds one block of lines under a bold title. Lines beyond Slack's limit are omitted.
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

// groupHeadline returns the headline of the most severe alert and the number of other firing alerts.
func groupHeadline(g alerts.Group, current []alerts.Alert) string {
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
	s := icon(worst) + " " + headline(worst)
	if n := firing - 1; n > 0 {
		s = fmt.Sprintf("%s, and %d more", alerts.Truncate(s, maxHeader-20), n)
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

// headline returns the sentence about a that everyone reads. It is not escaped.
func headline(a alerts.Alert) string {
	word := strings.ToUpper(a.Severity())
	if a.State == alerts.Resolved {
		word = "RESOLVED"
	}
	text := counts(a)
	if service := a.Labels["service"]; service == "" || !strings.Contains(text, service) { // summaries often contain the service
		text = subject(a) + ": " + text
	}
	return oneLine(word+" "+text, maxHeader)
}

func counts(a alerts.Alert) string {
	ev := a.Evidence
	switch {
	case ev.Failed > 0 && ev.Calls > 0:
		when := ""
		if a.State == alerts.Resolved {
			when = " at the peak"
		}
		return fmt.Sprintf("%s of %s calls failed%s (%s)", number(ev.Failed), number(ev.Calls), when, percent(ev.Failed, ev.Calls))
	case a.Annotations["summary"] != "":
		return a.Annotations["summary"]
	}
	return fmt.Sprintf("%s (value %.4g)", a.Name, a.Value)
}

// subject returns the service and stage that an alert is about, for example checkout-agent/planner.
func subject(a alerts.Alert) string {
	service, stage := a.Labels["service"], a.Labels["stage"]
	if stage == "" {
		stage = a.Labels["agent"]
	}
	service, stage = oneLine(service, 40), oneLine(stage, 40)
	switch {
	case service != "" && stage != "":
		return service + "/" + stage
	case service+stage != "":
		return service + stage
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
		fmt.Fprintf(&b, " · window %s", duration(a.Evidence.Window))
	}
	for _, l := range []string{"service", "environment", "stage"} {
		if v := a.Labels[l]; v != "" {
			fmt.Fprintf(&b, " · %s %s", l, code(v))
		}
	}
	fmt.Fprintf(&b, " · rule %s", code(a.Name))
	if a.FoundLate {
		b.WriteString("\n:hourglass: Found late: llmtap evaluated this period with more than a minute of delay.")
	}
	return b.String()
}

// why returns one line per cause, largest share first.
func why(ev alerts.Evidence) []string {
	var lines []string
	rest := ev.Failed
	for i, s := range ev.Shares {
		if i == maxShares {
			lines = append(lines, fmt.Sprintf("%s of %s: other causes", number(rest), number(ev.Failed)))
			break
		}
		rest -= min(rest, s.Failed)
		line := fmt.Sprintf("%s of %s: %s", number(s.Failed), number(ev.Failed), plain(s.Description(), maxText))
		if id := s.ID(); id != "" {
			line += " (" + code(id) + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

// fix returns the fix for the largest share, or else the rule's runbook.
func fix(a alerts.Alert) string {
	if len(a.Evidence.Shares) > 0 && a.Evidence.Shares[0].Fix != "" {
		return a.Evidence.Shares[0].Fix
	}
	return a.Annotations["runbook"]
}

// proof returns the lines about one failed call: where it was seen, the defect and the provider's answer.
func proof(x *analyzer.Example) []string {
	lines := []string{"In " + place(x)}
	if x.Summary != "" {
		lines = append(lines, plain(x.Summary, maxText))
	}
	if x.Evidence != "" {
		lines = append(lines, plain(x.Evidence, maxText))
	}
	switch {
	case x.ErrorText != "" && x.Status > 0:
		lines = append(lines, fmt.Sprintf("The provider answered %d:", x.Status), "> "+plain(x.ErrorText, maxText))
	case x.ErrorText != "":
		lines = append(lines, "The provider did not answer:", "> "+plain(x.ErrorText, maxText))
	case x.Status > 0:
		lines = append(lines, fmt.Sprintf("The provider answered %d without an error text.", x.Status))
	}
	return lines
}

// place returns where an example was seen.
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

// furtherExamples returns one line for each further example.
func furtherExamples(more []*analyzer.Example) []string {
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

// links returns a link to the conversation's page, if any, and the commands for an investigation.
func links(a alerts.Alert, externalURL string) []string {
	var lines, commands []string
	usable := func(id string) bool { return id != "" && !strings.ContainsAny(id, "`\n\r") && len(id) <= alerts.MaxID }
	add := func(text, id string) {
		if usable(id) {
			commands = append(commands, fmt.Sprintf(text, escape(shell(id))))
		}
	}
	if x := a.Evidence.Example; x != nil {
		if u := alerts.ConversationURL(externalURL, x.Conversation); u != "" {
			lines = append(lines, fmt.Sprintf("<%s|Open the conversation>", escape(u)))
		}
		add("llmtap show %s # the call, with the defect marked", x.Exchange)
		add("llmtap show %s # the conversation", x.Conversation)
	}
	query := "llmtap query causes"
	if a.Evidence.Failed == 0 {
		query = "llmtap query finding_examples"
	}
	if service, stage := a.Labels["service"], a.Labels["stage"]; usable(service) {
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
