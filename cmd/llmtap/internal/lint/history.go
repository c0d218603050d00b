package lint

import (
	"cmp"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// historyBytes is the memory limit for exchanges. The conversation that has been idle for the longest time is evicted
// first.
const historyBytes = 96 << 20

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

// exchange judges the request of an exchange and stores its answer.
func (l *Linter) exchange(j *job) {
	rec := j.rec
	turn, findings := l.exchanges.Request(&session.Request{
		Service: rec.Service, Conversation: rec.Conversation, Exchange: j.res.exchange, Instance: rec.Instance, Run: rec.Run, Target: j.target, Facts: j.request, Body: rec.Body,
	})
	j.explain(j.request, findings)
	for i := range findings {
		j.res.add(l.Minimum, &findings[i].Violation, &findings[i], j.accepted())
	}
	j.violations = len(findings)
	a := &j.answer
	if !j.answered {
		a = nil
	}
	l.exchanges.Answer(turn, rec.Status, a, rec.Fault != "" && j.answer.FinishReason == "")
}
