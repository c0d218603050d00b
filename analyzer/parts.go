package analyzer

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/ingest/event"
)

// minJoined is what parts that wait for the others, and responses that wait for their request, may take at least.
const minJoined = 2 * limit.BodyBytes

// partsKey names a body that comes in parts.
type partsKey struct {
	exchange string
	kind     event.Kind
}

// assembly is the parts of a body so far.
type assembly struct {
	head    event.Event // of the newest part, without its body
	at      Position    // of it
	parts   [][]byte
	have    int
	bytes   int
	refused bool // the exchange went on without this body; what still comes of it is left out
}

// size is about the memory that as takes.
func (as *assembly) size() int { return eventBytes + 24*len(as.parts) + as.bytes }

// join adds a part of a body. When it was the last one missing, it returns the whole event.
func (a *Analyzer) join(ev *event.Event, at Position) (whole *event.Event, need uint64) {
	k := partsKey{keyOf(ev), ev.Kind}
	it := a.parts.Get(k)
	if it == nil {
		a.parts.Add(k, &assembly{head: *ev, parts: make([][]byte, min(ev.Parts, event.MaxParts))}, at.Seq, a.now)
		it = a.parts.Get(k)
		a.held += it.Value.size()
	}
	as := it.Value
	if as.refused {
		return nil, 0
	}
	before := as.size()
	reason, err := as.add(ev, at)
	a.held += as.size() - before
	if err != nil {
		a.refuse(it, reason, err)
		return nil, 0
	}
	if as.have < len(as.parts) {
		return nil, 0
	}
	a.parts.Take(k)
	a.held -= as.size()
	as.head.Body, as.head.Part, as.head.Parts = bytes.Join(as.parts, nil), 1, 1
	return &as.head, it.MinSeq
}

// add takes ev's body. The error says why the parts can never become a whole.
func (as *assembly) add(ev *event.Event, at Position) (reason string, err error) {
	first := as.head
	as.head, as.at = *ev, at
	as.head.Body = nil
	switch n := as.bytes + len(ev.Body); {
	case ev.Part < 1 || ev.Part > ev.Parts || ev.Parts > event.MaxParts:
		return dropParts, fmt.Errorf("part %d of %d", ev.Part, ev.Parts)
	case ev.Parts != len(as.parts) || ev.BodyBytes != first.BodyBytes:
		return dropParts, fmt.Errorf("a part says %d parts and %d bytes, another %d and %d", len(as.parts), first.BodyBytes, ev.Parts, ev.BodyBytes)
	case as.parts[ev.Part-1] != nil:
		if !bytes.Equal(as.parts[ev.Part-1], ev.Body) {
			return dropParts, fmt.Errorf("two parts %d of %d differ", ev.Part, ev.Parts)
		}
		return "", nil // published twice
	case n > limit.BodyBytes || ev.BodyBytes > limit.BodyBytes && ev.Capture != event.CaptureCut:
		return dropTooLarge, fmt.Errorf("%w: %d bytes in %d parts", errTooLarge, max(n, ev.BodyBytes), ev.Parts)
	}
	as.parts[ev.Part-1] = append(make([]byte, 0, max(len(ev.Body), 1)), ev.Body...)
	as.have++
	as.bytes += len(ev.Body)
	if as.have == len(as.parts) && as.bytes != ev.BodyBytes && ev.Capture != event.CaptureCut {
		return dropParts, fmt.Errorf("%d parts have %d bytes together, not %d", ev.Parts, as.bytes, ev.BodyBytes)
	}
	return "", nil
}

// refuse gives up a body and goes on without it: the exchange is recorded, not judged.
func (a *Analyzer) refuse(it *expiry.Entry[partsKey, *assembly], reason string, err error) {
	as := it.Value
	before := as.size()
	as.parts, as.bytes, as.refused = nil, 0, true
	a.held += as.size() - before
	as.head.Part, as.head.Parts = 1, 1
	if a.waiting(&as.head) {
		a.drop(dropDuplicate) // the exchange has this half already
		return
	}
	a.dead(reason, &as.head, as.at, err)
	if as.head.Origin == event.OriginImport {
		a.drop(dropImport) // the file has it whole
		return
	}
	a.half(&as.head, as.at, it.MinSeq)
}

// giveUpParts takes the oldest body whose parts did not all come, and goes on without it.
func (a *Analyzer) giveUpParts() {
	it := a.parts.TakeFirst()
	as := it.Value
	if !as.refused {
		a.refuse(it, dropParts, fmt.Errorf("%w: %d of %d came", errParts, as.have, len(as.parts)))
	}
	a.held -= as.size()
}

var errParts = errors.New("parts of the body did not come")
