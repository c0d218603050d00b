package lint

import (
	"fmt"
	"io"
	"strings"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// Text prints each finding with the surrounding messages; the invalid message is marked:
//
//	history.json:1  openai_chat/openai
//	  orphan_tool_reply (would be rejected): message 2 (tool) answers call_1, which …
//	      1 assistant  ""
//	    > 2 tool       answers call_1  "PORT=80"
//	    root cause: tool_calls_dropped_on_save (high): answer of LLM call history.json:1 made …
//	    fix: …
//
// A finding that was already reported for an earlier record is shown on one line.
type Text struct {
	W     io.Writer
	Style *terminal.Style
	Cache bool // see Linter.Cache
}

// Limits for the messages shown around an invalid message.
const (
	shownBefore = 2
	shownAfter  = 1
	shownText   = 60 // maximum characters of a text
	shownIndent = "                    "
)

// Print prints r if it has findings or an error.
func (t Text) Print(r *Result) error {
	head, s := r.Source, t.Style
	if r.ID != "" {
		head += " (" + r.ID + ")"
	}
	switch {
	case r.Error != "":
		_, err := fmt.Fprintf(t.W, "%s\n\n", s.Wrap(head+"  ", s.Red("unreadable")+": "+r.repeated(r.Error), "  "))
		return err
	case r.NotJudged != "" && !r.counted:
		if _, err := fmt.Fprintf(t.W, "%s\n\n", s.Wrap(head+"  ", s.Yellow("not judged")+": "+r.repeated(r.NotJudged), "  ")); err != nil {
			return err
		}
	}
	if r.Cache != nil {
		return t.printCache(r, head)
	}
	failure, fix := r.unexplained()
	if len(r.Findings) == 0 && failure == "" {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s/%s\n", s.Bold(head), r.Dialect, r.Variant)
	if failure != "" {
		paint := s.Yellow
		if r.Refused > 0 {
			paint = s.Red
		}
		name, rest, _ := strings.Cut(failure, " ")
		b.WriteString(s.Wrap("  ", paint(name)+" "+rest, "  ") + "\n" + s.Wrap("    ", "fix: "+fix, "    ") + "\n")
	}
	shown := described(r)
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.repeated {
			b.WriteString(s.Wrap("  ", fmt.Sprintf("%s (%s): %sfirst seen in %s", f.Rule, r.verdict(f), place(f), f.First), "  ") + "\n")
			continue
		}
		b.WriteString(s.Wrap("  ", fmt.Sprintf("%s (%s): %s", t.paint(f)(f.Rule), r.verdict(f), f.Summary), "  ") + "\n")
		for j := max(0, f.Message-shownBefore); f.Message >= 0 && j <= f.Message+shownAfter; j++ {
			m, ok := shown[j]
			if !ok {
				continue
			}
			mark, paint := " ", func(line string) string { return line }
			if j == f.Message {
				mark, paint = ">", s.Bold
			}
			b.WriteString(paint(s.Wrap(fmt.Sprintf("    %s %3d %s", mark, j, m.role), m.text, shownIndent)) + "\n")
		}
		if f.explained {
			b.WriteString(s.Wrap("    ", fmt.Sprintf("root cause: %s (%s): %s", f.RootCause, f.Confidence, f.Evidence), "    ") + "\n")
		}
		b.WriteString(s.Wrap("    ", "fix: "+f.Fix, "    ") + "\n")
	}
	_, err := fmt.Fprintln(t.W, b.String())
	return err
}

// Close prints the counts.
func (t Text) Close(c Counts) error {
	if t.Cache {
		return t.closeCache(c)
	}
	histories := "histories"
	if c.Checked == 1 {
		histories = "history"
	}
	refused := ""
	if c.Refused > 0 {
		refused = fmt.Sprintf(", %d refused for what no rule finds", c.Refused)
	}
	_, err := fmt.Fprintln(t.W, t.Style.Wrap("", fmt.Sprintf("%d %s checked, %d would be rejected%s, %d not judged, %d unreadable",
		c.Checked, histories, c.Rejected, refused, c.Unjudged, c.Unreadable), "  "))
	return err
}

// splitRole splits a described message into its role, with the spaces after it, and the rest.
func splitRole(message string) (role, rest string) {
	i := strings.Index(message, "  ")
	if i < 0 {
		return "", message
	}
	rest = strings.TrimLeft(message[i:], " ")
	return message[:len(message)-len(rest)], rest
}

// paint returns the color of the severity of f.
func (t Text) paint(f *Finding) func(string) string {
	switch {
	case f.Predicted == check.Reject && f.Severity == check.Reject:
		return t.Style.Red
	case f.Predicted != check.Style:
		return t.Style.Yellow
	}
	return t.Style.Bold
}

// place returns the position of a finding, or "" if the finding has no message.
func place(f *Finding) string {
	if f.Message < 0 {
		return ""
	}
	return fmt.Sprintf("message %d, ", f.Message)
}

func (r *Result) verdict(f *Finding) string {
	switch {
	case f.Predicted == check.Reject && f.Severity != check.Reject:
		return "accepted, but would usually be rejected"
	case f.Predicted == check.Reject && r.Refused > 0 && cause.OfRule(f.Rule) == r.Cause:
		return fmt.Sprintf("rejected with %d", r.Refused)
	case f.Predicted == check.Reject:
		return "would be rejected"
	case f.Predicted == check.Lenient && r.Refused > 0:
		return fmt.Sprintf("rejected elsewhere; this request was answered with %d", r.Refused)
	case f.Predicted == check.Lenient:
		return "accepted here, rejected elsewhere"
	}
	return "style"
}

// A description is the description of a message on one line.
type description struct{ role, text string }

// described describes the messages around the findings of r, each once; none if the body cannot be parsed.
func described(r *Result) map[int]description {
	wanted := make(map[int]bool)
	last := -1
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Message >= 0 && !f.repeated {
			for j := f.Message - shownBefore; j <= f.Message+shownAfter; j++ {
				wanted[j] = true
			}
			last = max(last, f.Message+shownAfter)
		}
	}
	if last < 0 {
		return nil
	}
	array := r.body
	if f, ok := records.Parse(array); ok {
		array = f[r.Dialect.Descriptor().Messages]
	}
	all, i := make(map[int]description, len(wanted)), 0
	for _, text := range jsonscan.Elements(array) {
		if wanted[i] {
			role, rest := splitRole(records.Describe(text, shownText))
			all[i] = description{role, rest}
		}
		if i++; i > last {
			break
		}
	}
	return all
}
