package slack

import (
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
)

// since returns the lines with the times, the window and the labels of a.
func since(a alerts.Alert) []string {
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
	for _, l := range []string{"environment", "provider", "model"} {
		if v := a.Labels[l]; v != "" {
			fmt.Fprintf(&b, " · %s %s", l, code(v))
		}
	}
	fmt.Fprintf(&b, " · rule %s", code(a.Name))
	lines := []string{b.String()}
	if a.FoundLate {
		lines = append(lines, ":hourglass: Found late: llmtap evaluated this period more than a minute late.")
	}
	return lines
}

// lastFailure returns the line about the last failure and the calls since, if it is known.
func lastFailure(a alerts.Alert) []string {
	ev := &a.Evidence
	if ev.LastFailed.IsZero() {
		return nil
	}
	what := "failure"
	if len(ev.Rules) > 0 {
		what = "finding"
	}
	line := fmt.Sprintf("*Last %s* %s", what, clock(ev.LastFailed))
	switch {
	case ev.CallsSince > 0:
		line += ", none since in " + calls(ev.CallsSince)
	case a.State == alerts.Resolved:
		line += ", no calls since: it may happen again"
	case ev.Quiet:
		line += ", no calls since"
	}
	return []string{line}
}

// calls returns n with its noun.
func calls(n uint64) string {
	if n == 1 {
		return "1 call"
	}
	return number(n) + " calls"
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
		line := plain(s.Description(), maxText)
		if ev.Failed > 1 {
			line = fmt.Sprintf("%s of %s: %s", number(s.Failed), number(ev.Failed), line)
		}
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
	case x.Finding && x.Status < 400: // not about a failed call
	case x.ErrorText != "" && x.Status > 0:
		lines = append(lines, fmt.Sprintf("The provider answered %d:", x.Status), "> "+plain(alerts.ProviderMessage(x.ErrorText), maxText))
	case x.ErrorText != "":
		lines = append(lines, "The provider did not answer:", "> "+plain(x.ErrorText, maxText))
	case x.Status > 0:
		lines = append(lines, fmt.Sprintf("The provider answered %d.", x.Status))
	default:
		lines = append(lines, "The provider did not answer.")
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
			line += ": " + plain(alerts.ProviderMessage(x.ErrorText), maxName)
		}
		lines = append(lines, line)
	}
	return lines
}

// links returns a link to the conversation's page, if any, and the commands for an investigation, with the host on which
// they run.
func links(a alerts.Alert, access alerts.Access) []string {
	var lines []string
	if x := a.Evidence.Example; x != nil {
		if u := alerts.ConversationURL(access.ExternalURL, x.Conversation); u != "" {
			lines = append(lines, fmt.Sprintf("<%s|Open the conversation>", escape(u)))
		}
	}
	commands := access.Commands(&a)
	if len(commands) == 0 {
		return lines
	}
	if access.Host != "" {
		lines = append(lines, "On "+code(access.Host)+":")
	}
	return append(lines, "```"+escape(strings.Join(commands, "\n"))+"```")
}
