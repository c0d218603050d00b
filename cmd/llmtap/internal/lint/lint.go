package lint

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A Result is the result for one record.
type Result struct {
	Source   string       `json:"source"` // file:line
	ID       string       `json:"id,omitempty"`
	Dialect  wire.Dialect `json:"dialect,omitempty"`
	Variant  wire.Variant `json:"variant,omitempty"`
	Findings []Finding    `json:"findings"` // never nil
	// Status, Cause and CauseKnown tell why a recorded call failed, see cause.Cause. Refused is the status if the provider refused
	// the content of the request; otherwise 0.
	Status     int    `json:"status,omitempty"`
	Cause      string `json:"cause,omitempty"`
	CauseKnown string `json:"cause_known,omitempty"`
	Refused    int    `json:"refused,omitempty"`
	// Repeats is the number of identical lines that follow an unreadable record or one that was not judged. They are counted,
	// but are not Results of their own.
	Repeats int `json:"repeats,omitempty"`
	// Cache says why the request cannot read the provider's prompt cache; nil if it can, or if that is not asked for.
	Cache *CacheBreak `json:"cache,omitempty"`
	// NotJudged says why the rules did not judge the record, or only a part of it; Error why it is unreadable.
	NotJudged string `json:"not_judged,omitempty"`
	Error     string `json:"error,omitempty"`

	file     string
	line     int
	exchange string // name of this record in the findings of other records
	body     []byte // the checked request
	rejected bool   // a finding predicts a rejection, and the request was not accepted
	counted  bool   // an earlier record was not judged for the same reason; set with Linter.Cache
	why      cause.Cause
}

// A Finding is one violation. For an exchange, earlier exchanges are taken into account.
type Finding struct {
	ID         string         `json:"id,omitempty"`    // the same in every record with the defect
	First      string         `json:"first,omitempty"` // the first record with the defect, if it is not this one
	Rule       string         `json:"rule"`
	Predicted  check.Severity `json:"predicted"`
	Severity   check.Severity `json:"severity"` // same as Predicted, unless the request was accepted
	Message    int            `json:"message"`  // 0-based index in the sent messages; -1 for the request as a whole
	ToolCallID string         `json:"tool_call_id,omitempty"`
	ToolName   string         `json:"tool_name,omitempty"`
	Detail     string         `json:"detail,omitempty"`
	Summary    string         `json:"summary"`
	RootCause  string         `json:"root_cause,omitempty"` // one of session.RootCauses
	Confidence string         `json:"confidence,omitempty"` // confidence in the root cause: high, medium, low
	Evidence   string         `json:"evidence,omitempty"`   // evidence for the root cause
	Fix        string         `json:"fix"`                  // fix for the root cause if known, else for the rule

	line      int  // line of the message, or of the record if unknown
	explained bool // the root cause is known
	repeated  bool // an earlier record had the finding with at least this severity
}

// Counts contains the numbers of records by outcome. A file without records counts as one.
type Counts struct {
	Checked    int
	Rejected   int // records with a finding that predicts a rejection, unless the provider accepted the request
	Refused    int // other records that the provider refused for their content
	Unjudged   int // records that the rules did not judge, or only in part
	Unreadable int
	Broken     int // records that break the prompt cache for an avoidable reason
}

// A Printer prints results.
type Printer = table.Printer[*Result, Counts]

// A Linter checks records in order, taking earlier exchanges into account. It is not safe for concurrent use.
type Linter struct {
	Forced  *wire.Target   // target of all records; nil: detect it
	Minimum check.Severity // lowest severity to report
	// PreviousResponse is the previous_response_id of requests to the Responses API that contain none; "" for none.
	PreviousResponse string
	// Cache checks whether requests can read the provider's prompt cache, instead of the rules.
	Cache   bool
	Printer Printer
	Counts  Counts

	exchanges *Exchanges
	caches    *analyzer.Caches
	reasons   map[string]bool // of breaks of the prompt cache, and why records were not judged, that were printed
}

// New returns a Linter with all rules.
func New(p Printer) *Linter {
	return &Linter{Minimum: check.Style, Printer: p, exchanges: NewExchanges(HistoryBytes), caches: analyzer.NewCaches(), reasons: map[string]bool{}}
}

// Severities returns the values of Minimum.
func Severities() (names []string) {
	for _, s := range check.Severities {
		names = append(names, string(s))
	}
	return names
}

// DialectFlag declares the flag whose value ParseTarget parses.
func DialectFlag(fs *flag.FlagSet) *string {
	return fs.String("dialect", "auto", "whose rules apply: auto or a `dialect[/variant]`, such as anthropic or openai_chat/mistral")
}

