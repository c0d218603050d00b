package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/lint"
)

const (
	shownText   = 240 // bytes of each text of a message
	shownAnswer = 1200
	shownParams = 600
)

// Text prints e for a terminal, long texts shortened.
func (e *Exchange) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "exchange %s\n", e.ID)
	fmt.Fprintf(&b, "  conversation %s\n", lint.Clip(e.Conversation, 200))
	fmt.Fprintf(&b, "  %s  %s\n", e.StartedAt.Format("2006-01-02 15:04:05.000 MST"), e.who())
	fmt.Fprintf(&b, "  %s/%s  %s  %s%s\n", e.Dialect, e.Variant, e.Model, e.Server, e.Path)
	fmt.Fprintf(&b, "  %s\n", e.outcome())
	if e.ErrorText != "" {
		fmt.Fprintf(&b, "  the provider: %s\n", lint.Clip(e.ErrorText, shownAnswer))
	}
	for _, m := range e.Missing {
		fmt.Fprintf(&b, "\nNOT STORED: %s\n", m)
	}
	if e.Parameters != "" {
		fmt.Fprintf(&b, "\nparameters\n  %s\n", lint.Clip(e.Parameters, shownParams))
	}
	e.messages(&b)
	if len(e.Earlier) > 0 {
		b.WriteString("\nfindings of this conversation from before; the history may still have them\n")
		for i := range e.Earlier {
			f := &e.Earlier[i]
			fmt.Fprintf(&b, "  %s (%s): %s; first in exchange %s\n", f.Rule, f.verdict(), lint.Clip(f.Summary, shownText), f.Exchange)
		}
	}
	if e.Answer != "" {
		fmt.Fprintf(&b, "\nanswer\n  %s\n", lint.Clip(e.Answer, shownAnswer))
	}
	if _, ok := e.Body(); ok {
		fmt.Fprintf(&b, "\nLong texts are shortened. The whole request: llmtap show %s --format body; with the answer: --format json\n", e.ID)
	}
	fmt.Fprintf(&b, "The conversation: llmtap show %s\n", quoted(e.Conversation))
	_, err := io.WriteString(w, b.String())
	return err
}

// messages prints the messages, the findings below those they are of.
func (e *Exchange) messages(b *strings.Builder) {
	of := map[int][]*Finding{}
	for i := range e.Findings {
		f := &e.Findings[i]
		at := f.Message
		if at >= len(e.Messages) {
			at = -1
		}
		of[at] = append(of[at], f)
	}
	if len(e.Messages) > 0 {
		fmt.Fprintf(b, "\nmessages (%d)\n", len(e.Messages))
	}
	for i, m := range e.Messages {
		mark, text := " ", "(not stored)"
		if len(of[i]) > 0 {
			mark = ">"
		}
		if m != "" {
			text = lint.Describe([]byte(m), shownText)
		}
		fmt.Fprintf(b, "  %s %3d %s\n", mark, i, text)
		for _, f := range of[i] {
			f.text(b, "        ")
		}
	}
	if len(of[-1]) > 0 {
		b.WriteString("\nfindings of the request as a whole\n")
		for _, f := range of[-1] {
			f.text(b, "  ")
		}
	}
}

// text prints f with its root cause, whose change it is, and what to do.
func (f *Finding) text(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%s%s (%s): %s\n", indent, f.Rule, f.verdict(), lint.Clip(f.Summary, 2*shownText))
	if f.RootCause != "" {
		fmt.Fprintf(b, "%s  root cause: %s (%s): %s\n", indent, f.RootCause, f.Confidence, lint.Clip(f.Evidence, 2*shownText))
	}
	switch {
	case f.FirstVersion != "" && f.LastClean != "":
		fmt.Fprintf(b, "%s  whose change: first in version %s, not in %s before it\n", indent, lint.Clip(f.FirstVersion, 80), lint.Clip(f.LastClean, 80))
	case f.FirstVersion != "":
		fmt.Fprintf(b, "%s  whose change: in version %s already, the first that was seen\n", indent, lint.Clip(f.FirstVersion, 80))
	}
	if f.Fix != "" {
		fmt.Fprintf(b, "%s  fix: %s\n", indent, f.Fix)
	}
}

