package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/rules"
)

const lintHelp = `Check message histories before a provider does. Reads JSON or JSON lines, plain or gzip: request bodies, bare message
arrays, recorded exchanges ({"request":…,"status":…,"url":…}) and conversations ({"messages":…,"format":"openai.chat"}).
OpenAI chat completions are judged; other dialects are named and left alone.

  llmtap lint history.json
  my-agent --dump-request | llmtap lint -
  llmtap lint --dialect openai_chat/deepseek --format jsonl runs/*.jsonl.gz

Exit code: 0 nothing would be rejected, 1 something would, 2 input that cannot be read (the rest is still reported).`

// lintRecord is one checked record, as --format jsonl prints it.
type lintRecord struct {
	Source   string        `json:"source"` // file:line
	ID       string        `json:"id,omitempty"`
	Dialect  facts.Dialect `json:"dialect,omitempty"`
	Variant  facts.Variant `json:"variant,omitempty"`
	Findings []lintFinding `json:"findings"`
	Error    string        `json:"error,omitempty"`

	messages []json.RawMessage // for the text format
}

type lintFinding struct {
	Rule       string            `json:"rule"`
	Predicted  analyzer.Severity `json:"predicted"`
	Severity   analyzer.Severity `json:"severity"`
	Message    int               `json:"message"` // 0-based index in messages as sent
	ToolCallID string            `json:"tool_call_id,omitempty"`
	Summary    string            `json:"summary"`
	Fix        string            `json:"fix"`
}

func runLint(_ context.Context, c *cli) error {
	fs := c.flags("lint", lintHelp)
	dialect := fs.String("dialect", "auto", "`auto|openai_chat[/variant]`: whose rules apply")
	format := fs.String("format", "text", "output as `text|jsonl`")
	minimum := fs.String("severity", "lenient", "lowest severity to report: `reject|lenient|style`")
	if err := c.parse(fs); err != nil {
		return err
	}
	l := linter{checker: analyzer.NewChecker(rules.InOrder), minimum: severityRank(analyzer.Severity(*minimum))}
	if l.minimum < 0 {
		return &exitError{exitBadInput, fmt.Errorf("severity: %q is none of reject, lenient, style", *minimum)}
	}
	if *dialect != "auto" {
		d, v, _ := strings.Cut(*dialect, "/")
		if facts.Dialect(d) != facts.OpenAIChat {
			return &exitError{exitBadInput, fmt.Errorf("dialect: %q cannot be checked yet, only openai_chat", d)}
		}
		l.forced = &facts.Target{Dialect: facts.OpenAIChat, Variant: facts.Variant(v)}
		if v == "" {
			l.forced.Variant = facts.OpenAI
		}
	}
	switch *format {
	case "jsonl":
		enc := json.NewEncoder(c.stdout)
		l.emit = func(r *lintRecord) error { return enc.Encode(r) }
	case "text":
		l.emit = func(r *lintRecord) error { return printLint(c.stdout, r) }
	default:
		return &exitError{exitBadInput, fmt.Errorf("format: %q is none of text, jsonl", *format)}
	}
	files := fs.Args()
	if len(files) == 0 {
		files = []string{"-"}
	}
	for _, name := range files {
		if err := l.file(name, c.stdin); err != nil {
			return err
		}
	}
	if *format == "text" {
		fmt.Fprintf(c.stdout, "%d histories checked, %d would be rejected, %d not judged, %d unreadable\n", l.checked, l.rejected, l.unjudged, l.unreadable)
	}
	switch {
	case l.unreadable > 0:
		return &exitError{code: exitBadInput}
	case l.rejected > 0:
		return &exitError{code: exitFailed}
	}
	return nil
}

func severityRank(s analyzer.Severity) int {
	switch s {
	case analyzer.Reject:
		return 2
	case analyzer.Lenient:
		return 1
	case analyzer.Style:
		return 0
	}
	return -1
}

// A linter checks records one by one and counts what it saw.
type linter struct {
	checker *analyzer.Checker
	forced  *facts.Target
	minimum int
	request facts.Request
	emit    func(*lintRecord) error

	checked, rejected, unjudged, unreadable int
}

