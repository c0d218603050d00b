package wording

import (
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// Since returns the line with the times and the labels of a.
func (m *Markup) Since(a alerts.Alert) string {
	var b strings.Builder
	if a.State == alerts.Resolved {
		fmt.Fprintf(&b, "%s, for %s", m.Minute(a.StartsAt), quantity.Span(a.EndsAt.Sub(a.StartsAt)))
	} else {
		fmt.Fprintf(&b, "Since %s", m.Minute(a.StartsAt))
		if d := a.UpdatedAt.Sub(a.StartsAt); d >= time.Minute {
			fmt.Fprintf(&b, " (%s)", quantity.Span(d))
		}
	}
	for _, l := range []string{"environment", "provider", "model"} {
		if v := m.Plain(a.Labels[l], 40); v != "" && !strings.Contains(m.Plain(Headline(a), maxHeadline), v) {
			b.WriteString(" · " + v)
		}
	}
	if a.State == alerts.Firing {
		b.WriteString(" · " + m.Plain(a.Name, maxName))
	}
	return b.String()
}

// LastFailure returns the line about the last failure and the calls since, or "" if it is unknown.
func (m *Markup) LastFailure(a alerts.Alert) string {
	ev := &a.Evidence
	if ev.LastFailed.IsZero() {
		return ""
	}
	what := "failure"
	if len(ev.Rules) > 0 {
		what = "finding"
		if ev.CacheBroken() {
			what = "such call"
		} else if measure, _ := Measure(ev.Rules[0]); measure == analyzer.ToolError {
			what = "such reply"
		} else if measure != "" {
			what = "such answer"
		}
	}
	line := m.Bold("Last "+what) + " " + m.Clock(ev.LastFailed)
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

// Causes returns one line per cause, largest share first, with or without the ids of causes.
func (m *Markup) Causes(ev alerts.Evidence, ids bool) []string {
	var lines []string
	rest := ev.Failed
	for i, s := range ev.Shares {
		if i == maxShares {
			lines = append(lines, fmt.Sprintf("%s of %s: other causes", quantity.Count(rest), quantity.Count(ev.Failed)))
			break
		}
		rest -= min(rest, s.Failed)
		line := m.Plain(Why(&ev, i), maxText)
		if ev.Failed > 1 {
			line = fmt.Sprintf("%s of %s: %s", quantity.Count(s.Failed), quantity.Count(ev.Failed), line)
		}
		if id := s.ID(); ids && id != "" {
			line += " (" + Kind(&ev, s) + " " + m.code(id) + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

// Fix returns the fix for the largest share, or else the rule's runbook.
func Fix(a alerts.Alert) string {
	if len(a.Evidence.Shares) > 0 && a.Evidence.Shares[0].Fix != "" {
		return a.Evidence.Shares[0].Fix
	}
	return a.Annotations["runbook"]
}

// Proof returns the lines about one failed call: where it was seen, the defect and the provider's answer.
func (m *Markup) Proof(x *analyzer.Example) []string {
	lines := []string{"In " + m.place(x)}
	if x.Summary != "" {
		lines = append(lines, m.Plain(x.Summary, maxText))
	}
	if x.Evidence != "" {
		lines = append(lines, m.Plain(x.Evidence, maxText))
	}
	switch {
	case x.Finding && x.Status < 400: // not about a failed call
	case x.ErrorText != "" && x.Status > 0:
		lines = append(lines, fmt.Sprintf("The provider answered %d:", x.Status), m.Quote(m.Plain(ProviderMessage(x.ErrorText), maxText)))
	case x.ErrorText != "":
		lines = append(lines, "The provider did not answer:", m.Quote(m.Plain(x.ErrorText, maxText)))
	case x.Status > 0:
		lines = append(lines, fmt.Sprintf("The provider answered %d.", x.Status))
	default:
		lines = append(lines, "The provider did not answer.")
	}
	return lines
}

// Brief returns one line of proof: the call, the position in its request, and the violated rule or the answer.
func (m *Markup) Brief(x *analyzer.Example) string {
	where := x.Conversation
	if where == "" {
		where = x.Exchange
	}
	line := m.Code(where, 30)
	switch {
	case x.Message >= 0 && x.Rule != "":
		line += ", " + m.message(x.Message)
	case x.Finding && x.Rule != "":
		line += ", " + m.code(x.Rule)
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
func (m *Markup) place(x *analyzer.Example) string {
	where := fmt.Sprintf("conversation %s", m.code(x.Conversation))
	if x.Conversation == "" {
		where = fmt.Sprintf("LLM call %s", m.code(x.Exchange))
	}
	if x.Message >= 0 && x.Rule != "" {
		where += ", " + m.message(x.Message)
	}
	if x.ToolCallID != "" {
		where += ", tool call " + m.code(x.ToolCallID)
	}
	if x.Rule != "" {
		where += ", rule " + m.code(x.Rule)
	}
	return where
}

// FurtherExamples returns one line for each further example.
func (m *Markup) FurtherExamples(more []*analyzer.Example) []string {
	var lines []string
	for _, x := range more {
		line := "Also in " + m.place(x)
		if x.Summary == "" && x.ErrorText != "" {
			line += ": " + m.Plain(ProviderMessage(x.ErrorText), maxName)
		}
		lines = append(lines, line)
	}
	return lines
}
