package analyzer

import (
	"errors"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/payload"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const (
	partsTimeout   = 20 * time.Second    // wait for the other parts of a body
	requestTimeout = 30 * time.Second    // wait of an early response for its request, which may itself wait for parts
	maxPending     = 200_000             // requests waiting for their response
	minWaiting     = 2 * limit.BodyBytes // minimum of exchanges.maxWaiting
)

// A half is one half of an exchange: a request or a response, complete or without its body.
type half struct {
	ev     *event.Event
	at     Position
	minSeq uint64 // oldest sequence of the events of the half
}

// seenAt returns when the content of the event was known: the stream time or, for imports, the time of the recording.
func (h *half) seenAt() time.Time {
	if h.ev.Origin == event.OriginImport {
		return h.ev.Time
	}
	return h.at.Time
}

// exchanges contains the halves of exchanges that wait for their other half or for parts of their body.
type exchanges struct {
	pending   *expiry.Queue[string, *pending]
	early     *expiry.Queue[string, *earlyResponse]
	parts     *expiry.Queue[partsKey, *assembly]
	completed *dedupSet
	replay    *replayWindow

	pendingBytes, maxPending int // estimated size of pending, and its limit
	waitingBytes, maxWaiting int // estimated size of early and parts, and its limit
}

// earlyResponse is a response that arrived before its request.
type earlyResponse struct {
	ev event.Event
	at Position
}

func (r *earlyResponse) size() int { return payload.EventBytes + len(r.ev.Body) }

// partsKey identifies a body that arrives in parts.
type partsKey struct {
	exchange string
	kind     event.Kind
}

// assembly contains the parts of a body.
type assembly struct {
	*payload.Parts
	at      Position // position of the newest part
	refused bool     // the exchange continued without this body; further parts are ignored
}

func newExchanges(cfg *Config, replay *replayWindow) *exchanges {
	return &exchanges{
		pending:    expiry.NewQueue[string, *pending](cfg.ExchangeTimeout),
		early:      expiry.NewQueue[string, *earlyResponse](requestTimeout),
		parts:      expiry.NewQueue[partsKey, *assembly](partsTimeout),
		completed:  newDedupSet(cfg.SessionLookback),
		replay:     replay,
		maxPending: int(cfg.MaxStateBytes / 2),
		maxWaiting: max(minWaiting, int(cfg.MaxStateBytes/4)),
	}
}

// keyOf returns the key shared by both halves of an exchange. Several imports may contain the same exchange id, so the
// key of an imported exchange includes the import.
func keyOf(ev *event.Event) string {
	if ev.Origin == event.OriginImport {
		return ev.Exchange + "@" + ev.Instance
	}
	return ev.Exchange
}

// assemble returns the half of an exchange that ev completes, or false. An event completes a half if it has the whole
// body or is the last missing part. Events of completed exchanges are dropped.
func (x *exchanges) assemble(s *step, ev *event.Event, at Position) (half, bool) {
	if x.isCompleted(s, keyOf(ev), at) {
		return half{}, false
	}
	if ev.Parts > 1 {
		return x.join(s, ev, at)
	}
	return half{ev, at, at.Seq}, true
}

// isCompleted reports whether the exchange is completed. If so, it counts the event at this position as dropped.
func (x *exchanges) isCompleted(s *step, key string, at Position) bool {
	c, ok := x.completed.get(key)
	if !ok {
		return false
	}
	if c&expired != 0 {
		s.drop(dropLate)
	} else {
		s.drop(dropDuplicate)
	}
	// Restart the lifetime of the entry, because a restart that reads this event must recognize the event too. What the
	// event would change otherwise may outlive the entry: a conversation that was forgotten would still be there.
	x.replay.used(c.minSeq(), s.now)
	x.replay.keepTogether(c.minSeq(), at.Seq)
	x.complete(s, key, c)
	return true
}

// complete records the exchange as completed.
func (x *exchanges) complete(s *step, key string, c completed) {
	s.dropN(dropOverflow, x.completed.add(key, c, s.now))
}

// isWaiting reports whether this half of the exchange has already arrived. If so, it counts the event as dropped.
func (x *exchanges) isWaiting(s *step, h half) bool {
	var minSeq uint64
	if h.ev.Kind == event.Request {
		e := x.pending.Get(keyOf(h.ev))
		if e == nil {
			return false
		}
		minSeq = e.MinSeq
	} else {
		e := x.early.Get(keyOf(h.ev))
		if e == nil {
			return false
		}
		minSeq = e.MinSeq
	}
	x.replay.keepTogether(minSeq, h.at.Seq)
	s.drop(dropDuplicate)
	return true
}

