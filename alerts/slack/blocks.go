package slack

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
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
func render(g alerts.Group, access alerts.Access) message {
	current := g.Current()
	var m message
	title := groupHeadline(g, current)
	m.text = escape(title)
	m.blocks = append(m.blocks, slack.NewHeaderBlock(slack.NewTextBlockObject(slack.PlainTextType, alerts.Truncate(title, maxHeader), true, false)))
	if lines := status(g); len(lines) > 0 {
		m.section("", lines...)
	}
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
		m.alert(a, access)
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
func (m *message) alert(a alerts.Alert, access alerts.Access) {
	ev := a.Evidence
	m.section("", append(since(a), lastFailure(a)...)...)
	var reasons []string
	if d := a.Annotations["description"]; d != "" && (len(ev.Shares) == 0 || ev.ProviderChanged()) {
		reasons = append(reasons, plain(d, maxText))
	}
	reasons = append(reasons, bullets(why(ev))...)
	if reasons = append(reasons, hiddenParts(a.Hides)...); len(reasons) > 0 {
		m.section("Why", reasons...)
	}
	if lines := whoseChange(ev, a.StartsAt); ev.Failed > 0 && len(lines) > 0 {
		m.section("Whose change", bullets(lines)...)
	}
	if x := ev.Example; x != nil {
		m.section("Proof", append(proof(x), furtherExamples(ev.More)...)...)
	} else if ev.Failed > 0 {
		m.section("Proof", "No example is available.")
	}
	if fix := fix(a); fix != "" {
		title := "What to do"
		if a.State == alerts.Resolved {
			title = "What to do, if not done yet"
		}
		m.section(title, plain(fix, maxText))
	}
	if lines := links(a, access); len(lines) > 0 {
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
	if service := a.Labels["service"]; service == "" || !strings.Contains(text, service) { // a summary may contain it
		text = subject(a) + ": " + text
	}
	return oneLine(word+" "+text, maxHeader)
}

func counts(a alerts.Alert) string {
	ev, when := a.Evidence, ""
	if a.State == alerts.Resolved {
		when = " at the peak"
	}
	switch {
	case ev.Failed > 0 && len(ev.Rules) > 0 && !ev.ProviderChanged():
		return fmt.Sprintf("%s %s, in %s calls%s", number(ev.Failed), ev.Counted(ev.Failed), number(ev.Calls), when)
	case ev.Failed > 0 && ev.Calls > 0 && len(ev.Rules) == 0:
		return fmt.Sprintf("%s of %s calls failed%s (%s)", number(ev.Failed), number(ev.Calls), when, percent(ev.Failed, ev.Calls))
	case a.Annotations["summary"] != "":
		return strings.TrimPrefix(a.Annotations["summary"], a.Labels["service"]+"/"+a.Labels["stage"]+": ")
	}
	return fmt.Sprintf("%s (value %.4g)", a.Name, a.Value)
}

// subject returns the service and stage that an alert is about, for example checkout-agent/planner, or else the provider.
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
	case a.Labels["provider"] != "":
		return oneLine(a.Labels["provider"], 40)
	}
	return a.Name
}
