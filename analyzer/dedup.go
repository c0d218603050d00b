package analyzer

import (
	"hash/maphash"
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
)

// maxCompleted limits the completed exchanges in a dedupSet, about 25 bytes each.
const maxCompleted = 2_000_000

// A dedupSet contains the hashes of completed exchanges, so that halves that arrive again are ignored: JetStream
// itself deduplicates events only for 10 s.
type dedupSet struct {
	seed      maphash.Seed
	exchanges *expiry.Generations[uint64, completed]
}

// completed is the oldest sequence of the events of a completed exchange.
type completed uint64

// expired marks an exchange that was completed without one of its halves.
const expired completed = 1 << 63

func (c completed) minSeq() uint64 { return uint64(c &^ expired) }

func newDedupSet(lookback time.Duration) *dedupSet {
	return &dedupSet{maphash.MakeSeed(), expiry.NewGenerations[uint64, completed](lookback, maxCompleted)}
}

// add records the exchange id as completed at now and returns the number of exchanges evicted to stay within the
// limit.
func (d *dedupSet) add(id string, c completed, now time.Time) (forgotten int) {
	return d.exchanges.Put(maphash.String(d.seed, id), c, c.minSeq(), now)
}

// get returns the entry of the exchange id, or false if the exchange is not known to be completed.
func (d *dedupSet) get(id string) (completed, bool) {
	if d.exchanges.Len() == 0 {
		return 0, false
	}
	return d.exchanges.Get(maphash.String(d.seed, id))
}
