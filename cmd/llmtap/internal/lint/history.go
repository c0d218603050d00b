package lint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/wire"
)

const (
	// historyBytes bounds what is remembered of the exchanges of a run; the conversation that is idle longest is forgotten
	// first.
	historyBytes = 1 << 30
	// maxExplained bounds the defects of one request whose root causes are looked for: each walks the whole history.
	maxExplained = 100
)

// begin gives the request of an exchange its place in its conversation. The order of the records is that of time, and an
// answer is there before the next request.
func (l *Linter) begin(res *Result, rec *record, t wire.Target) *session.Turn {
	l.seq++
	return l.sessions.Request(session.In{
		Seq: l.seq, Need: l.seq, Service: rec.service, Conversation: rec.conversation, Exchange: res.exchange, Instance: rec.instance,
		Run: rec.run, Target: t, Facts: &l.request, Body: rec.body,
	})
}

// before is what the exchanges before tell the rules.
func before(t *session.Turn) *check.Before {
	if t == nil {
		return nil
	}
	b := new(check.Before)
	if calls, known := t.Chained(); known {
		b.Chain = &check.Chain{Calls: calls}
	}
	b.Signed, b.Copy = t.Signed()
	return b
}

// read reads the answer that a record holds; nil if there is none that an agent can build on.
func (l *Linter) read(rec *record, d wire.Dialect) *facts.Response {
	a := &l.answer
	switch {
	case len(rec.response) == 0 || facts.ScanResponse(d, "", rec.response, a) != nil:
		return nil
	case rec.status >= 400 || len(a.Error) > 0 || a.Malformed || a.Content == facts.Absent && len(a.Calls) == 0:
		return nil
	}
	return a
}

// end remembers the answer to t; nil if there was none.
func (l *Linter) end(t *session.Turn, rec *record, a *facts.Response) {
	if a == nil {
		l.sessions.End(t)
		return
	}
	if a.Cut {
		a.ID = "" // a request that names it may reply to calls that the record lacks
	}
	l.seq++
	l.sessions.Answer(t, session.Answer{Facts: a, Seq: l.seq, Need: l.seq, Cut: rec.failed && a.FinishReason == ""})
}

// explain adds to f its identity and its root cause; look says whether that may still be looked for.
func (l *Linter) explain(f *Finding, rec *record, t *session.Turn, exchange string, look bool) {
	what := f.ToolCallID
	if what == "" && f.Message >= 0 && f.Message < len(l.request.Messages) {
		what = strconv.FormatUint(t.Identity(f.Message), 16)
	}
	id := identity(rec.service, t.Root, t.Branch, f.Rule, what)
	in, fresh := l.sessions.Seen(t, id)
	// The first root cause stays: later requests only send the defect again.
	if look && (fresh || in.Root.Rank() == 0) {
		root := t.RootCause(session.Symptom{Rule: f.Rule, Detail: f.Detail, Message: f.Message, ToolCallID: f.ToolCallID})
		if fresh || root.Rank() > 0 {
			in.Root = root
		}
	}
	f.ID = hex.EncodeToString(id[:])
	f.RootCause, f.Confidence, f.Evidence = in.Root.ID, in.Root.Confidence, in.Root.Evidence
	if in.Root.Fix != "" {
		f.Fix = in.Root.Fix
	}
	if f.ToolName == "" && f.ToolCallID != "" {
		f.ToolName = t.ToolName(f.ToolCallID)
	}
	f.explained = in.Root.Rank() > 0
	severity := slices.Index(check.Severities, f.Severity) + 1
	if in.Exchange != exchange {
		f.First = in.Exchange
		f.again = severity <= in.Severity && in.Root.Rank() <= in.Rank
	}
	in.Severity, in.Rank = max(in.Severity, severity), in.Root.Rank()
}

// identity is the id that the analyzer gives a finding: a hash of a list of strings, of which no two are written alike.
func identity(parts ...string) (id [16]byte) {
	var b []byte
	for _, p := range parts {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	copy(id[:], sum[:])
	return id
}
