package mend

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/repair"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/lint"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/quantity"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Formats of the output.
const (
	JSON  = "json"  // the repaired history; the report goes to the other writer
	Patch = "patch" // a JSON patch whose operations have a reason; the report goes to the other writer
	Text  = "text"  // only the report
)

// A Mender repairs records and writes the results.
type Mender struct {
	Format  string
	Forced  *wire.Target // target of all records; nil: detect it
	Lenient bool         // see repair.Options
	Out     io.Writer
	Report  io.Writer
	Style   *terminal.Style
	Counts  Counts

	buffer    []byte
	answers   map[string][][]byte // by conversation
	exchanges *lint.Exchanges
	checker   *check.Checker // of records that are not exchanges
}

// Counts contains the numbers of histories by outcome.
type Counts struct{ Healthy, Repaired, Left, Unjudged, Unreadable int }

// maxAnswers bounds the answers that are kept of a conversation in a file.
const maxAnswers = 1000

// File repairs all records of a file.
func (m *Mender) File(name string, r io.Reader) error {
	n := 0
	for v := range records.Values(r) {
		for i, v := range records.Split(v) {
			n++
			source := fmt.Sprintf("%s:%d", name, v.Number())
			if i > 0 {
				source += fmt.Sprintf("[%d]", i)
			}
			if err := m.record(source, v); err != nil {
				return err
			}
		}
	}
	if n == 0 {
		return m.notJudged(name, errors.New("no records"))
	}
	return nil
}

func (m *Mender) record(source string, v records.Value) error {
	if err := v.Check(); err != nil {
		return m.unreadable(source, err)
	}
	if m.exchanges == nil {
		m.exchanges, m.checker = lint.NewExchanges(lint.HistoryBytes), check.NewChecker(rules.InOrder)
	}
	if len(v.Text) <= records.Kept { // the exchanges keep it
		v.Text = bytes.Clone(v.Text)
	}
	m.buffer = m.buffer[:0]
	rec, err := records.NewRecord(v.Text, m.Forced, &m.buffer)
	if err != nil {
		return m.unreadable(source, err)
	}
	if err := rec.Unjudged(); err != nil {
		return m.notJudged(source, err)
	}
	t, _ := rec.TargetFor(m.Forced)
	h := History{Source: source, Target: t, Body: rec.Body, Answers: m.answers[rec.Conversation]}
	if !rec.Exchange && !bytes.Equal(rec.Body, v.Text) { // a conversation
		h.whole, h.member = v.Text, t.Dialect.Descriptor().Messages
	}
	if m.Forced == nil {
		h.Status = rec.Status
		m.explain(&h, rec)
	}
	if err := m.History(&h); err != nil {
		return err
	}
	if rec.Exchange && len(rec.Response) > 0 && rec.Status < 300 {
		if m.answers == nil {
			m.answers = map[string][][]byte{}
		}
		all := m.answers[rec.Conversation]
		for _, message := range records.Answer(t.Dialect, rec.Response) {
			all = append(all, bytes.Clone(message))
		}
		m.answers[rec.Conversation] = all[max(0, len(all)-maxAnswers):]
	}
	return nil
}

// explain sets why the provider refused the record of h. An exchange is judged after the earlier ones of its conversation, as llmtap
// lint does.
func (m *Mender) explain(h *History, rec *records.Record) {
	scan, t, q, a := facts.ScanRequest, h.Target, new(facts.Request), new(facts.Response)
	if rec.Body[0] == '[' {
		scan = facts.ScanMessages
	}
	if t.Dialect == wire.Other || rec.Status == 0 && !rec.Exchange || scan(t.Dialect, rec.Body, q) != nil {
		return
	}
	if t.Model == "" {
		t.Model = string(q.Model)
	}
	if len(rec.Response) == 0 || facts.ScanResponse(t.Dialect, "", rec.Response, a) != nil {
		a = nil
	}
	var findings []judge.Finding
	var failed bool
	if rec.Exchange {
		findings, h.Cause, failed = m.exchanges.Record(rec, h.Source, t, q, a, false)
		shows := func(f judge.Finding) bool { return f.Rule.ID == h.Cause.Rule && f.Predicted == check.Reject }
		if i := slices.IndexFunc(findings, shows); i >= 0 {
			h.Shown, h.Cause.Fix = findings[i].Summary, findings[i].Fix()
		}
	} else {
		for _, v := range m.checker.Check(q, t, nil) {
			findings = append(findings, judge.Finding{Violation: v})
		}
		h.Cause, failed = lint.Explain(rec, t, q, a, findings)
	}
	h.Refused = failed && h.Cause.OfContent(rec.Status)
}

