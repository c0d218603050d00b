package analyzer

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/wire"
)

// Bounds of what is known of requests that fail again and again.
const (
	stormWindow   = 10 * time.Minute // from the first failure of a request
	stormSize     = 3                // failures of one request
	poisonSize    = 3                // failed requests with one defect
	maxStorms     = 10_000           // requests; the one that began first is forgotten
	moreThanTwice = 2                // a row that counts is put out again when its count has doubled
)

// A storm is a request that was refused.
type storm struct {
	first *subject
	since time.Time
	n     int
}

// stormKey is the key of a request in a conversation; without a given id, of its process.
func stormKey(o *open) uint64 {
	e := &o.row
	scope := e.Labels.Conversation
	if scope == "" {
		scope = e.Instance
	}
	if e.Origin == event.OriginImport {
		scope += "@" + e.Instance // each import is on its own
	}
	return xxh3.HashStringSeed(scope, xxh3.HashStringSeed(e.Labels.Service, o.sum))
}

// stormed tells of a request that is sent again and again, and refused each time.
func (a *Analyzer) stormed(o *open, accepted bool, need uint64) {
	e := &o.row
	if o.turn == nil {
		return
	}
	if e.Status < 400 || wire.RetryableStatus(e.Status) {
		if accepted && a.storms.Len() > 0 {
			a.storms.Take(stormKey(o))
		}
		return
	}
	key := stormKey(o)
	it := a.storms.Get(key)
	if it == nil {
		a.storms.Add(key, &storm{first: about(o), since: e.StartedAt, n: 1}, need, a.now)
		for a.storms.Len() > maxStorms {
			a.storms.TakeFirst()
			a.drop(dropOverflow)
		}
		return
	}
	s := it.Value
	if s.n++; !doubled(s.n, stormSize) {
		return
	}
	o.signals = append(o.signals, signal{
		id: RetryStorm, detail: strconv.Itoa(e.Status), message: -1, of: s.first, key: s.first.exchange, update: s.n > stormSize,
		summary:  fmt.Sprintf("the same request was sent %d times and refused each time, now with status %d", s.n, e.Status),
		evidence: fmt.Sprintf("since %s, first in exchange %s, within %v", stamp(s.since), s.first.exchange, e.StartedAt.Sub(s.since).Round(time.Second)),
		fix:      "Do not send a request again that was refused with a status from 400 to 499, other than 408, 409, 425 and 429.",
	})
}

// doubled reports whether n is first, or first times a power of two.
func doubled(n, first int) bool {
	for n > first && n%moreThanTwice == 0 {
		n /= moreThanTwice
	}
	return n == first
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// poisoned tells of a history that is refused for one defect since it came in, and grows.
func (a *Analyzer) poisoned(o *open, proof *judge.Finding, accepted bool) {
	e, t := &o.row, o.turn
	if t == nil {
		return
	}
	if accepted {
		t.Note(nil)
	}
	if !refused(e) {
		return // what the server, the network or the account did says nothing of the history
	}
	tr := t.Trouble()
	var same *judge.Finding
	for i := range o.found {
		if tr != nil && o.found[i].ID == tr.Defect {
			same = &o.found[i]
			break
		}
	}
	switch {
	case same != nil:
		tr.Failed++
		tr.Now = e.Messages
	case proof == nil || proof.Predicted != check.Reject:
		t.Note(nil)
		return
	default:
		t.Note(&session.Trouble{Defect: proof.ID, Exchange: e.ID, Since: e.StartedAt, Failed: 1, Length: e.Messages, Now: e.Messages})
		return
	}
	if tr.Failed < poisonSize || tr.Now <= tr.Length || tr.Failed < tr.Told*moreThanTwice {
		return
	}
	s := signal{
		id: PoisonedSession, detail: same.Rule.ID, message: same.Message, callID: same.ToolCallID, tool: same.ToolName, update: tr.Told > 0,
		key:      hex.EncodeToString(tr.Defect[:]) + tr.Exchange,
		summary:  fmt.Sprintf("%d requests in a row were refused with the same defect in them: %s", tr.Failed, same.Summary),
		evidence: fmt.Sprintf("since %s, first in exchange %s; the history went from %d to %d messages, and the defect stayed", stamp(tr.Since), tr.Exchange, tr.Length, tr.Now),
		fix:      "Mend the stored history, or begin a new one: whatever is added to this one is refused too.",
	}
	tr.Told = tr.Failed
	a.times(o, &s)
	o.signals = append(o.signals, s)
}

// once puts a signal out with o, if it is the first under its key; without a key, that of the request, so that one that
// is sent again shows it once.
func (a *Analyzer) once(o *open, s signal) {
	if a.times(o, &s) == 1 {
		o.signals = append(o.signals, s)
	}
}

// repeated puts a signal out with o when it is the first of its conversation, and again when there are twice as many.
func (a *Analyzer) repeated(o *open, s signal) {
	if s.key == "" {
		s.key = s.id
	}
	n := a.times(o, &s)
	if !doubled(n, 1) {
		return
	}
	if s.update = n > 1; s.update {
		s.evidence += fmt.Sprintf("; %d times so far", n)
	}
	o.signals = append(o.signals, s)
}

// times is how many times the conversation has shown s, now included.
func (a *Analyzer) times(o *open, s *signal) int {
	t := o.turn
	if t == nil {
		s.key += " " + o.row.ID
		return 1
	}
	if s.key == "" || s.id == TruncatedToolCall {
		s.key += " " + t.Key()
	}
	sum := identity.Of("signal", o.row.Labels.Service, t.Root, t.Branch, s.id, s.key)
	in, fresh := a.sessions.Seen(t, sum.Key())
	if fresh {
		in.Version, in.Messages = o.row.Labels.ServiceVersion, o.row.Messages
		if o.row.Origin == event.OriginHook {
			in.Process = o.row.Instance
		}
	}
	s.first = in
	in.Severity++
	return in.Severity
}
