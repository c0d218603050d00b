package lint

import (
	"cmp"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// HistoryBytes is the memory limit for exchanges. The conversation that has been idle for the longest time is evicted
// first.
const HistoryBytes = 96 << 20

// Exchanges judges exchanges in chronological order, so that an answer precedes the next request.
type Exchanges struct {
	judge *judge.Judge
	seq   uint64 // sequence of the last request or answer
}

// NewExchanges returns Exchanges with all rules that remember at most this many bytes.
func NewExchanges(bytes int64) *Exchanges {
	return &Exchanges{judge: judge.New(rules.InOrder, session.Config{Bytes: bytes})}
}

// Request judges a request in its conversation. Its sequence is set here.
func (e *Exchanges) Request(r *session.Request) (*session.Turn, []judge.Finding) {
	e.seq++
	r.Order, r.MinSeq = e.seq, e.seq
	return e.judge.Request(&judge.Request{Request: *r, Sender: cmp.Or(r.Service, event.UnknownService)})
}

// Answer stores the answer to a request, or, if a is nil or its conversation cannot continue with it, that there is none. cut means
// that the answer ends too early.
func (e *Exchanges) Answer(turn *session.Turn, status int, a *facts.Response, cut bool) {
	if a == nil || !judge.Usable(status, a) {
		e.judge.Sessions.End(turn)
		return
	}
	if a.Cut {
		a.ID = "" // a request that refers to this answer may reply to calls that are not in the record
	}
	e.seq++
	e.judge.Answer(turn, session.Answer{Facts: a, Order: e.seq, MinSeq: e.seq, Cut: cut})
}

// Record judges the request of a recorded exchange with facts q, and stores its answer a, or that there is none; name identifies the
// exchange in findings. It returns why the call failed, if it did; an answer that is foreign, from another provider than the one
// whose rules apply, explains nothing. The record must stay valid.
func (e *Exchanges) Record(rec *records.Record, name string, t wire.Target, q *facts.Request, a *facts.Response, foreign bool) (findings []judge.Finding, why cause.Cause, failed bool) {
	turn, findings := e.Request(&session.Request{
		Service: rec.Service, Conversation: rec.Conversation, Exchange: name, Instance: rec.Instance, Run: rec.Run, Target: t, Facts: q, Body: rec.Body,
	})
	if !foreign {
		why, failed = Explain(rec, t, q, a, findings)
	}
	e.Answer(turn, rec.Status, a, rec.Fault != "" && a != nil && a.FinishReason == "")
	return findings, why, failed
}

// exchange judges the request of an exchange and stores its answer.
func (l *Linter) exchange(j *job) {
	findings, why, failed := l.exchanges.Record(j.rec, j.res.exchange, j.target, j.request, j.responded(), j.foreign)
	if failed {
		j.fail(why)
	}
	for i := range findings {
		j.res.add(l.Minimum, &findings[i].Violation, &findings[i], j.accepted())
	}
	j.violations = len(findings)
}
