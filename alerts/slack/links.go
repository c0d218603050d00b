package slack

import (
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
)

// links returns the links to the pages of the problem, or else the incident, and the conversation of the main alert of g, or "".
func links(g alerts.Group, access alerts.Access) string {
	a := g.Worst()
	var list []string
	add := func(url, text string) {
		if url != "" {
			list = append(list, fmt.Sprintf("<%s|%s>", escape(url), text))
		}
	}
	if len(g.Alerts) > 0 {
		text := "Open incident"
		if a.Problem != "" {
			text = "Open problem"
		}
		add(wording.AlertURL(access.ExternalURL, &g, &a), text)
	}
	if x := a.Evidence.Example; x != nil {
		add(wording.ConversationURL(access.ExternalURL, x.Conversation), "Open conversation")
	}
	if len(g.Alerts) > 0 && access.IssueURL != "" {
		title, body := wording.Issue(access, &g, &a)
		add(wording.IssueURL(access.IssueURL, title, body, maxContext-len(strings.Join(list, ""))-100), "New issue")
	}
	return strings.Join(list, " · ")
}

// commands returns the commands for an investigation, with the host on which they run.
func commands(a alerts.Alert, access alerts.Access) []string {
	list := wording.Commands(access, &a)
	if len(list) == 0 {
		return nil
	}
	var lines []string
	if access.Host != "" {
		lines = append(lines, "On "+code(access.Host)+":")
	}
	return append(lines, "```"+escape(strings.Join(list, "\n"))+"```")
}
