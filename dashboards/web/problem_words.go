package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/quantity"
)

// endless is the time from which on the end of ignoring a problem is not shown.
const endless = 5 * 365 * 24 * time.Hour

// words returns the state of p in words, as v sees it.
func (p Problem) words(v *View) string {
	var parts []string
	switch p.State {
	case stateIgnored:
		text := "Ignored"
		if d := p.Ignored; d != nil {
			if d.Until.Sub(v.Now) < endless {
				text += " until " + v.At(d.Until).Absolute()
			}
			if d.Users > 0 {
				text += fmt.Sprintf(" until it hits %s (%d so far)", quantity.Plural(d.Users, "more user"), d.Hit)
			}
			text += " by " + d.By
		}
		parts = append(parts, text)
	case stateRegressed:
		parts = append(parts, "Regressed"+in(versionOf(p.Regressed)))
		if p.Fixed != nil {
			parts = append(parts, p.Fixed.By+" said that it was fixed"+in(p.Fixed.Version))
		}
	case stateResolved:
		if p.Fixed != nil {
			parts = append(parts, "Fixed"+in(p.Fixed.Version)+", says "+p.Fixed.By)
		} else if p.Accepted != nil {
			parts = append(parts, "The new normal, says "+p.Accepted.By)
		} else {
			quiet := "no failure"
			if p.Measure != "" {
				quiet = "nothing unusual"
			}
			parts = append(parts, "Over: "+quiet+" for "+quantity.Span(v.Now.Sub(p.LastSeen)))
		}
	case stateAcknowledged:
		text := "Acknowledged"
		if p.Acked != nil {
			text += " by " + p.Acked.By
		}
		parts = append(parts, text)
	default:
		parts = append(parts, capital(p.State))
	}
	if p.Assignee != "" {
		parts = append(parts, "assigned to "+p.Assignee)
	}
	if p.Open() && !p.Firing {
		parts = append(parts, "quiet for "+quantity.Span(v.Now.Sub(p.LastSeen)))
	}
	return strings.Join(parts, "; ")
}

func versionOf(d *Decision) string {
	if d == nil {
		return ""
	}
	return d.Version
}

func in(version string) string {
	if version == "" {
		return ""
	}
	return " in " + version
}

// did returns what a person did, from the columns of a row of alert_actions.
func did(action, comment string, until Time) string {
	end := ""
	if !until.IsZero() && until.T.Sub(until.Now) < endless {
		end = " until " + until.Absolute()
	}
	note := ""
	if comment != "" {
		note = ": " + comment
	}
	switch action {
	case "acknowledge":
		return "acknowledged it"
	case "unacknowledge":
		return "withdrew the acknowledgement"
	case "silence":
		return "silenced it" + end + note
	case "change_silence":
		return "changed a silence" + end + note
	case "unsilence":
		return "ended a silence"
	case "assign":
		if to, ok := strings.CutPrefix(comment, "to "); ok {
			return "assigned it to " + to
		}
		return "withdrew the assignment" + note
	case "resolve":
		if strings.HasPrefix(comment, "fixed in ") {
			return "says" + note
		}
		return "says that it is fixed" + note
	case "ignore":
		if strings.HasPrefix(comment, "until it hits ") {
			note = " " + comment
		}
		return "ignored it" + end + note
	case "reopen":
		return "reopened it" + note
	case "accept":
		return "said that this is the new normal" + note
	case "regress":
		return "reopened it, because it regressed" + note
	}
	return strings.ReplaceAll(action, "_", " ") + note
}
