package lint

import (
	"cmp"

	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// historyBytes is the memory limit for exchanges. The conversation that has been idle for the longest time is evicted
// first.
const historyBytes = 96 << 20

// exchange judges the request of an exchange in its conversation and stores its answer. Records must be in chronological
// order, so that an answer precedes the next request.
func (l *Linter) exchange(j *job) {
	rec := j.rec
	l.seq++
	turn, findings := l.judge.Request(&judge.Request{
		Request: session.Request{
			Seq: l.seq, MinSeq: l.seq, Service: rec.Service, Conversation: rec.Conversation, Exchange: j.res.exchange, Instance: rec.Instance,
			Run: rec.Run, Target: j.target, Facts: j.request, Body: rec.Body,
		},
		Sender: cmp.Or(rec.Service, event.UnknownService),
	})
	for i := range findings {
		j.res.add(l.Minimum, &findings[i].Violation, &findings[i], j.accepted())
	}
	j.violations = len(findings)
	a := &j.answer
	if !j.answered || !judge.Usable(rec.Status, a) {
		l.judge.Sessions.End(turn)
		return
	}
	if a.Cut {
		a.ID = "" // a request that refers to this answer may reply to calls that are not in the record
	}
	l.seq++
	l.judge.Answer(turn, session.Answer{Facts: a, Seq: l.seq, MinSeq: l.seq, Cut: rec.Failed && a.FinishReason == ""})
}