// file checks every record of a file; "-" is stdin. Only a failed write is an error: what cannot be read is reported.
func (l *linter) file(name string, stdin io.Reader) error {
	r := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return l.unread(name, err)
		}
		defer func() { _ = f.Close() }() // only read
		r = f
	}
	br := bufio.NewReaderSize(r, 1<<20)
	if magic, _ := br.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(br)
		if err != nil {
			return l.unread(name, err)
		}
		br = bufio.NewReaderSize(z, 1<<20)
	}
	// A file is JSON lines when its first line is a JSON value; else it is one JSON value over many lines.
	for line := 1; ; line++ {
		text, err := br.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return l.unread(fmt.Sprintf("%s:%d", name, line), err)
		}
		last := err != nil
		text = bytes.TrimSpace(text)
		if line == 1 && len(text) > 0 && !json.Valid(text) {
			rest, err := io.ReadAll(br)
			if err != nil {
				return l.unread(name, err)
			}
			text, last = append(append(text, '\n'), rest...), true
		}
		if len(text) > 0 {
			if err := l.record(fmt.Sprintf("%s:%d", name, line), text); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

func (l *linter) unread(source string, err error) error {
	l.unreadable++
	return l.emit(&lintRecord{Source: source, Findings: []lintFinding{}, Error: err.Error()})
}

// wrapper is the fields by which a record is recognised.
type wrapper struct {
	ID       json.RawMessage `json:"id"`
	Request  json.RawMessage `json:"request"`
	Status   int             `json:"status"`
	URL      string          `json:"url"`
	Format   string          `json:"format"`
	Model    string          `json:"model"`
	Messages json.RawMessage `json:"messages"`
	NRequest *int            `json:"n_request"`
}

// record checks one JSON value: a message array, an exchange, a conversation or a request body.
func (l *linter) record(source string, text []byte) error {
	rec := &lintRecord{Source: source, Findings: []lintFinding{}}
	body, w := text, wrapper{}
	if text[0] == '{' {
		if err := json.Unmarshal(text, &w); err != nil {
			return l.unread(source, fmt.Errorf("not a JSON object that lint knows: %w", err))
		}
		rec.ID = strings.Trim(string(w.ID), `"`)
	}
	switch {
	case text[0] == '[':
		w.Messages = text
	case len(w.Request) > 0:
		body = w.Request
		w.Messages = nil
	case w.Format != "" && w.Messages != nil:
		body = conversationBody(&w)
	}
	target := facts.Target{Dialect: facts.OpenAIChat, Variant: facts.OpenAI, Model: w.Model}
	switch {
	case l.forced != nil:
		target = *l.forced
	case w.URL != "":
		target = facts.Detect(w.URL, w.Model, body)
	case w.Format != "" && w.Format != "openai.chat":
		target = facts.Target{Dialect: facts.Other, Variant: facts.OtherVariant}
	}
	rec.Dialect, rec.Variant = target.Dialect, target.Variant
	if target.Dialect != facts.OpenAIChat {
		l.unjudged++
		return l.emit(rec)
	}
	scan := facts.ScanRequest
	if body[0] == '[' {
		scan = facts.ScanMessages
	}
	if err := scan(target.Dialect, body, &l.request); err != nil {
		return l.unread(source, err)
	}
	if l.request.MessagesKind != facts.Array {
		return l.unread(source, errors.New("no messages: not a request body, message array, exchange or conversation"))
	}
	l.checked++
	if l.judge(rec, target, w.Status) {
		l.rejected++
	}
	if len(rec.Findings) > 0 {
		rec.messages = rawMessages(body)
	}
	return l.emit(rec)
}

// judge adds the violations of the scanned request to rec and reports whether it would be rejected.
func (l *linter) judge(rec *lintRecord, target facts.Target, status int) (rejected bool) {
	for _, v := range l.checker.Check(&l.request, target) {
		severity := v.Predicted
		if severity == analyzer.Reject && status >= 200 && status < 300 {
			severity = analyzer.Lenient
		}
		rejected = rejected || v.Predicted == analyzer.Reject
		if severityRank(v.Predicted) < l.minimum {
			continue
		}
		rec.Findings = append(rec.Findings, lintFinding{
			Rule: v.Rule.ID, Predicted: v.Predicted, Severity: severity, Message: v.Message,
			ToolCallID: v.ToolCallID, Summary: v.Summary, Fix: v.Rule.Fix,
		})
	}
	return rejected
}

// conversationBody is the messages that were sent: without the answer, when the record says where it starts.
func conversationBody(w *wrapper) []byte {
	if w.NRequest == nil {
		return w.Messages
	}
	var all []json.RawMessage
	if json.Unmarshal(w.Messages, &all) != nil || *w.NRequest < 0 || *w.NRequest >= len(all) {
		return w.Messages
	}
	body, err := json.Marshal(all[:*w.NRequest])
	if err != nil {
		return w.Messages
	}
	return body
}

func rawMessages(body []byte) []json.RawMessage {
	var all []json.RawMessage
	if body[0] == '[' {
		_ = json.Unmarshal(body, &all) // scanned already; a difference in strictness only loses the excerpt
		return all
	}
	var w wrapper
	if json.Unmarshal(body, &w) == nil {
		_ = json.Unmarshal(w.Messages, &all)
	}
	return all
}
