package analyzer

import (
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/wire"
)

// memos is what facts keep of the newest requests of conversations, so that the next ones are not scanned whole. It only
// saves time: an evicted memo, or a restart, costs one whole scan. A request without a given conversation id has none,
// because the body must be read to find its conversation.
type memos struct {
	limit int // of bytes
	bytes int // estimated
	queue *expiry.Queue[memoKey, *memo]
}

type memoKey struct {
	service, conversation string
	dialect               wire.Dialect
}

type memo struct {
	facts.Memo
	bytes int
}

// memoBytes is about the size of a memo besides the facts and the conversation's id.
const memoBytes = 400

func newMemos(limit int, lookback time.Duration) *memos {
	return &memos{limit: limit, queue: expiry.NewQueue[memoKey, *memo](lookback)}
}

// get finds or makes the memo of a conversation.
func (s *memos) get(k memoKey, now time.Time) *memo {
	e := s.queue.Get(k)
	if e == nil {
		e = s.queue.Add(k, new(memo), 0, now)
	} else {
		s.queue.Renew(e, now)
	}
	return e.Value
}

// account updates the estimated size of m, the memo of k.
func (s *memos) account(k *memoKey, m *memo) {
	n := memoBytes + len(k.conversation) + m.Bytes()
	s.bytes += n - m.bytes
	m.bytes = n
}

// expire forgets the memos that were idle for the look-back.
func (s *memos) expire(now time.Time) {
	for _, due := s.queue.Due(now); due; _, due = s.queue.Due(now) {
		s.forget()
	}
}

// evict forgets the memo that was idle longest if the memos exceed the limit, and reports whether it did.
func (s *memos) evict() bool {
	if s.bytes <= s.limit {
		return false
	}
	s.forget()
	return true
}

func (s *memos) forget() { s.bytes -= s.queue.TakeFirst().Value.bytes }