// A History is a request to repair.
type History struct {
	Source  string
	Target  wire.Target
	Body    []byte
	Answers [][]byte // see repair.Options
	Shape   bool     // texts are placeholders
	// Status and Cause are those of the provider's answer; zero if they are not known. Refused reports that it refused the content of
	// the request.
	Status  int
	Cause   cause.Cause
	Refused bool
	Shown   string // what the request violates, if that shows the cause and is known

	whole  []byte // the record that contains the messages under "messages"; nil if it is Body
	member string // member of Body with the messages
}

// History repairs h and writes the result.
func (m *Mender) History(h *History) error {
	if h.Status/100 == 2 && !h.Refused { // the provider accepted it, whatever the rules say
		m.Counts.Healthy++
		res := &repair.Result{Body: h.Body}
		if err := m.write(h, res); err != nil {
			return err
		}
		return m.report(h, res)
	}
	o := repair.Options{Answers: h.Answers, Lenient: m.Lenient}
	res, err := repair.Repair(h.Target, h.Body, o)
	// The provider may be stricter than the rules predict.
	for _, o := range []repair.Options{{Answers: h.Answers, Cause: h.Cause.ID}, {Answers: h.Answers, Lenient: true}} {
		if err != nil || len(res.Steps) > 0 || len(res.Left) > 0 || !h.Refused {
			break
		}
		if res, err = repair.Repair(h.Target, h.Body, o); err == nil {
			res.Left = nil // they are not known to be the reason
		}
	}
	if err != nil {
		if err := m.write(h, &repair.Result{Body: h.Body}); err != nil {
			return err
		}
		return m.notJudged(h.Source, err)
	}
	switch {
	case len(res.Left) > 0, h.unmended(res):
		m.Counts.Left++
	case len(res.Steps) > 0:
		m.Counts.Repaired++
	default:
		m.Counts.Healthy++
	}
	if err := m.write(h, res); err != nil {
		return err
	}
	return m.report(h, res)
}

// unmended reports whether the provider refused the request for a cause that no step mends. One fault may be repaired as another of
// its class, since providers name what they see first.
func (h *History) unmended(res *repair.Result) bool {
	if !h.Refused || len(res.Steps) == 0 {
		return h.Refused
	}
	mends := func(s repair.Step) bool { return cause.Class(cause.OfRule(s.Rule)) == h.Cause.Class }
	return h.Cause.Known == cause.Stated && !slices.ContainsFunc(res.Steps, mends)
}

// An operation is one of a JSON patch. RFC 6902 lets a program ignore the members that it does not know.
type operation struct {
	repair.Operation
	Reason string   `json:"reason,omitempty"`
	Lost   []string `json:"lost,omitempty"`
}

// patch returns the operations with the reason and the loss of each step in its first operation. Their paths are those of
// the record.
func (h *History) patch(res *repair.Result) []operation {
	all := []operation{}
	for i := range res.Steps {
		s := &res.Steps[i]
		for j, o := range s.Patch {
			x := operation{Operation: o}
			if h.whole != nil {
				x.Path, x.From = h.inRecord(o.Path), h.inRecord(o.From)
			}
			if j == 0 {
				x.Reason, x.Lost = s.Rule+": "+s.Reason+": "+s.Repair, s.Lost
			}
			all = append(all, x)
		}
	}
	return all
}

// inRecord returns the pointer in a conversation's record for one in its request.
func (h *History) inRecord(pointer string) string {
	if rest, ok := strings.CutPrefix(pointer, "/"+h.member+"/"); ok {
		return "/messages/" + rest
	}
	return pointer
}

