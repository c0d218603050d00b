package analyzer

import (
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// memos caches facts about the newest request of each conversation, so that the next request is not scanned in full.
// It is only an optimization: an eviction or a restart costs one full scan. A request without a conversation id has no
// memo, because its body must be read to find the conversation.
type memos struct {
	limit int // maximum of bytes
	from  int // size in bytes of a request from which its conversation has a memo
	bytes int // estimated size of all memos
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

// memoBytes is the approximate size of a memo without its facts and the conversation's id.
const memoBytes = 400

func newMemos(limit int, lookback time.Duration) *memos {
	return &memos{limit: limit, from: minMemoBody, queue: expiry.NewQueue[memoKey, *memo](lookback)}
}

// minMemoBody is the size in bytes of a request from which its conversation has a memo. Scanning a smaller one takes at most
// 15 µs, and memos of conversations that consist of a single call would be a tenth of the memory of the process.
const minMemoBody = 32 << 10

// get returns the memo of the conversation of a request of size bytes, creating it if necessary; nil if it needs none.
func (s *memos) get(k memoKey, size int, now time.Time) *memo {
	e := s.queue.Get(k)
	switch {
	case e != nil:
		s.queue.Renew(e, now)
	case size < s.from:
		return nil
	default:
		e = s.queue.Add(k, new(memo), 0, now)
	}
	return e.Value
}

// account updates the estimated size of m, the memo of k.
func (s *memos) account(k *memoKey, m *memo) {
	n := memoBytes + len(k.conversation) + m.Bytes()
	s.bytes += n - m.bytes
	m.bytes = n
}

// expire drops the memos of conversations that were idle for the look-back period.
func (s *memos) expire(now time.Time) {
	for _, due := s.queue.Due(now); due; _, due = s.queue.Due(now) {
		s.forget()
	}
}

// evict drops the least recently used memo if the memos exceed the limit, and reports whether it did.
func (s *memos) evict() bool {
	if s.bytes <= s.limit {
		return false
	}
	s.forget()
	return true
}

func (s *memos) forget() { s.bytes -= s.queue.TakeFirst().Value.bytes }