// ParseTarget parses "dialect" or "dialect/variant"; the default variant is the first one of the dialect. It returns nil
// for "auto".
func ParseTarget(s string) (*wire.Target, error) {
	if s == "auto" {
		return nil, nil
	}
	d, v, _ := strings.Cut(s, "/")
	variants := wire.Dialect(d).Variants()
	switch {
	case len(variants) == 0:
		return nil, fmt.Errorf("--dialect: %q must be one of auto, %s", d, joined(wire.Dialects))
	case v == "":
		v = string(variants[0])
	case !slices.Contains(variants, wire.Variant(v)):
		return nil, fmt.Errorf("--dialect: %q is not a variant of %s, which has %s", v, d, joined(variants))
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

var extensions = []string{".json", ".jsonl", ".ndjson", ".har"}

// filesIn returns the files below dir with one of the extensions, plain or compressed, in lexical order.
func filesIn(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains(extensions, filepath.Ext(strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".zst"))) {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

func (l *Linter) notJudged(res *Result, why error) error {
	l.Counts.Unjudged += 1 + res.Repeats
	if l.Cache {
		res.counted = l.reasons[why.Error()]
		l.reasons[why.Error()] = true
	}
	if res.NotJudged = why.Error(); res.Findings == nil {
		res.Findings = []Finding{}
	}
	return l.Printer.Print(res)
}

func (l *Linter) unreadable(res *Result, err error) error {
	l.Counts.Unreadable += 1 + res.Repeats
	res.Findings, res.Error = []Finding{}, err.Error()
	return l.Printer.Print(res)
}

// repeated appends the number of the following identical lines to why, the reason why r was not judged.
func (res *Result) repeated(why string) string {
	switch res.Repeats {
	case 0:
		return why
	case 1:
		return why + "; the next line is identical"
	}
	return fmt.Sprintf("%s; the next %d lines are identical", why, res.Repeats)
}

// unexplained returns what is known of a recorded failure that no finding of r explains, and how to mend it; "" if there is none.
func (res *Result) unexplained() (text, fix string) {
	if res.Cause == "" || slices.ContainsFunc(res.Findings, func(f Finding) bool { return f.Rule == res.why.Rule || cause.OfRule(f.Rule) == res.Cause }) {
		return "", ""
	}
	text, fix = Meaning(&res.why), res.why.Fix
	switch {
	case res.why.Denial != "":
	case res.CauseKnown == cause.None && len(res.Findings) > 0:
		text, fix = "The answer states no reason that is known.", "Read the text of the answer, and mend what the findings name."
	case res.CauseKnown != cause.None && res.Refused > 0:
		text += " No rule finds it in the request."
	}
	return fmt.Sprintf("%s (%s): %s", res.Cause, Known(res.CauseKnown, res.Status), text), fix
}

// Meaning returns what c means, and what the request shows instead.
func Meaning(c *cause.Cause) string {
	meaning, _ := cause.Meaning(c.ID)
	if c.Denial != "" {
		meaning = "The answer says: " + meaning + " The request does not show it. " + c.Denial
	}
	return meaning
}

// Known says in words how the cause of a failure with this status is known.
func Known(known string, status int) string {
	switch known {
	case cause.Guessed:
		return fmt.Sprintf("a guess from the text of the answer with status %d", status)
	case cause.None:
		return fmt.Sprintf("answered with %d", status)
	}
	return fmt.Sprintf("%s, answered with %d", known, status)
}

// NewFinding returns the finding for v, a violation in a request without an answer.
func NewFinding(v *check.Violation) Finding {
	return Finding{
		Rule: v.Rule.ID, Predicted: v.Predicted, Severity: v.Predicted, Message: v.Message, ToolCallID: v.ToolCallID,
		ToolName: v.ToolName, Detail: v.Detail, Summary: v.Summary, Fix: v.Rule.Fix,
	}
}

// add adds a violation to res, unless it is below the minimum. f is the finding for v in the conversation, or nil.
func (res *Result) add(minimum check.Severity, v *check.Violation, f *judge.Finding, accepted bool) {
	severity := judge.Severity(v.Predicted, accepted)
	res.rejected = res.rejected || severity == check.Reject
	if v.Predicted.Rank() < minimum.Rank() {
		return
	}
	row := NewFinding(v)
	row.Severity = severity
	if f != nil {
		in, report := f.Instance, f.Report(accepted)
		row.ID, row.Fix, row.explained = hex.EncodeToString(f.ID[:]), f.Fix(), in.Root.Rank() > 0
		row.RootCause, row.Confidence, row.Evidence = in.Root.ID, in.Root.Confidence, in.Root.Evidence
		if in.Exchange != res.exchange {
			row.First, row.repeated = in.Exchange, report.Known
		}
	}
	res.Findings = append(res.Findings, row)
}

// locate sets the lines of findings, if the record spans several lines and contains the checked request verbatim.
func (res *Result) locate(q *facts.Request, text []byte) {
	byMessage := make([]*Finding, len(res.Findings))
	for i := range res.Findings {
		byMessage[i] = &res.Findings[i]
		byMessage[i].line = res.line
	}
	if len(byMessage) == 0 || bytes.IndexByte(text, '\n') < 0 {
		return
	}
	body := bytes.Index(text, res.body)
	if body < 0 {
		return
	}
	slices.SortFunc(byMessage, func(a, b *Finding) int { return a.Message - b.Message })
	line, counted := res.line, 0
	for _, f := range byMessage {
		if f.Message >= 0 {
			start := body + q.Messages[f.Message].Start
			line += bytes.Count(text[counted:start], []byte("\n"))
			f.line, counted = line, start
		}
	}
}
