package explain

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/lint"
	"github.com/llmtap/llmtap/ingest/wire"
)

// A Result is what explain says of one error.
type Result struct {
	Source   string `json:"source"` // file, or file:line of a record; "-" is stdin, and "argument" what stood there
	ID       string `json:"id"`
	Cause    string `json:"cause"` // of the registry; "" when the call did not fail or the record is unreadable
	Class    string `json:"class"`
	Known    string `json:"known"`    // as cause.Cause.Known
	Provider string `json:"provider"` // who wrote the text; where its spelling does not show it, who was asked; "" when nobody says
	Summary  string `json:"summary"`
	Fix      string `json:"fix"`

	StatedBy string         `json:"stated_by,omitempty"` // as cause.Cause.StatedBy
	Gateway  string         `json:"gateway,omitempty"`   // who passed the text on, where it shows
	Status   int            `json:"status,omitempty"`    // given, or told by the text
	Rule     string         `json:"rule,omitempty"`
	Message  *int           `json:"message,omitempty"` // that shows Rule: 0-based index in messages as sent
	Other    *Other         `json:"other,omitempty"`   // in a conflict
	Possible []string       `json:"possible,omitempty"`
	Cluster  string         `json:"cluster,omitempty"` // of an unexplained text
	Dialect  wire.Dialect   `json:"dialect,omitempty"` // of a request that was judged
	Variant  wire.Variant   `json:"variant,omitempty"`
	Findings []lint.Finding `json:"findings,omitempty"` // in the request, as far as they have to do with the failure
	Error    string         `json:"error,omitempty"`    // what could not be read: the record, or only its request
}

// Other is what the request shows where the text says another thing.
type Other struct {
	Cause   string `json:"cause"`
	Class   string `json:"class"`
	Rule    string `json:"rule"`
	Message int    `json:"message"`
	Fix     string `json:"fix"`
}

// Counts is what an Explainer saw.
type Counts struct {
	Explained   int
	Unexplained int
	Fine        int // calls that did not fail
	Unreadable  int // records, or requests of them
}

// A Printer takes the results one by one. Close ends the output.
type Printer interface {
	Print(*Result) error
	Close(Counts) error
}

// An Explainer explains errors one by one. It is not safe for concurrent use.
type Explainer struct {
	Printer Printer
	Counts  Counts

	checker *check.Checker
	request facts.Request
}

// New returns an Explainer.
func New(p Printer) *Explainer {
	return &Explainer{Printer: p, checker: check.NewChecker(rules.InOrder)}
}

// Argument is the Source of a text that came neither from a file nor from stdin.
const Argument = "argument"

