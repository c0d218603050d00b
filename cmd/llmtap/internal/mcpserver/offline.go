package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/explain"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/lint"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/mend"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/ruledoc"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

const explainDoc = `Explain why a provider call failed: cause, evidence, fix. The input is an error text of any form (exception, log, traceback, body), or a JSON record {"body":…,"status":400,"provider":…}, or {"request":…,"response":…,"status":400,"url":…}, which makes the cause more certain. Needs no stored data.`

// textOf returns a text that a client may send as a string or, if the text is JSON, as its value.
func textOf(v any) string {
	if s, ok := v.(string); ok {
		return strings.TrimSpace(s)
	}
	if v == nil {
		return ""
	}
	var b strings.Builder
	_ = command.WriteJSON(&b, v) // no error: v was decoded from JSON
	return strings.TrimSpace(b.String())
}

type explainInput struct {
	Error  any `json:"error" jsonschema:"the error text, or a record, or records as JSON lines"`
	Offset int `json:"offset,omitempty" jsonschema:"byte of the answer to begin at, to continue an answer"`
}

func (*tools) explain(_ context.Context, in explainInput) (answer, error) {
	text := textOf(in.Error)
	if text == "" {
		return answer{}, errors.New("error is empty: pass the text of the error")
	}
	var b strings.Builder
	p := explain.Text{W: &b, Style: style()}
	e := explain.New(p)
	err := e.File("-", strings.NewReader(text))
	if err == nil {
		err = p.Close(e.Counts)
	}
	if err != nil {
		return answer{}, fmt.Errorf("write explanation: %w", err)
	}
	return paged(b.String(), in.Offset)
}

const lintDoc = `Check a message history before a provider rejects it: violations of the message protocol with the index of the message and the fix. Use it on the request that your code builds. Input: a request body, a message array, calls {"request":…,"response":…,"status":…,"url":…} or conversations, as JSON or JSON lines. Needs no stored data, and stores nothing.`

type lintInput struct {
	History any    `json:"history" jsonschema:"the history as JSON text, or the JSON value itself"`
	Dialect string `json:"dialect,omitempty" jsonschema:"whose rules apply: auto, or a dialect with an optional variant, such as anthropic or openai_chat/deepseek"`
	Offset  int    `json:"offset,omitempty" jsonschema:"byte of the answer to begin at, to continue an answer"`
}

// read returns the history and the target of its rules, nil: detect it.
func (in lintInput) read() (text string, forced *wire.Target, err error) {
	if text = textOf(in.History); text == "" {
		return "", nil, errors.New("history is empty: pass the messages or the request as JSON text")
	}
	if in.Dialect != "" {
		if forced, err = lint.ParseTarget(in.Dialect); err != nil {
			return "", nil, errors.New(strings.TrimPrefix(err.Error(), "--"))
		}
	}
	return text, forced, nil
}

func (*tools) lint(ctx context.Context, in lintInput) (answer, error) {
	text, forced, err := in.read()
	if err != nil {
		return answer{}, err
	}
	var b strings.Builder
	l := lint.New(lint.Text{W: &b, Style: style()})
	l.Forced = forced
	if err := l.Files(ctx, []string{"-"}, strings.NewReader(text)); err != nil {
		return answer{}, err
	}
	if c := l.Counts; c.Unreadable > 0 && c.Checked == c.Unreadable || c.Checked == 0 {
		return answer{}, fmt.Errorf("no history could be read. %s", strings.TrimSpace(b.String()))
	}
	return paged(b.String(), in.Offset)
}

const repairDoc = `Repair a message history that a provider refuses, with the fewest changes: what was wrong, what was changed, what was lost, and a JSON patch (RFC 6902) for the history. Use it for stored histories that are broken already; to keep new ones whole, fix the code that builds them. Input as for lint: calls of one conversation in order give lost calls back. Needs no stored data, and stores nothing.`

func (*tools) repair(_ context.Context, in lintInput) (answer, error) {
	text, forced, err := in.read()
	if err != nil {
		return answer{}, err
	}
	var report, patch strings.Builder
	m := mend.Mender{Format: mend.Patch, Forced: forced, Out: &patch, Report: &report, Style: style()}
	if err := m.File("-", strings.NewReader(text)); err != nil {
		return answer{}, err
	}
	switch c := m.Counts; {
	case c.Repaired+c.Left+c.Healthy == 0:
		return answer{}, fmt.Errorf("no history could be read. %s", strings.TrimSpace(report.String()))
	case c.Repaired+c.Left == 0:
		return answer{text: "Nothing to repair: the provider has no reason to refuse it.\n" + report.String()}, nil
	}
	return paged(report.String()+"\n"+patch.String(), in.Offset)
}

const rulesDoc = `Explain a rule, cause, root cause or signal by its id: what it means, which providers reject it, and the fix for the agent. Without an id, it lists all, or those of a kind.`

type rulesInput struct {
	ID     string `json:"id,omitempty" jsonschema:"such as orphan_tool_reply or tool_calls_dropped_on_save"`
	Kind   string `json:"kind,omitempty" jsonschema:"rule, cause, root_cause or signal"`
	Offset int    `json:"offset,omitempty" jsonschema:"byte of the answer to begin at, to continue an answer"`
}

func (*tools) rules(_ context.Context, in rulesInput) (answer, error) {
	var ids []string
	if in.ID != "" {
		ids = []string{in.ID}
	}
	entries, err := ruledoc.Select(ids, in.Kind)
	if err != nil {
		return answer{}, err
	}
	if len(entries) == 0 {
		return answer{}, fmt.Errorf("no kind %q; the kinds are %s", in.Kind, strings.Join(ruledoc.Kinds, ", "))
	}
	var b strings.Builder
	if err := ruledoc.Write(&b, entries, len(ids) > 0, command.Text, style()); err != nil {
		return answer{}, err
	}
	return paged(b.String(), in.Offset)
}
