package lint

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/wire"
)

// A Result is what lint says of one record.
type Result struct {
	Source   string       `json:"source"` // file:line
	ID       string       `json:"id,omitempty"`
	Dialect  wire.Dialect `json:"dialect,omitempty"`
	Variant  wire.Variant `json:"variant,omitempty"`
	Findings []Finding    `json:"findings"` // never nil
	Error    string       `json:"error,omitempty"`

	file     string
	line     int
	exchange string // how other records' findings name this one
	body     []byte // the request that was checked
	rejected bool   // it has a finding predicted reject
}

// A Finding is one violation. Findings of an exchange know the exchanges before it.
type Finding struct {
	ID         string         `json:"id,omitempty"`    // the same in each record that has the defect
	First      string         `json:"first,omitempty"` // the record that had it first, if that is another
	Rule       string         `json:"rule"`
	Predicted  check.Severity `json:"predicted"`
	Severity   check.Severity `json:"severity"` // predicted, but for a request that was accepted
	Message    int            `json:"message"`  // 0-based index in messages as sent; -1 for the request as a whole
	ToolCallID string         `json:"tool_call_id,omitempty"`
	ToolName   string         `json:"tool_name,omitempty"`
	Detail     string         `json:"detail,omitempty"`
	Summary    string         `json:"summary"`
	RootCause  string         `json:"root_cause,omitempty"` // what the agent did; one of session.RootCauses
	Confidence string         `json:"confidence,omitempty"` // of the root cause: high, medium, low
	Evidence   string         `json:"evidence,omitempty"`   // of the root cause
	Fix        string         `json:"fix"`                  // of the root cause, else of the rule

	line      int  // where its message starts, that of the record if this is not known
	explained bool // the root cause is known
	again     bool // it was printed before, no weaker
}

// Counts is what a Linter saw.
type Counts struct {
	Checked    int // records that were judged
	Rejected   int // of these, with a finding predicted reject
	Unjudged   int // records of a dialect without rules
	Unreadable int
}

// A Printer takes the results one by one. Close ends the output.
type Printer interface {
	Print(*Result) error
	Close(Counts) error
}

// A Linter checks records one by one and remembers the exchanges. It is not safe for concurrent use.
type Linter struct {
	Forced  *wire.Target   // judges every record; nil: each record's own
	Minimum check.Severity // lowest severity to report
	Printer Printer
	Counts  Counts

	judge   *judge.Judge
	request facts.Request
	answer  facts.Response
	seq     uint64 // of requests and answers
}

// New returns a Linter with all rules.
func New(p Printer) *Linter {
	return &Linter{
		Minimum: check.Style, Printer: p, judge: judge.New(rules.InOrder, session.Config{Bytes: historyBytes}),
	}
}

// ParseSeverity reads a severity's name.
func ParseSeverity(s string) (check.Severity, error) {
	if !slices.Contains(check.Severities, check.Severity(s)) {
		return "", fmt.Errorf("severity: %q is none of reject, lenient, style", s)
	}
	return check.Severity(s), nil
}

// ParseTarget reads "dialect" or "dialect/variant"; "auto" is nil. Without a variant it is the first of the dialect.
func ParseTarget(s string) (*wire.Target, error) {
	if s == "auto" {
		return nil, nil
	}
	d, v, _ := strings.Cut(s, "/")
	variants := wire.Dialect(d).Variants()
	switch {
	case len(variants) == 0:
		return nil, fmt.Errorf("dialect: %q is none of auto, %s", d, joined(wire.Dialects))
	case v == "":
		v = string(variants[0])
	case !slices.Contains(variants, wire.Variant(v)):
		return nil, fmt.Errorf("dialect: %q is no variant of %s; there are %s", v, d, joined(variants))
	}
	return &wire.Target{Dialect: wire.Dialect(d), Variant: wire.Variant(v)}, nil
}

func joined[T ~string](names []T) string {
	s := make([]string, len(names))
	for i, n := range names {
		s[i] = string(n)
	}
	return strings.Join(s, ", ")
}