// isDuplicate reports whether this half has arrived before. If so, it counts its event as dropped.
func (x *exchanges) isDuplicate(s *step, h half) bool {
	return x.isCompleted(s, keyOf(h.ev), h.at) || x.isWaiting(s, h)
}

// join adds a part of a body. It returns the half with the whole body after the last missing part, or usually the half
// without a body if the parts cannot be joined (see refuse).
func (x *exchanges) join(s *step, ev *event.Event, at Position) (half, bool) {
	k := partsKey{keyOf(ev), ev.Kind}
	e := x.parts.Get(k)
	if e == nil {
		e = x.parts.Add(k, &assembly{Parts: payload.NewParts(ev)}, at.Seq, s.now)
		x.waitingBytes += e.Value.Size()
	}
	p := e.Value
	if p.refused {
		return half{}, false
	}
	before := p.Size()
	p.at = at
	err := p.Add(ev)
	x.waitingBytes += p.Size() - before
	if err != nil {
		return x.refuse(s, e, err)
	}
	if !p.Complete() {
		return half{}, false
	}
	x.parts.Take(k)
	x.waitingBytes -= p.Size()
	return half{p.Whole(), at, e.MinSeq}, true
}

// refuse drops a body. It returns the half without the body, so that the exchange is recorded but not judged.
func (x *exchanges) refuse(s *step, e *expiry.Entry[partsKey, *assembly], err error) (half, bool) {
	p := e.Value
	before := p.Size()
	ev := p.Discard()
	p.refused = true
	x.waitingBytes += p.Size() - before
	if x.isWaiting(s, half{ev, p.at, e.MinSeq}) {
		return half{}, false
	}
	reason := dropParts
	if errors.Is(err, payload.ErrTooLarge) {
		reason = dropTooLarge
	}
	s.deadLetter(reason, ev, p.at, err)
	if ev.Origin == event.OriginImport {
		s.drop(dropImport) // the file contains the whole body
		return half{}, false
	}
	return half{ev, p.at, e.MinSeq}, true
}

// expireParts refuses the oldest incomplete body.
func (x *exchanges) expireParts(s *step) (h half, ok bool) {
	e := x.parts.TakeFirst()
	if !e.Value.refused {
		h, ok = x.refuse(s, e, e.Value.Missing())
	}
	x.waitingBytes -= e.Value.Size()
	return h, ok
}

// partsFirst reports whether the oldest waiting half is a body in parts, not an early response.
func (x *exchanges) partsFirst() bool {
	p, e := x.parts.First(), x.early.First()
	return p != nil && (e == nil || p.MinSeq < e.MinSeq)
}

func (x *exchanges) addPending(key string, p *pending, minSeq uint64, now time.Time) {
	x.pending.Add(strings.Clone(key), p, minSeq, now)
	x.pendingBytes += p.size()
}

// takePending removes and returns the pending request of an exchange, or nil.
func (x *exchanges) takePending(key string) *expiry.Entry[string, *pending] {
	e := x.pending.Take(key)
	if e != nil {
		x.pendingBytes -= e.Value.size()
	}
	return e
}

func (x *exchanges) addEarly(key string, h half, now time.Time) {
	r := &earlyResponse{*h.ev, h.at}
	r.ev.Body = append([]byte(nil), h.ev.Body...)
	x.waitingBytes += r.size()
	x.early.Add(key, r, h.minSeq, now)
}

// takeEarly removes and returns the early response of an exchange, or nil.
func (x *exchanges) takeEarly(key string) *expiry.Entry[string, *earlyResponse] {
	e := x.early.Take(key)
	if e != nil {
		x.waitingBytes -= e.Value.size()
	}
	return e
}

// bound drops the oldest pending requests beyond the limits.
func (x *exchanges) bound(s *step) {
	for x.pending.Len() > maxPending || x.pendingBytes > x.maxPending {
		s.drop(dropOverflow)
		x.takePending(x.pending.First().Key)
	}
}

// minSeq returns the oldest sequence that the state depends on, or 0.
func (x *exchanges) minSeq() uint64 {
	return expiry.Oldest(x.pending.MinSeq(), x.early.MinSeq(), x.parts.MinSeq(), x.completed.exchanges.MinSeq())
}