func (m *Mender) write(h *History, res *repair.Result) error {
	var out []byte
	switch m.Format {
	case JSON:
		out = res.Body
		if h.whole != nil {
			ops := []repair.Operation{}
			for _, o := range h.patch(res) {
				ops = append(ops, o.Operation)
			}
			var err error
			if out, err = repair.Apply(h.whole, ops); err != nil {
				return err
			}
		}
		out = append(bytes.Clone(out), '\n')
	case Patch:
		var b bytes.Buffer
		b.WriteString("[")
		for i, o := range h.patch(res) {
			b.WriteString([]string{"\n  ", ",\n  "}[min(i, 1)])
			line := new(bytes.Buffer)
			enc := json.NewEncoder(line)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(o); err != nil {
				return fmt.Errorf("encode patch: %w", err)
			}
			b.Write(bytes.TrimSpace(line.Bytes()))
		}
		if len(res.Steps) > 0 {
			b.WriteString("\n")
		}
		b.WriteString("]\n")
		out = b.Bytes()
	default:
		return nil
	}
	_, err := m.Out.Write(out)
	return err
}

// report writes what was repaired and what was lost:
//
//	history.json:1  openai_chat/openai  1 repair, 1 loss
//	  message 2 (orphan_tool_reply): message 2 (tool) answers call_1, which …
//	    repair: removes a reply without its call
//	    lost: the reply call_1 in message 2 (2 bytes)
func (m *Mender) report(h *History, res *repair.Result) error {
	unmended := h.unmended(res)
	if len(res.Steps) == 0 && len(res.Left) == 0 && !unmended && m.Format != Text {
		return nil
	}
	s := m.Style
	var b strings.Builder
	counts := "nothing to repair"
	if unmended {
		counts = "no repair known"
	}
	if len(res.Steps) > 0 {
		counts = quantity.Plural(len(res.Steps), "repair")
		if n := len(res.Lost()); n > 0 {
			counts += fmt.Sprintf(", %d lost", n)
		} else {
			counts += ", nothing lost"
		}
	}
	if n := len(res.Left); n > 0 {
		counts += fmt.Sprintf(", %d left", n)
	}
	fmt.Fprintf(&b, "%s  %s/%s  %s\n", s.Bold(h.Source), h.Target.Dialect, h.Target.Variant, counts)
	for i := range res.Steps {
		step := &res.Steps[i]
		b.WriteString(s.Wrap("  ", fmt.Sprintf("%s: %s", s.Bold(step.Rule), step.Reason), "  ") + "\n")
		b.WriteString(s.Wrap("    ", s.Green("repair")+": "+step.Repair, "    ") + "\n")
		for _, lost := range step.Lost {
			b.WriteString(s.Wrap("    ", s.Yellow("lost")+": "+lost, "    ") + "\n")
		}
	}
	for _, v := range res.Left {
		b.WriteString(s.Wrap("  ", fmt.Sprintf("%s: %s", s.Red(v.Rule.ID), v.Summary), "  ") + "\n")
		b.WriteString(s.Wrap("    ", "cannot be repaired; fix: "+v.Rule.Fix, "    ") + "\n")
	}
	if unmended {
		meaning := cmp.Or(h.Shown, lint.Meaning(&h.Cause))
		b.WriteString(s.Wrap("  ", fmt.Sprintf("%s (%s): %s", s.Red(h.Cause.ID), lint.Known(h.Cause.Known, h.Status), meaning), "  ") + "\n")
		b.WriteString(s.Wrap("    ", "not mended; fix: "+h.Cause.Fix, "    ") + "\n")
	}
	if h.Shape && len(res.Steps) > 0 {
		b.WriteString(s.Wrap("  ", "Only the shape is stored: texts are placeholders. Apply the patch (--format patch) to the history that the agent stores.", "  ") + "\n")
	}
	_, err := fmt.Fprintln(m.Report, strings.TrimRight(b.String(), "\n"))
	return err
}

func (m *Mender) unreadable(source string, why error) error {
	m.Counts.Unreadable++
	return m.failed(source, "unreadable", why)
}

func (m *Mender) notJudged(source string, why error) error {
	m.Counts.Unjudged++
	return m.failed(source, "not judged", why)
}

func (m *Mender) failed(source, what string, why error) error {
	_, err := fmt.Fprintln(m.Report, m.Style.Wrap(source+"  ", m.Style.Red(what)+": "+cmp.Or(why.Error(), "unknown"), "  "))
	return err
}