// File checks every record of a file; "-" is stdin. Only a failed write is an error: what cannot be read is a Result.
func (l *Linter) File(name string, stdin io.Reader) error {
	r := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return l.unreadable(&Result{Source: name, file: name}, err)
		}
		defer func() { _ = f.Close() }() // only read
		r = f
	}
	for v := range Values(r) {
		last := 0
		for i, v := range records(v) {
			res := &Result{Source: fmt.Sprintf("%s:%d", name, v.Line), file: name, line: v.Line}
			if res.exchange = res.Source; v.Line == last {
				res.exchange = fmt.Sprintf("%s[%d]", res.Source, i)
			}
			last = v.Line
			if err := l.record(res, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Linter) unreadable(res *Result, err error) error {
	l.Counts.Unreadable++
	res.Findings, res.Error = []Finding{}, err.Error()
	return l.Printer.Print(res)
}

func (l *Linter) record(res *Result, v Value) error {
	if v.Err != nil {
		return l.unreadable(res, fmt.Errorf("read JSON: %w", v.Err))
	}
	rec, err := newRecord(v.Text)
	if err != nil {
		return l.unreadable(res, err)
	}
	res.ID, res.body, res.Findings = rec.id, rec.body, []Finding{}
	t := rec.target()
	if l.Forced != nil {
		found := t
		t = *l.Forced
		t.Model, t.Native = found.Model, found.Native && t.Variant == wire.Ollama
	}
	if res.Dialect, res.Variant = t.Dialect, t.Variant; t.Dialect == wire.Other {
		l.Counts.Unjudged++
		return l.Printer.Print(res)
	}
	scan := facts.ScanRequest
	if len(rec.body) > 0 && rec.body[0] == '[' {
		scan = facts.ScanMessages
	}
	q := &l.request
	if err := scan(t.Dialect, rec.body, q); err != nil {
		return l.unreadable(res, fmt.Errorf("read request: %w", err))
	}
	// A recorded request without a history is the caller's mistake, where the URL says that it should have one.
	if q.MessagesKind == facts.Absent && (!rec.exchange || rec.url == "") {
		return l.unreadable(res, errNoHistory)
	}
	if t.Model == "" {
		t.Model = string(q.Model)
	}
	q.Bare = q.Bare || rec.bare
	l.Counts.Checked++
	if rec.exchange {
		l.exchange(res, rec, t)
	} else {
		for _, v := range l.judge.Check(q, t) {
			l.add(res, &v, nil, false)
		}
	}
	if res.rejected {
		l.Counts.Rejected++
	}
	l.locate(res, v.Text)
	return l.Printer.Print(res)
}

// add adds a violation to res, unless it is below the minimum. f is its finding in the conversation; nil for a request
// outside any.
func (l *Linter) add(res *Result, v *check.Violation, f *judge.Finding, accepted bool) {
	res.rejected = res.rejected || v.Predicted == check.Reject
	if v.Predicted.Rank() < l.Minimum.Rank() {
		return
	}
	row := Finding{
		Rule: v.Rule.ID, Predicted: v.Predicted, Severity: judge.Severity(v.Predicted, accepted), Message: v.Message, ToolCallID: v.ToolCallID,
		ToolName: v.ToolName, Detail: v.Detail, Summary: v.Summary, Fix: v.Rule.Fix,
	}
	if f != nil {
		in, report := f.Instance, f.Report(accepted)
		row.ID, row.Fix, row.explained = hex.EncodeToString(f.ID[:]), f.Fix(), in.Root.Rank() > 0
		row.RootCause, row.Confidence, row.Evidence = in.Root.ID, in.Root.Confidence, in.Root.Evidence
		if in.Exchange != res.exchange {
			row.First, row.again = in.Exchange, report.Known
		}
	}
	res.Findings = append(res.Findings, row)
}

// locate sets the line of each finding to that of its message, where the text of the record spans several and has the
// request as it was checked.
func (l *Linter) locate(res *Result, text []byte) {
	inOrder := make([]*Finding, len(res.Findings))
	for i := range res.Findings {
		inOrder[i] = &res.Findings[i]
		inOrder[i].line = res.line
	}
	if len(inOrder) == 0 || bytes.IndexByte(text, '\n') < 0 {
		return
	}
	body := bytes.Index(text, res.body)
	if body < 0 {
		return
	}
	slices.SortFunc(inOrder, func(a, b *Finding) int { return a.Message - b.Message })
	line, counted := res.line, 0
	for _, f := range inOrder {
		if f.Message >= 0 {
			start := body + l.request.Messages[f.Message].Start
			line += bytes.Count(text[counted:start], []byte("\n"))
			f.line, counted = line, start
		}
	}
}
