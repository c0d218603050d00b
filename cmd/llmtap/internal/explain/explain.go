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
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/lint"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A Result explains one error.
type Result struct {
	Source   string `json:"source"` // file, file:line of a record, "-" for stdin, or Argument
	ID       string `json:"id"`
	Cause    string `json:"cause"` // "" if the call did not fail or the record is unreadable
	Class    string `json:"class"`
	Known    string `json:"known"`    // see cause.Cause.Known
	Provider string `json:"provider"` // from the wording, else from the record; "" if unknown
	Summary  string `json:"summary"`
	Fix      string `json:"fix"`

	StatedBy string         `json:"stated_by,omitempty"` // see cause.Cause.StatedBy
	Gateway  string         `json:"gateway,omitempty"`   // the gateway that relayed the text, if known
	Status   int            `json:"status,omitempty"`    // from the record, else from the text
	Rule     string         `json:"rule,omitempty"`
	Message  *int           `json:"message,omitempty"` // 0-based index of the message that violates Rule
	Other    *Other         `json:"other,omitempty"`   // set in a conflict
	Possible []string       `json:"possible,omitempty"`
	Cluster  string         `json:"cluster,omitempty"` // set for an unexplained text
	Dialect  wire.Dialect   `json:"dialect,omitempty"` // set for a judged request
	Variant  wire.Variant   `json:"variant,omitempty"`
	Findings []lint.Finding `json:"findings,omitempty"` // findings in the request that are related to the failure
	Error    string         `json:"error,omitempty"`    // error in reading the record or its request
}

// Other is the cause according to the request, if the text states a different cause.
type Other struct {
	Cause   string `json:"cause"`
	Class   string `json:"class"`
	Rule    string `json:"rule"`
	Message int    `json:"message"`
	Fix     string `json:"fix"`
}

// Counts contains the numbers of results by kind.
type Counts struct {
	Explained   int
	Unexplained int
	Fine        int // calls that did not fail
	Unreadable  int // records of which all or the request is unreadable
	Empty       int // inputs without a text or a record
	NoError     int // texts that state no error
}

// A Printer prints results.
type Printer = table.Printer[*Result, Counts]

// An Explainer explains errors. It is not safe for concurrent use.
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

// argument is the Source of a text given on the command line.
const argument = "argument"

// Inputs explains files and texts and closes the Printer.
func (e *Explainer) Inputs(inputs []string, stdin io.Reader) error {
	for _, in := range inputs {
		explain := func() error { return e.File(in, stdin) }
		if isText(in) {
			explain = func() error { return e.Text(argument, []byte(in)) }
		}
		if err := explain(); err != nil {
			return err
		}
	}
	return e.Printer.Close(e.Counts)
}

// isText reports whether an argument is an error text, that is, neither a file nor something like a misspelled file name.
func isText(arg string) bool {
	if _, err := os.Stat(arg); err == nil {
		return false
	}
	return strings.ContainsAny(arg, " \n{<")
}

