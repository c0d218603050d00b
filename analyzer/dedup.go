package analyzer

import (
	"hash/maphash"
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
)

// maxCompleted bounds the completed exchanges that are remembered, at about 25 bytes each.
const maxCompleted = 2_000_000

// A dedupSet remembers the hashes of completed exchanges, so that halves that arrive again change nothing: JetStream
// itself recognizes a message only for two minutes.
type dedupSet struct {
	seed      maphash.Seed
	exchanges *expiry.Generations[uint64, completed]
}

// completed is the oldest sequence that an exchange was made from.
type completed uint64

// expired marks an exchange that completed without one of its halves.
const expired completed = 1 << 63

func (c completed) minSeq() uint64 { return uint64(c &^ expired) }

func newDedupSet(lookback time.Duration) *dedupSet {
	return &dedupSet{maphash.MakeSeed(), expiry.NewGenerations[uint64, completed](lookback, maxCompleted)}
}

// add remembers the exchange id from now on and returns the number of exchanges forgotten to stay within the bound.
func (d *dedupSet) add(id string, c completed, now time.Time) (forgotten int) {
	return d.exchanges.Put(maphash.String(d.seed, id), c, c.minSeq(), now)
}

// get finds a completed exchange.
func (d *dedupSet) get(id string) (completed, bool) {
	if d.exchanges.Len() == 0 {
		return 0, false
	}
	return d.exchanges.Get(maphash.String(d.seed, id))
}
