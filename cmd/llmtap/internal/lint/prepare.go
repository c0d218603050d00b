package lint

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A job is one record on its way through the pipeline.
type job struct {
	res   Result
	value records.Value

	// Results of prepare. Either unreadable is set or, if the rules cannot judge the record, skipped, or the record is judged.
	unreadable error
	skipped    error
	rec        *records.Record
	target     wire.Target
	foreign    bool // the status is from another provider than the one whose rules apply
	violations int
	complete   error          // what the rules cannot judge
	dropped    bool           // a part of the request exceeds the limits of package facts
	request    *facts.Request // set for an exchange
	answer     facts.Response
	answered   bool // answer is set
}

// A worker prepares jobs. It is not safe for concurrent use.
type worker struct {
	forced   *wire.Target
	minimum  check.Severity
	previous []byte // see Linter.PreviousResponse
	cache    bool   // see Linter.Cache

	checker *check.Checker
	request facts.Request
	bodies  []byte // see batch
}

func (l *Linter) newWorker() *worker {
	return &worker{forced: l.Forced, minimum: l.Minimum, previous: []byte(l.PreviousResponse), cache: l.Cache, checker: check.NewChecker(rules.InOrder)}
}

// requests contains the facts of exchanges that were judged, for reuse.
var requests = sync.Pool{New: func() any { return new(facts.Request) }}

// Limits of the reuse of facts, so that one huge request does not occupy its memory until the end.
const (
	maxReusedBody     = 64 << 10
	maxReusedMessages = 4 << 10
)

// release returns the facts of an exchange to requests.
func (j *job) release() {
	if q := j.request; q != nil && len(j.rec.Body) <= maxReusedBody && cap(q.Messages) <= maxReusedMessages {
		requests.Put(q)
	}
}

// accepted reports whether the provider whose rules apply accepted the request. An answer with status 200 may contain an error;
// a body that is neither an answer nor an error, such as a placeholder, proves nothing.
func (j *job) accepted() bool {
	if j.foreign || j.rec.Status < 200 || j.rec.Status >= 300 {
		return false
	}
	e := j.answer.Error
	return len(e) == 0 || bytes.Equal(e, bytes.TrimSpace(j.rec.Response))
}

// responded returns the facts of the answer; nil if there is none.
func (j *job) responded() *facts.Response {
	if !j.answered {
		return nil
	}
	return &j.answer
}

// fail sets why the call of j failed.
func (j *job) fail(c cause.Cause) {
	j.res.Status, j.res.Cause, j.res.CauseKnown, j.res.why = j.rec.Status, c.ID, c.Known, c
	if c.OfContent(j.rec.Status) {
		j.res.Refused = j.rec.Status
	}
}

// Explain returns why the call of an exchange failed; failed is false if it did not. q contains the facts of its request, and a
// those of its answer, or is nil; the findings are those of the request.
func Explain(rec *records.Record, t wire.Target, q *facts.Request, a *facts.Response, findings []judge.Finding) (c cause.Cause, failed bool) {
	in := cause.Input{Status: rec.Status, Text: rec.Response, Variant: t.Variant}
	switch {
	case rec.Status >= 400:
		if len(rec.Response) == 0 {
			in.Text = []byte(rec.Fault)
		}
	case rec.Status < 200 || a == nil || len(a.Error) == 0 || bytes.Equal(a.Error, bytes.TrimSpace(rec.Response)):
		return c, false
	default:
		in.Text = a.Error
	}
	return judge.Explain(in, findings, session.PairedIn(q, rec.Body, t)), true
}

// prepare does everything that does not depend on other records: it reads the record, scans its bodies, and judges the
// request unless it belongs to an exchange.
func (w *worker) prepare(j *job) {
	if j.unreadable != nil || j.skipped != nil {
		return
	}
	res := &j.res
	res.Findings = []Finding{}
	if j.unreadable = j.value.Err; j.unreadable != nil {
		return
	}
	rec, err := records.NewRecord(j.value.Text, w.forced, &w.bodies)
	if err != nil {
		j.unreadable = err
		return
	}
	j.rec = rec
	res.ID, res.body = rec.ID, rec.Body
	if j.skipped = rec.Unjudged(); j.skipped != nil {
		return
	}
	t, foreign := rec.TargetFor(w.forced)
	j.foreign = foreign
	q := &w.request
	if rec.Exchange || w.cache {
		q = requests.Get().(*facts.Request)
		j.request = q
	}
	if res.Dialect, res.Variant = t.Dialect, t.Variant; t.Dialect == wire.Other {
		j.skipped = check.Complete(q, t)
		return
	}
	if j.unreadable = w.scan(rec, t, q); j.unreadable != nil {
		return
	}
	if t.Model == "" {
		t.Model = string(q.Model)
	}
	j.target, j.complete, j.dropped = t, check.Complete(q, t), q.Dropped > 0
	if rec.Exchange || w.cache {
		j.answered = len(rec.Response) > 0 && facts.ScanResponse(t.Dialect, "", rec.Response, &j.answer) == nil
		return
	}
	var findings []judge.Finding
	for _, v := range w.checker.Check(q, t, nil) {
		findings = append(findings, judge.Finding{Violation: v})
	}
	if c, failed := Explain(rec, t, q, j.responded(), findings); failed && !j.foreign {
		j.fail(c)
	}
	for i := range findings {
		res.add(w.minimum, &findings[i].Violation, nil, j.accepted())
	}
	j.violations = len(findings)
	res.locate(q, j.value.Text)
}

// scan reads the request of rec into q.
func (w *worker) scan(rec *records.Record, t wire.Target, q *facts.Request) error {
	scan := facts.ScanRequest
	if len(rec.Body) > 0 && rec.Body[0] == '[' {
		scan = facts.ScanMessages
	}
	if err := scan(t.Dialect, rec.Body, q); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	// If the URL of an exchange requires messages, a request without messages is an error of the caller, not of the record.
	if q.MessagesKind == facts.Absent && (!rec.Exchange || rec.URL == "") {
		return records.ErrNoHistory
	}
	q.Bare = q.Bare || rec.Bare
	if t.Dialect.Descriptor().Pairing.Items && len(w.previous) > 0 && len(q.PreviousResponse) == 0 {
		q.PreviousResponse, q.Stored = w.previous, true
	}
	return nil
}

// finish judges the request of an exchange, and prints the result.
func (l *Linter) finish(j *job) error {
	defer j.release()
	res := &j.res
	switch {
	case j.unreadable != nil:
		return l.unreadable(res, j.unreadable)
	case j.skipped != nil:
		return l.notJudged(res, j.skipped)
	case l.Cache:
		return l.cache(j)
	case j.rec.Exchange:
		l.exchange(j)
		res.locate(j.request, j.value.Text)
	}
	switch {
	case res.rejected:
		l.Counts.Rejected++
	case res.Refused > 0:
		l.Counts.Refused++
	}
	if j.complete != nil && (j.violations == 0 || j.dropped) {
		return l.notJudged(res, j.complete)
	}
	l.Counts.Checked++
	return l.Printer.Print(res)
}