// File explains what a file holds; "-" is stdin. Only a failed write is an error: what cannot be read is a Result.
func (e *Explainer) File(name string, stdin io.Reader) error {
	r := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return e.unreadable(&Result{Source: name}, err)
		}
		defer func() { _ = f.Close() }() // only read
		r = f
	}
	in, err := read(r)
	switch {
	case err != nil:
		return e.unreadable(&Result{Source: name}, err)
	case in.records == nil:
		return e.Text(name, in.text)
	}
	for v := range lint.Values(in.records) {
		res := Result{Source: fmt.Sprintf("%s:%d", name, v.Line)}
		if v.Err != nil {
			if err := e.unreadable(&res, fmt.Errorf("read JSON: %w", v.Err)); err != nil {
				return err
			}
			continue
		}
		for _, text := range elements(v.Text) {
			one := res
			if err := e.record(&one, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// Text explains a text. One of white space is none.
func (e *Explainer) Text(source string, text []byte) error {
	if text = trim(text); len(text) == 0 {
		return nil
	}
	t := wire.Target{Dialect: wire.Other, Variant: wire.OtherVariant}
	if s := inStream(t.Dialect, text); s != nil {
		text = s
	}
	return e.explain(&Result{Source: source}, &record{status: unknownStatus, text: text, failed: true, target: t})
}

func (e *Explainer) record(res *Result, text []byte) error {
	r, err := newRecord(text)
	res.ID = r.id
	if err != nil {
		return e.unreadable(res, err)
	}
	if !r.failed {
		e.Counts.Fine++
		res.Provider, res.Known, res.Summary = asked(r), cause.None, "The call did not fail."
		res.Status = max(r.status, 0)
		return e.Printer.Print(res)
	}
	return e.explain(res, r)
}

func (e *Explainer) unreadable(res *Result, err error) error {
	e.Counts.Unreadable++
	res.Error = err.Error()
	return e.Printer.Print(res)
}

// explain says why r failed.
func (e *Explainer) explain(res *Result, r *record) error {
	if r.status == unknownStatus {
		r.status = statusIn(r.text)
	}
	var found []check.Violation
	judged := false
	if len(r.request) > 0 && r.target.Dialect != wire.Other {
		var err error
		if found, judged, err = e.check(r); err != nil {
			e.Counts.Unreadable++
			res.Error = "read request: " + err.Error()
		}
	}
	in := cause.Input{Status: r.status, Text: telling(r.text, r.status, r.target.Variant), Variant: r.target.Variant, Provider: r.provider}
	for i := range found {
		if found[i].Predicted == check.Reject {
			in.Rules = append(in.Rules, found[i].Rule.ID)
		}
	}
	c := cause.Classify(in)
	res.Cause, res.Class, res.Known, res.StatedBy, res.Rule, res.Status = c.ID, c.Class, c.Known, c.StatedBy, c.Rule, r.status
	res.Provider, res.Gateway = provider(c, r), c.Gateway
	res.Summary, res.Fix = cause.Meaning(c.ID)
	if judged {
		res.Dialect, res.Variant = r.target.Dialect, r.target.Variant
	}
	e.place(res, c.Other, found)
	if c.Known != cause.None {
		e.Counts.Explained++
		return e.Printer.Print(res)
	}
	e.Counts.Unexplained++
	res.Cluster = cause.Cluster(cause.Redact(in.Text))
	unexplained(res, r, found, judged)
	return e.Printer.Print(res)
}

// check judges the request of r.
func (e *Explainer) check(r *record) (found []check.Violation, judged bool, err error) {
	scan := facts.ScanRequest
	if r.request[0] == '[' {
		scan = facts.ScanMessages
	}
	if err := scan(r.target.Dialect, r.request, &e.request); err != nil {
		return nil, false, err
	}
	if e.request.MessagesKind == facts.Absent {
		return nil, false, nil
	}
	if r.target.Model == "" {
		r.target.Model = string(e.request.Model)
	}
	return e.checker.Check(&e.request, r.target, nil), true, nil
}

// place adds to res where the request shows what failed; other is the cause that it shows in a conflict.
func (e *Explainer) place(res *Result, other string, found []check.Violation) {
	shown := false
	for i := range found {
		v := &found[i]
		of := cause.OfRule(v.Rule.ID)
		if v.Predicted != check.Reject && of != res.Cause && v.Rule.ID != res.Rule {
			continue
		}
		res.Findings = append(res.Findings, finding(v))
		if v.Rule.ID == res.Rule && !shown {
			shown = true
			res.Message, res.Fix = &v.Message, v.Rule.Fix
		}
		if other != "" && of == other && v.Predicted == check.Reject && res.Other == nil {
			res.Other = &Other{Cause: of, Class: cause.Class(of), Rule: v.Rule.ID, Message: v.Message, Fix: v.Rule.Fix}
		}
	}
}

func finding(v *check.Violation) lint.Finding {
	return lint.Finding{
		Rule: v.Rule.ID, Predicted: v.Predicted, Severity: v.Predicted, Message: v.Message, ToolCallID: v.ToolCallID,
		ToolName: v.ToolName, Detail: v.Detail, Summary: v.Summary, Fix: v.Rule.Fix,
	}
}

// unexplained says what is known of a failure that nothing explains.
func unexplained(res *Result, r *record, found []check.Violation, judged bool) {
	said := "The text names no cause that is known here"
	if len(trim(r.text)) == 0 {
		said = "The answer has no text"
	}
	switch {
	case len(r.request) == 0:
		res.Summary = said + ", and there is no request to judge."
		res.Fix = "Explain it with its request and url, as a record: what the request breaks may tell."
		return
	case !judged:
		res.Summary = said + ", and the request is none that can be judged."
		return
	}
	res.Summary = said + ", and the request breaks no rule that its provider is known to enforce."
	if !mayReject(res.Variant) {
		return
	}
	for i := range found {
		v := &found[i]
		if v.Predicted != check.Lenient {
			continue
		}
		res.Findings = append(res.Findings, finding(v))
		if !slices.Contains(res.Possible, v.Rule.ID) {
			res.Possible = append(res.Possible, v.Rule.ID)
		}
	}
	if len(res.Possible) > 0 {
		res.Summary = said + "; the request breaks what other providers enforce, and whether this one does is not known."
		res.Fix = "Try this first: " + res.Findings[0].Fix
	}
}

// mayReject reports whether a violation that v is not known to reject may still be why it failed: nobody knows the
// server, or it passes on to another.
func mayReject(v wire.Variant) bool {
	return v == wire.OtherVariant || v == wire.LiteLLM || v == wire.OpenRouter
}

// provider is who wrote the text, where its spelling shows it, else who was asked. A name that the record has for the
// writer stays, and so does Azure, which runs OpenAI's server.
func provider(c cause.Cause, r *record) string {
	v := wire.Variant(c.Server)
	if v == "" || slices.Contains(providers[providerKey(r.provider)], v) || v == wire.OpenAI && r.target.Variant == wire.Azure {
		return asked(r)
	}
	return name(v)
}

// asked is the provider that the record names, else the one that its URL and request show.
func asked(r *record) string {
	switch {
	case r.provider != "":
		return r.provider
	case r.target.Variant == wire.OtherVariant:
		return ""
	}
	return name(r.target.Variant)
}

// name is what a variant's provider is called here, as cause.Cause.StatedBy calls it.
func name(v wire.Variant) string {
	switch v {
	case wire.GeminiAPI, wire.GeminiOpenAI:
		return "gemini"
	case wire.VertexGemini, wire.VertexAnthropic:
		return "vertex"
	case wire.DeepSeekResponses:
		return "deepseek"
	default:
		return string(v)
	}
}

// known says how the cause of res is known, in words.
func known(res *Result) string {
	by := "the text"
	switch res.StatedBy {
	case "", "hosts", "common": // the words of many
	case "status":
		by = fmt.Sprintf("HTTP status %d", res.Status)
		if res.Status == 0 {
			by = "the client, which got no answer"
		}
	default:
		by = "the text, in words that " + res.StatedBy + " uses"
	}
	if res.Gateway != "" {
		by += ", passed on by " + res.Gateway
	}
	where := "the request"
	if res.Message != nil && *res.Message >= 0 {
		where = fmt.Sprintf("message %d of the request", *res.Message)
	}
	switch res.Known {
	case cause.Stated:
		return "stated by " + by
	case cause.Inferred:
		return fmt.Sprintf("inferred: the text does not say; %s breaks %s, which %s rejects", where, res.Rule, res.Variant)
	case cause.Both:
		return fmt.Sprintf("both: stated by %s, and %s breaks %s", by, where, res.Rule)
	case cause.Conflict:
		other := "another rule"
		if res.Other != nil {
			other = res.Other.Rule
		}
		return fmt.Sprintf("conflict: stated by %s, but the request breaks %s, and no rule of this cause", by, other)
	}
	return "not known"
}

// what is the first line of res: its cause and class.
func what(res *Result) string {
	if res.Cause == "" {
		return "nothing failed"
	}
	return strings.TrimSpace(res.Cause + " (" + res.Class + ")")
}
