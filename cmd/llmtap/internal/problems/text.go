package problems

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const (
	fieldWidth  = 13 // columns of the name of a Field
	maxVersions = 3  // that are named in a line
	maxName     = 60 // columns of a name from the traffic
	maxSeverity = 20
	// endless is the time after which the end of ignoring a problem is none.
	endless = 5 * 365 * 24 * time.Hour
)

// untilUsers begins the comment of an action that ignores a problem until it hits more users.
const untilUsers = "until it hits "

// Summary returns how many problems a list has, by state. command lists the hidden ones, too.
func Summary(list []Problem, hidden int, command string) string {
	counts := map[string]int{}
	open := 0
	for _, p := range list {
		if counts[p.State]++; !Closed(p.State) {
			open++
		}
	}
	text := quantity.Plural(open, "open problem")
	if open == 0 {
		text = "No open problems"
	}
	var parts []string
	for _, s := range states {
		if n := counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	text += "."
	switch {
	case hidden == 1:
		text += " 1 resolved or ignored problem is not listed: " + command
	case hidden > 1:
		text += fmt.Sprintf(" %d resolved or ignored problems are not listed: %s", hidden, command)
	}
	return text
}

// place names the stage of p, and its environment.
func place(p *Problem) string {
	text := terminal.Clip(p.Service, maxName)
	if p.Stage != "" {
		text += "/" + terminal.Clip(p.Stage, maxName)
	}
	if p.Environment != "" {
		text += " (" + terminal.Clip(p.Environment, maxName) + ")"
	}
	return text
}

// paint returns a state in its color.
func paint(style *terminal.Style, state string) string {
	switch state {
	case alerts.ProblemRegressed:
		return style.Red(state)
	case alerts.ProblemNew, alerts.ProblemOngoing:
		return style.Yellow(state)
	case alerts.ProblemResolved:
		return style.Green(state)
	}
	return style.Dim(state)
}

// Title returns the state of p, its stage and what is wrong, in one line.
func Title(p *Problem) string {
	return fmt.Sprintf("%s, %s: %s: %s", p.State, terminal.Clip(p.Severity, maxSeverity), place(p), terminal.Line(p.Meaning))
}

// Facts returns age, last failure, versions and what people decided in one line.
func Facts(p *Problem, now time.Time) string {
	parts := []string{"first seen " + ago(p.FirstSeen, now)}
	if !p.LastSeen.IsZero() {
		parts = append(parts, "last "+ago(p.LastSeen, now))
	}
	if v := versions(p.Versions); v != "" {
		parts = append(parts, "in "+v)
	}
	decided := []string{strings.Join(parts, ", ")}
	switch {
	case p.State == alerts.ProblemIgnored:
		decided = append(decided, "ignored by "+name(p.Ignored.By)+" "+ignored(p.Ignored, now, nil))
	case p.State == alerts.ProblemRegressed:
		decided = append(decided, regressed(p.Regressed))
	case p.Resolved != nil:
		decided = append(decided, resolved(p.Resolved))
	case p.State == alerts.ProblemResolved && p.Accepted != nil:
		decided = append(decided, "the new normal, says "+name(p.Accepted.By))
	case p.State == alerts.ProblemResolved:
		decided = append(decided, "quiet since then")
	case p.Acknowledged != nil:
		decided = append(decided, "acknowledged by "+name(p.Acknowledged.By))
	}
	if p.Assignee != "" {
		decided = append(decided, "assigned to "+name(p.Assignee))
	}
	return strings.Join(decided, "; ")
}

// versions names the newest versions, the newest first.
func versions(list []alerts.ProblemVersion) string {
	var names []string
	for _, v := range slices.Backward(list) {
		names = append(names, version(v.Version))
	}
	if n := len(names) - maxVersions; n > 0 {
		return strings.Join(names[:maxVersions], ", ") + fmt.Sprintf(" and %d earlier", n)
	}
	return strings.Join(names, ", ")
}

func version(v string) string { return cmp.Or(terminal.Clip(v, maxName), "an unknown version") }

func name(s string) string { return cmp.Or(terminal.Clip(s, maxName), "somebody") }

func regressed(r *alerts.Regression) string {
	text := "seen again in " + version(r.Version) + "; " + name(r.Fixed.By) + " said it is fixed"
	if r.Fixed.Version != "" {
		text += " in " + version(r.Fixed.Version)
	}
	return text
}

func resolved(r *alerts.Resolution) string {
	text := "fixed"
	if r.Version != "" {
		text += " in " + version(r.Version)
	}
	return text + ", says " + name(r.By)
}

// until returns the end of ignoring a problem in words. style formats the time; without one, it is a span.
func until(end, now time.Time, style *terminal.Style) string {
	switch {
	case end.Sub(now) > endless:
		return "until it is reopened"
	case style == nil:
		return "for " + quantity.Span(end.Sub(now))
	}
	return "until " + style.Time(end)
}

// ignored returns how long a problem is ignored in words; style is as in until.
func ignored(x *alerts.Ignoring, now time.Time, style *terminal.Style) string {
	end := until(x.Until, now, style)
	if x.Users == 0 {
		return end
	}
	more := fmt.Sprintf("until it hits %s (%d so far)", x.MoreUsers(), x.Hit)
	if x.Until.Sub(now) > endless {
		return more
	}
	return end + ", or " + more
}

func ago(t, now time.Time) string { return quantity.Span(max(now.Sub(t), 0)) + " ago" }

// A Field is a line about a problem. Text has one line.
type Field struct{ Name, Text string }

// Fields returns all that is known of a problem, besides its stage, cause and state.
func Fields(d *Details, now time.Time, style *terminal.Style) (list []Field) {
	p := &d.Problem
	add := func(name, text string) {
		if text != "" {
			list = append(list, Field{name, terminal.Line(text)})
		}
	}
	at := func(x *alerts.Decision) string { return "by " + name(x.By) + " at " + style.Time(x.At) }
	add("found", p.Summary)
	add("fix", p.Fix)
	switch {
	case p.Regressed != nil && p.Resolved == nil:
		add("regressed", regressed(p.Regressed)+", at "+style.Time(p.Regressed.At))
	case p.Resolved != nil:
		add("resolved", resolved(p.Resolved)+", at "+style.Time(p.Resolved.At))
	case p.State == alerts.ProblemResolved && p.Accepted != nil: // as below
	case p.State == alerts.ProblemResolved:
		add("resolved", "quiet for "+quantity.Span(p.Quiet())+" or more")
	}
	if p.State == alerts.ProblemIgnored {
		add("ignored", at(&p.Ignored.Decision)+", "+ignored(p.Ignored, now, style))
	}
	if p.Accepted != nil {
		add("new normal", "said "+at(p.Accepted))
	}
	if p.Assignee != "" {
		text := name(p.Assignee)
		if p.Assigned != nil {
			text += ", " + at(p.Assigned)
		}
		add("assigned to", text)
	}
	if p.Acknowledged != nil {
		add("acknowledged", at(p.Acknowledged))
	}
	add("first seen", style.Time(p.FirstSeen)+", "+ago(p.FirstSeen, now))
	if !p.LastSeen.IsZero() {
		add("last seen", style.Time(p.LastSeen)+", "+ago(p.LastSeen, now))
	}
	incidents := fmt.Sprintf("%s, the last since %s", quantity.Plural(p.Incidents, "incident"), style.Time(p.Incident))
	if p.Firing {
		incidents += ", which goes on"
	}
	add("incidents", incidents)
	last := ", last failure "
	if measure, _ := wording.Measure(p.Cause); measure != "" {
		last = ", last seen "
	}
	for i, v := range slices.Backward(p.Versions) {
		name := ""
		if i == len(p.Versions)-1 {
			name = "versions"
		}
		text := version(v.Version)
		if !v.FirstCall.IsZero() {
			text += ", first call " + style.Time(v.FirstCall)
		}
		add(name, text+last+style.Time(v.LastFailed))
	}
	add("rules", strings.Join(p.Rules, ", "))
	add(p.Kind, p.Cause)
	add("id", p.ID)
	add("page", p.URL)
	return list
}

// History returns the lines of the history of a problem.
func History(d *Details, style *terminal.Style) (lines []string) {
	for _, a := range d.History {
		lines = append(lines, terminal.Line(style.Time(a.At)+" "+a.words(style)))
	}
	if d.Missing != "" {
		lines = append(lines, terminal.Line("Incomplete: "+d.Missing+"."))
	}
	return lines
}

// words returns who did what.
func (a *Action) words(style *terminal.Style) string {
	what := strings.ReplaceAll(a.Action, "_", " ")
	switch a.Action {
	case alerts.ActionAssign:
		if what = "assigned it"; !strings.HasPrefix(a.Comment, "to ") {
			what = "assigned it to nobody"
		}
	case alerts.ActionResolve:
		what = "said that it is resolved"
	case alerts.ActionIgnore:
		end := until(a.Until, a.At, style)
		if what = "ignored it " + end; strings.HasPrefix(a.Comment, untilUsers) {
			if what = "ignored it"; a.Until.Sub(a.At) <= endless {
				what += " " + end + ", or"
			}
		}
	case alerts.ActionReopen:
		what = "reopened it"
	case alerts.ActionAccept:
		what = "said that this is the new normal"
	case "regress":
		what = "found a regression"
	case alerts.ActionAcknowledge:
		what = "acknowledged the incident"
	case "unacknowledge":
		what = "withdrew the acknowledgement"
	case "silence":
		what = "silenced it " + until(a.Until, a.At, style)
	case "show_query":
		what = "asked for the query"
	}
	text := name(a.By) + " " + what
	if a.Refused {
		text = name(a.By) + " was refused: " + strings.ReplaceAll(a.Action, "_", " ")
	}
	switch {
	case a.Comment == "":
	case a.Action == alerts.ActionAssign && strings.HasPrefix(a.Comment, "to "):
		text += " " + a.Comment
	case a.Action == alerts.ActionIgnore && strings.HasPrefix(a.Comment, untilUsers):
		text += " " + a.Comment
	case a.Action == alerts.ActionResolve && strings.HasPrefix(a.Comment, "fixed in "):
		text += ", " + a.Comment
	default:
		text += ": " + a.Comment
	}
	return text
}
