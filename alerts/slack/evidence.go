package slack

import (
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// since returns the line with the times and the labels of a.
func since(a alerts.Alert) string {
	var b strings.Builder
	if a.State == alerts.Resolved {
		fmt.Fprintf(&b, "%s, for %s", minute(a.StartsAt), quantity.Span(a.EndsAt.Sub(a.StartsAt)))
	} else {
		fmt.Fprintf(&b, "Since %s", minute(a.StartsAt))
		if d := a.UpdatedAt.Sub(a.StartsAt); d >= time.Minute {
			fmt.Fprintf(&b, " (%s)", quantity.Span(d))
		}
	}
	for _, l := range []string{"environment", "provider", "model"} {
		if v := plain(a.Labels[l], 40); v != "" && !strings.Contains(plain(headline(a), maxHeader), v) {
			b.WriteString(" · " + v)
		}
	}
	if a.State == alerts.Firing {
		b.WriteString(" · " + plain(a.Name, maxName))
	}
	return b.String()
}

// lastFailure returns the line about the last failure and the calls since, or "" if it is unknown.
func lastFailure(a alerts.Alert) string {
	ev := &a.Evidence
	if ev.LastFailed.IsZero() {
		return ""
	}
	what := "failure"
	if len(ev.Rules) > 0 {
		what = "finding"
		if ev.CacheBroken() {
			what = "such call"
		} else if measure, _ := wording.Measure(ev.Rules[0]); measure == analyzer.ToolError {
			what = "such reply"
		} else if measure != "" {
			what = "such answer"
		}
	}
	line := fmt.Sprintf("*Last %s* %s", what, clock(ev.LastFailed))
	switch {
	case ev.CallsSince > 0:
		line += ", none since in " + quantity.Plural(ev.CallsSince, "call")
	case a.State == alerts.Resolved:
		line += ", no calls since, may recur"
	case ev.Quiet:
		line += ", no calls since"
	}
	return line
}

// why returns one line per cause, largest share first, with or without the ids of causes.
func why(ev alerts.Evidence, ids bool) []string {
	var lines []string
	rest := ev.Failed
	for i, s := range ev.Shares {
		if i == maxShares {
			lines = append(lines, fmt.Sprintf("%s of %s: other causes", quantity.Count(rest), quantity.Count(ev.Failed)))
			break
		}
		rest -= min(rest, s.Failed)
		line := plain(wording.Why(&ev, i), maxText)
		if ev.Failed > 1 {
			line = fmt.Sprintf("%s of %s: %s", quantity.Count(s.Failed), quantity.Count(ev.Failed), line)
		}
		if id := s.ID(); ids && id != "" {
			line += " (" + wording.Kind(&ev, s) + " " + code(id) + ")"
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
	case x.Finding && x.Status < 400: // not about a failed call
	case x.ErrorText != "" && x.Status > 0:
		lines = append(lines, fmt.Sprintf("The provider answered %d:", x.Status), "> "+plain(wording.ProviderMessage(x.ErrorText), maxText))
	case x.ErrorText != "":
		lines = append(lines, "The provider did not answer:", "> "+plain(x.ErrorText, maxText))
	case x.Status > 0:
		lines = append(lines, fmt.Sprintf("The provider answered %d.", x.Status))
	default:
		lines = append(lines, "The provider did not answer.")
	}
	return lines
}

// brief returns one line of proof: the call, the position in its request, and the violated rule or the answer.
func brief(x *analyzer.Example) string {
	where := x.Conversation
	if where == "" {
		where = x.Exchange
	}
	line := shortCode(where, 30)
	switch {
	case x.Message >= 0 && x.Rule != "":
		line += fmt.Sprintf(", `messages[%d]`", x.Message)
	case x.Finding && x.Rule != "":
		line += ", " + code(x.Rule)
	case x.Labels["reason"] != "": // see promptcache.Verdict.Evidence
		if missed, _, ok := strings.Cut(x.Evidence, " reusable tokens were not read"); ok {
			line += ", " + missed + " tokens not read"
		}
	case x.Finding && x.Status < 400: // not about a failed call
	case x.Status > 0:
		line += fmt.Sprintf(", answered %d", x.Status)
	default:
		line += ", no answer"
	}
	return line
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
			line += ": " + plain(wording.ProviderMessage(x.ErrorText), maxName)
		}
		lines = append(lines, line)
	}
	return lines
}

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
