package analyzer

import (
	"container/list"
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/wire"
)

// memos is what facts keep of the newest requests of conversations, so that the next ones are not scanned whole. It
// saves time and nothing else: what is evicted, or lost in a restart, costs one whole scan. A request whose conversation
// nobody names has none, because the body must be read to find the conversation.
type memos struct {
	limit    int // of bytes
	lookback time.Duration
	byKey    map[memoKey]*list.Element
	used     list.List // of *memo, the longest idle first
	bytes    int       // estimated
}

type memoKey struct {
	service, conversation string
	dialect               wire.Dialect
}

type memo struct {
	facts.Memo
	key      memoKey
	lastUsed time.Time
	bytes    int
}

// memoBytes is about what a memo takes beside the facts and the conversation's id.
const memoBytes = 400

func newMemos(limit int, lookback time.Duration) *memos {
	return &memos{limit: limit, lookback: lookback, byKey: make(map[memoKey]*list.Element)}
}

// get finds or makes the memo of a conversation.
func (s *memos) get(k memoKey, now time.Time) *memo {
	e := s.byKey[k]
	if e == nil {
		e = s.used.PushBack(&memo{key: k})
		s.byKey[k] = e
	} else {
		s.used.MoveToBack(e)
	}
	m := e.Value.(*memo)
	m.lastUsed = now
	return m
}

// account estimates anew what m costs.
func (s *memos) account(m *memo) {
	n := memoBytes + len(m.key.conversation) + m.Bytes()
	s.bytes += n - m.bytes
	m.bytes = n
}

// expire forgets what is idle for longer than the look-back.
func (s *memos) expire(now time.Time) {
	for e := s.used.Front(); e != nil && now.Sub(e.Value.(*memo).lastUsed) > s.lookback; e = s.used.Front() {
		s.forget(e)
	}
}

// evict forgets the longest idle, if that is needed to stay within the limit.
func (s *memos) evict() bool {
	if s.bytes <= s.limit {
		return false
	}
	s.forget(s.used.Front())
	return true
}

func (s *memos) forget(e *list.Element) {
	m := e.Value.(*memo)
	s.used.Remove(e)
	delete(s.byKey, m.key)
	s.bytes -= m.bytes
}

// scan reads the body of the request whose row is e into a.req.
func (a *Analyzer) scan(e *Exchange, d wire.Dialect, body []byte) error {
	a.memos.expire(a.now)
	if e.Labels.Conversation == "" {
		return facts.ScanRequest(d, body, &a.req)
	}
	m := a.memos.get(memoKey{e.Labels.Service, e.Labels.Conversation, d}, a.now)
	known, err := facts.ScanRequestAfter(d, body, &m.Memo, &a.req)
	a.memos.account(m)
	for a.memos.evict() {
		a.drop(dropMemo)
	}
	if a.emit {
		a.metrics.known.Add(float64(known))
	}
	a.metrics.memos.Set(float64(a.memos.bytes))
	return err
}
