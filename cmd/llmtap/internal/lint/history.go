package lint

import (
	"cmp"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/wire"
)

// historyBytes is the memory limit for exchanges. The conversation that has been idle for the longest time is evicted
// first.
const historyBytes = 1 << 30

// exchange judges the scanned request of an exchange in its conversation, stores its answer and returns the number of
// violations. Records must be in chronological order, so that an answer precedes the next request.
func (l *Linter) exchange(res *Result, rec *record, t wire.Target) int {
	l.seq++
	turn, findings := l.judge.Request(&judge.Request{
		Request: session.Request{
			Seq: l.seq, MinSeq: l.seq, Service: rec.service, Conversation: rec.conversation, Exchange: res.exchange, Instance: rec.instance,
			Run: rec.run, Target: t, Facts: &l.request, Body: rec.body,
		},
		Sender: cmp.Or(rec.service, event.UnknownService),
	})
	for i := range findings {
		l.add(res, &findings[i].Violation, &findings[i], rec.status >= 200 && rec.status < 300)
	}
	a := &l.answer
	if len(rec.response) == 0 || facts.ScanResponse(t.Dialect, "", rec.response, a) != nil || !judge.Usable(rec.status, a) {
		l.judge.Sessions.End(turn)
		return len(findings)
	}
	if a.Cut {
		a.ID = "" // a request that refers to this answer may reply to calls that are not in the record
	}
	l.seq++
	l.judge.Answer(turn, session.Answer{Facts: a, Seq: l.seq, MinSeq: l.seq, Cut: rec.failed && a.FinishReason == ""})
	return len(findings)
}
