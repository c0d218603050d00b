package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

const (
	shownText   = 240 // maximum characters of each text of a message
	shownAnswer = 1200
	shownParams = 600
	shownLabel  = 80
)

// Text writes e for a terminal and shortens long texts.
func (e *Exchange) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "exchange %s\n", e.ID)
	fmt.Fprintf(&b, "  conversation %s\n", terminal.Clip(e.Conversation, 200))
	fmt.Fprintf(&b, "  %s  %s\n", e.StartedAt.Format("2006-01-02 15:04:05.000 MST"), e.sender())
	fmt.Fprintf(&b, "  %s/%s  %s  %s%s\n", e.Dialect, e.Variant, e.Model, e.Server, e.Path)
	fmt.Fprintf(&b, "  %s\n", e.outcome())
	if e.ErrorText != "" {
		fmt.Fprintf(&b, "  provider error: %s\n", terminal.Clip(e.ErrorText, shownAnswer))
	}
	for _, m := range e.Missing {
		fmt.Fprintf(&b, "\nNOT STORED: %s\n", m)
	}
	if e.Parameters != "" {
		fmt.Fprintf(&b, "\nparameters\n  %s\n", terminal.Clip(e.Parameters, shownParams))
	}
	e.writeMessages(&b)
	if len(e.Earlier) > 0 {
		b.WriteString("\nearlier findings of the conversation, which the history may still contain\n")
		for i := range e.Earlier {
			f := &e.Earlier[i]
			fmt.Fprintf(&b, "  %s (%s): %s; first seen in exchange %s\n", f.Rule, f.verdict(), terminal.Clip(f.Summary, shownText), f.Exchange)
		}
	}
	if e.Answer != "" {
		fmt.Fprintf(&b, "\nanswer\n  %s\n", terminal.Clip(e.Answer, shownAnswer))
	}
	if _, ok := e.Body(); ok {
		fmt.Fprintf(&b, "\nLong texts are shortened. Full request: llmtap show %s --format body; with the answer: --format json\n", e.ID)
	}
	fmt.Fprintf(&b, "Conversation: llmtap show %s\n", quoted(e.Conversation))
	_, err := io.WriteString(w, b.String())
	return err
}

// writeMessages writes the messages with their findings below them.
func (e *Exchange) writeMessages(b *strings.Builder) {
	byMessage := map[int][]*Finding{}
	for i := range e.Findings {
		f := &e.Findings[i]
		at := f.Message
		if at >= len(e.Messages) {
			at = -1
		}
		byMessage[at] = append(byMessage[at], f)
	}
	if len(e.Messages) > 0 {
		fmt.Fprintf(b, "\nmessages (%d)\n", len(e.Messages))
	}
	for i, m := range e.Messages {
		mark, text := " ", "(not stored)"
		if len(byMessage[i]) > 0 {
			mark = ">"
		}
		if m != "" {
			text = records.Describe([]byte(m), shownText)
		}
		fmt.Fprintf(b, "  %s %3d %s\n", mark, i, text)
		for _, f := range byMessage[i] {
			f.write(b, "        ")
		}
	}
	if len(byMessage[-1]) > 0 {
		b.WriteString("\nfindings of the request as a whole\n")
		for _, f := range byMessage[-1] {
			f.write(b, "  ")
		}
	}
}

// write writes f with its root cause, first version and fix.
func (f *Finding) write(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%s%s (%s): %s\n", indent, f.Rule, f.verdict(), terminal.Clip(f.Summary, 2*shownText))
	if f.RootCause != "" {
		fmt.Fprintf(b, "%s  root cause: %s (%s): %s\n", indent, f.RootCause, f.Confidence, terminal.Clip(f.Evidence, 2*shownText))
	}
	switch {
	case f.FirstVersion != "" && f.LastClean != "":
		fmt.Fprintf(b, "%s  first version: %s; last clean version: %s\n", indent, terminal.Clip(f.FirstVersion, shownLabel), terminal.Clip(f.LastClean, shownLabel))
	case f.FirstVersion != "":
		fmt.Fprintf(b, "%s  first version: %s, the oldest version seen\n", indent, terminal.Clip(f.FirstVersion, shownLabel))
	}
	if f.Fix != "" {
		fmt.Fprintf(b, "%s  fix: %s\n", indent, f.Fix)
	}
}

// sender returns service, version, environment, stage and agent.
func (e *Exchange) sender() string {
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
	return terminal.Clip(strings.Join(parts, ", "), 400)
}

// outcome returns status, cause, tokens and attempt on one line.
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
		parts = append(parts, "finished: "+terminal.Clip(e.FinishReason, 60))
	}
	if e.InputTokens+e.OutputTokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens in, %d out", e.InputTokens, e.OutputTokens))
	}
	if e.Retry > 0 {
		parts = append(parts, fmt.Sprintf("SDK attempt %d", e.Retry+1))
	}
	return strings.Join(parts, "; ")
}

// Text writes c for a terminal: each exchange with the messages it added and its findings.
func (c *Conversation) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "conversation %s, %s\n", terminal.Clip(c.ID, 200), terminal.Plural(len(c.Exchanges), "exchange"))
	for _, t := range c.Exchanges {
		fmt.Fprintf(&b, "\n%s  %s  %s\n  %s\n", t.StartedAt.Format("2006-01-02 15:04:05"), t.ID, t.sender(), t.outcome())
		if t.ErrorText != "" {
			fmt.Fprintf(&b, "  provider error: %s\n", terminal.Clip(t.ErrorText, shownText))
		}
		for _, m := range t.Missing {
			fmt.Fprintf(&b, "  NOT STORED: %s\n", m)
		}
		marked := map[int]bool{}
		for i := range t.Findings {
			marked[t.Findings[i].Message] = true
		}
		if t.Kept > 0 {
			fmt.Fprintf(&b, "    %5s %s unchanged\n", "", terminal.Plural(t.Kept, "message"))
		}
		for _, n := range t.New {
			mark := " "
			if marked[n.Index] {
				mark = ">"
			}
			fmt.Fprintf(&b, "    %s %3d %s\n", mark, n.Index, n.Text)
		}
		for i := range t.Findings {
			t.Findings[i].write(&b, "    ")
		}
	}
	if c.Truncated {
		fmt.Fprintf(&b, "\nOnly the first %d exchanges are shown.\n", maxExchanges)
	}
	b.WriteString("\nOne exchange with all messages and the answer: llmtap show EXCHANGE\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// quoted returns s as an argument for a shell.
func quoted(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// JSON writes e as one object with request and answer. A body that is not JSON becomes a string.
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
	return command.WriteJSON(w, out)
}

// JSON writes c as one object.
func (c *Conversation) JSON(w io.Writer) error { return command.WriteJSON(w, c) }

// value returns body as JSON: unchanged if it is valid JSON, else as a string.
func value(body string) json.RawMessage {
	if json.Valid([]byte(body)) {
		return json.RawMessage(body)
	}
	var b bytes.Buffer
	_ = command.WriteJSON(&b, body) // no error: a string can always be encoded
	return b.Bytes()
}