// File explains the contents of a file; "-" is stdin. It returns write errors only; read errors are reported as Results.
func (e *Explainer) File(name string, stdin io.Reader) error {
	r := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return e.unreadable(&Result{Source: name}, err)
		}
		defer func() { _ = f.Close() }() // used for reading only
		r = f
	}
	in, err := read(r)
	switch {
	case err != nil:
		return e.unreadable(&Result{Source: name}, err)
	case in.records == nil:
		return e.Text(name, in.text)
	}
	for v := range records.Values(in.records) {
		res := Result{Source: fmt.Sprintf("%s:%d", name, v.Number())}
		if err := v.Check(); err != nil {
			if err := e.unreadable(&res, err); err != nil {
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

// Text explains a text.
func (e *Explainer) Text(source string, text []byte) error {
	if text = trim(text); len(text) == 0 {
		e.Counts.Empty++
		return e.Printer.Print(&Result{Source: source, Error: "the input is empty"})
	}
	t := wire.Target{Dialect: wire.Other, Variant: wire.OtherVariant}
	if s := streamError(t.Dialect, text); s != nil {
		text = s
	}
	if stated, traffic := cause.Statements(nil, text); traffic || success.Match(text) {
		if text = stated; !mayRefuse(stated) {
			e.Counts.NoError++
			return e.Printer.Print(&Result{
				Source: source, Known: cause.None, Summary: "The text is a request, an answer or a log of them. It states no error.",
				Fix: "If a call failed, explain its error: the body of the answer, the exception or the log of the failure.",
			})
		}
	}
	return e.explain(&Result{Source: source}, &record{status: unknownStatus, text: text, log: true, failed: true, target: t})
}

func (e *Explainer) record(res *Result, text []byte) error {
	r, err := newRecord(text)
	res.ID = r.id
	if err != nil {
		return e.unreadable(res, err)
	}
	if !r.failed {
		e.Counts.Fine++
		res.Provider, res.Known, res.Summary = providerOf(r), cause.None, "The call did not fail."
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

// explain explains the failure of r.
func (e *Explainer) explain(res *Result, r *record) error {
	if r.status == unknownStatus {
		r.status = findStatus(r.text)
	}
	var found []judge.Finding
	judged := false
	if len(r.request) > 0 && r.target.Dialect != wire.Other {
		var err error
		if found, judged, err = e.check(r); err != nil {
			e.Counts.Unreadable++
			res.Error = "read request: " + err.Error()
		}
	}
	in := cause.Input{Status: r.status, Text: r.text, Log: r.log, Variant: r.target.Variant, Provider: r.provider}
	in.Text = relevantPart(in)
	var paired func([]byte) (session.Pair, bool)
	if judged {
		paired = session.PairedIn(&e.request, r.request, r.target)
	}
	c := judge.Explain(in, found, paired)
	res.Cause, res.Class, res.Known, res.StatedBy, res.Rule, res.Status = c.ID, c.Class, c.Known, c.StatedBy, c.Rule, r.status
	res.Provider, res.Gateway = authorOf(c, r), c.Gateway
	res.Summary, res.Fix = lint.Meaning(&c), c.Fix
	if judged {
		res.Dialect, res.Variant = r.target.Dialect, r.target.Variant
	}
	addFindings(res, c.Other, found)
	if c.Known != cause.None {
		e.Counts.Explained++
		return e.Printer.Print(res)
	}
	e.Counts.Unexplained++
	res.Cluster = cause.Cluster(cause.Redact(in.Text))
	addPossible(res, r, found, judged)
	return e.Printer.Print(res)
}

// check judges the request of r; judged is false if it has no messages.
func (e *Explainer) check(r *record) (found []judge.Finding, judged bool, err error) {
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
	for _, v := range e.checker.Check(&e.request, r.target, nil) {
		found = append(found, judge.Finding{Violation: v})
	}
	return found, true, nil
}

// addFindings adds the violations related to the cause; in a conflict, other is the cause according to the request.
func addFindings(res *Result, other string, found []judge.Finding) {
	located := false
	for i := range found {
		v := &found[i].Violation
		ruleCause := cause.OfRule(v.Rule.ID)
		if v.Predicted != check.Reject && ruleCause != res.Cause && v.Rule.ID != res.Rule {
			continue
		}
		res.Findings = append(res.Findings, lint.NewFinding(v))
		if v.Rule.ID == res.Rule && !located {
			located = true
			res.Message, res.Fix = &v.Message, v.Rule.Fix
		}
		if other != "" && ruleCause == other && v.Predicted == check.Reject && res.Other == nil {
			res.Other = &Other{Cause: ruleCause, Class: cause.Class(ruleCause), Rule: v.Rule.ID, Message: v.Message, Fix: v.Rule.Fix}
		}
	}
}

// addPossible describes an unexplained failure, and adds the violations that may be its cause.
func addPossible(res *Result, r *record, found []judge.Finding, judged bool) {
	text := "The text matches no known cause"
	if len(trim(r.text)) == 0 {
		text = "The answer has no text"
	}
	switch {
	case len(r.request) == 0:
		res.Summary = text + ", and there is no request to check."
		res.Fix = "Explain a record with request and url: violations in the request may be the cause."
		return
	case !judged:
		res.Summary = text + ", and the request cannot be checked."
		return
	}
	res.Summary = text + ", and the request violates no rule that its provider is known to enforce."
	if !mayReject(res.Variant) {
		return
	}
	for i := range found {
		v := &found[i].Violation
		if v.Predicted != check.Lenient {
			continue
		}
		res.Findings = append(res.Findings, lint.NewFinding(v))
		if !slices.Contains(res.Possible, v.Rule.ID) {
			res.Possible = append(res.Possible, v.Rule.ID)
		}
	}
	if len(res.Possible) > 0 {
		res.Summary = text + "; the request violates rules that other providers enforce, perhaps this one too."
		res.Fix = "Try this first: " + res.Findings[0].Fix
	}
}

// mayReject reports whether v may reject more than is known, because v is unknown or a gateway to another provider.
func mayReject(v wire.Variant) bool {
	return v == wire.OtherVariant || v == wire.LiteLLM || v == wire.OpenRouter
}

// authorOf returns the provider identified by the wording of the text, else the provider in the record. The name in the
// record is used if it denotes the same provider, and for Azure, which runs OpenAI's server.
func authorOf(c cause.Cause, r *record) string {
	v := wire.Variant(c.Server)
	if v == "" || slices.Contains(variantsOf(r.provider), v) || v == wire.OpenAI && r.target.Variant == wire.Azure {
		return providerOf(r)
	}
	return providerName(v)
}

// providerOf returns the provider named in the record, else the provider of its URL and request.
func providerOf(r *record) string {
	switch {
	case r.provider != "":
		return r.provider
	case r.target.Variant == wire.OtherVariant:
		return ""
	}
	return providerName(r.target.Variant)
}

// providerName returns the name of a provider as in cause.Cause.StatedBy.
func providerName(v wire.Variant) string {
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