// who is the service, version and stage that sent e.
func (e *Exchange) who() string {
	parts := []string{strings.TrimSpace(e.Service + " " + e.ServiceVersion)}
	if e.Environment != "" {
		parts = append(parts, e.Environment)
	}
	if e.Stage != "" {
		parts = append(parts, "stage "+e.Stage)
	}
	if e.Agent != "" && e.Agent != e.Stage {
		parts = append(parts, "agent "+e.Agent)
	}
	return lint.Clip(strings.Join(parts, ", "), 400)
}

// outcome is how e ended, in one line.
func (e *Exchange) outcome() string {
	parts := []string{fmt.Sprintf("status %d", e.Status)}
	if e.Status == 0 {
		parts[0] = "no answer"
	}
	parts[0] += fmt.Sprintf(" after %.2f s", e.Seconds)
	if e.Cause != "" {
		parts = append(parts, fmt.Sprintf("cause %s (%s)", e.Cause, e.CauseKnown))
	}
	if e.RootCause != "" {
		parts = append(parts, "root cause "+e.RootCause)
	}
	if e.Cause == "" && e.ErrorType != "" {
		parts = append(parts, e.ErrorType)
	}
	if e.FinishReason != "" {
		parts = append(parts, "finished: "+lint.Clip(e.FinishReason, 60))
	}
	if e.InputTokens+e.OutputTokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens in, %d out", e.InputTokens, e.OutputTokens))
	}
	if e.Retry > 0 {
		parts = append(parts, fmt.Sprintf("attempt %d of the SDK", e.Retry+1))
	}
	return strings.Join(parts, "; ")
}

// Text prints c for a terminal: each exchange, what it added, and what was found.
func (c *Conversation) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "conversation %s, %d exchanges\n", lint.Clip(c.ID, 200), len(c.Exchanges))
	for _, t := range c.Exchanges {
		fmt.Fprintf(&b, "\n%s  %s  %s\n  %s\n", t.StartedAt.Format("2006-01-02 15:04:05"), t.ID, t.who(), t.outcome())
		if t.ErrorText != "" {
			fmt.Fprintf(&b, "  the provider: %s\n", lint.Clip(t.ErrorText, shownText))
		}
		for _, m := range t.Missing {
			fmt.Fprintf(&b, "  NOT STORED: %s\n", m)
		}
		of := map[int]bool{}
		for i := range t.Findings {
			of[t.Findings[i].Message] = true
		}
		if t.Kept > 0 {
			fmt.Fprintf(&b, "    %5s the first %d messages as before\n", "", t.Kept)
		}
		for _, n := range t.New {
			mark := " "
			if of[n.Index] {
				mark = ">"
			}
			fmt.Fprintf(&b, "    %s %3d %s\n", mark, n.Index, n.Text)
		}
		for i := range t.Findings {
			t.Findings[i].text(&b, "    ")
		}
	}
	if c.Truncated {
		fmt.Fprintf(&b, "\nThere are more than %d exchanges; these are the first.\n", maxExchanges)
	}
	b.WriteString("\nOne exchange, with all its messages and the answer: llmtap show EXCHANGE\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// quoted is an argument as a shell takes it.
func quoted(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// JSON prints e as one object: the call, its request and its answer. A body that is no JSON is a string.
func (e *Exchange) JSON(w io.Writer) error {
	out := struct {
		*Exchange
		Request json.RawMessage `json:"request,omitempty"`
		Answer  json.RawMessage `json:"answer,omitempty"`
	}{Exchange: e}
	if body, ok := e.Body(); ok {
		out.Request = value(body)
	}
	if e.Answer != "" {
		out.Answer = value(e.Answer)
	}
	return encode(w, out)
}

// JSON prints c as one object.
func (c *Conversation) JSON(w io.Writer) error { return encode(w, c) }

func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// value is body as JSON.
func value(body string) json.RawMessage {
	if json.Valid([]byte(body)) {
		return json.RawMessage(body)
	}
	var b bytes.Buffer
	_ = encode(&b, body) // a string always encodes
	return b.Bytes()
}
