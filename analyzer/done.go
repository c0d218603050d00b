package analyzer

import (
	"hash/maphash"
	"slices"
	"time"
)

// Bounds of the memory of exchanges that are over.
const (
	doneQuarters = 4         // generations that one memory time is divided into
	maxDone      = 2_000_000 // exchanges; about 25 bytes each
)

// done remembers the exchanges that are over, so that halves of them that come again change nothing: JetStream itself
// recognises a message only for two minutes. It keeps hashes, in generations of a quarter of the time each, which start
// at fixed stream times and are forgotten whole.
type done struct {
	quarter     int64 // in seconds
	seed        maphash.Seed
	generations []doneGeneration // oldest first
	size        int
}

type doneGeneration struct {
	quarter int64
	need    uint64 // oldest sequence that its exchanges were made from
	ids     map[uint64]doneExchange
}

// A doneExchange is the oldest sequence that an exchange was made from.
type doneExchange uint64

// givenUp marks an exchange that ended without one of its halves.
const givenUp doneExchange = 1 << 63

func (d doneExchange) need() uint64  { return uint64(d &^ givenUp) }
func (d doneExchange) givenUp() bool { return d&givenUp != 0 }

func newDone(wait time.Duration) *done {
	return &done{quarter: max(int64(wait/time.Second)/doneQuarters, 1), seed: maphash.MakeSeed()}
}

// add remembers the exchange id from now on. It returns how many were forgotten for want of memory.
func (d *done) add(id string, x doneExchange, now time.Time) (forgotten int) {
	q := now.Unix() / d.quarter
	if n := len(d.generations); n == 0 || d.generations[n-1].quarter < q {
		d.generations = append(d.generations, doneGeneration{quarter: q, need: x.need(), ids: make(map[uint64]doneExchange)})
	}
	for d.size >= maxDone {
		// The newest is forgotten too when it is alone: then it holds all there may be.
		forgotten += len(d.generations[0].ids)
		if len(d.generations) == 1 {
			d.size, d.generations[0] = 0, doneGeneration{quarter: q, need: x.need(), ids: make(map[uint64]doneExchange)}
			break
		}
		d.forget()
	}
	g := &d.generations[len(d.generations)-1]
	g.need = min(g.need, x.need())
	before := len(g.ids)
	g.ids[maphash.String(d.seed, id)] = x
	d.size += len(g.ids) - before
	return forgotten
}

// get finds an exchange that is over.
func (d *done) get(id string) (x doneExchange, ok bool) {
	if d.size == 0 {
		return 0, false
	}
	h := maphash.String(d.seed, id)
	for _, g := range slices.Backward(d.generations) {
		if x, ok = g.ids[h]; ok {
			return x, true
		}
	}
	return 0, false
}

// expire forgets what is over for longer than the time.
func (d *done) expire(now time.Time) {
	q := now.Unix() / d.quarter
	for len(d.generations) > 0 && d.generations[0].quarter < q-doneQuarters {
		d.forget()
	}
}

func (d *done) forget() {
	d.size -= len(d.generations[0].ids)
	d.generations[0] = doneGeneration{}
	d.generations = d.generations[1:]
}

// need is the oldest sequence that is remembered; 0 when nothing is.
func (d *done) need() uint64 {
	var n uint64
	for i := range d.generations {
		n = oldest(n, d.generations[i].need)
	}
	return n
}
