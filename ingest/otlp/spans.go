package otlp

import (
	"sync"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// maxSpans is the maximum number of spans that are remembered between payloads, 20 MiB in all. The oldest is forgotten.
const maxSpans = 1 << 17

// maxDepth bounds the walk from a span to its ancestors.
const maxDepth = 128

// A spanKey identifies a span of a service.
type spanKey struct {
	service string
	trace   pcommon.TraceID
	span    pcommon.SpanID
}

// An arrival is a span of a payload.
type arrival struct {
	spanKey
	parent pcommon.SpanID
	kind   kind
	failed bool
}

// A known span is one that has arrived, or one below which an LLM call has arrived.
type known struct {
	arrival
	arrived bool
	inside  bool // an LLM call of the same service is below it
	counted counted
	inner   pcommon.SpanID // call below it that arrived later and does not count for that reason
}

// counted is how the LLM call of a span counts.
type counted int

const (
	notCounted    counted = iota // not yet, or the spans below it count
	countedItself                // its events are stored
	countedAbove                 // those of a span above it are
)

// spans remembers the spans of earlier payloads. A span ends after those below it, but queues and retries change the order.
type spans struct {
	mu    sync.Mutex // guards the fields below
	next  int
	index map[spanKey]int // in ring
	ring  []known         // in the order in which they became known
}

// count returns which spans of a payload are LLM calls that count, and how many calls are known to count twice.
//
// Of calls below each other, such as the span of a framework around the span of a provider's SDK, the innermost counts: all
// describe the same call. The walk up ends at the span of a tool or an agent, because calls below it are work of their own.
// If the outer span came first, it is stored already, and the first call below it does not count instead. If the link
// between both comes last, both are stored.
func (s *spans) count(payload []arrival) (counts []bool, twice int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range payload {
		x := s.at(payload[i].spanKey)
		x.arrival, x.arrived = payload[i], true
	}
	var late []spanKey // calls that were stored before those below them came
	for i := range payload {
		a := &payload[i]
		if a.kind == kindCall || a.kind == kindOther && s.at(a.spanKey).inside {
			late = s.mark(a, late)
		}
	}
	counts = make([]bool, len(payload))
	for i := range payload {
		counts[i] = payload[i].kind == kindCall && s.counts(&payload[i])
	}
	for _, k := range late {
		if s.at(k).inner.IsEmpty() {
			twice++
		}
	}
	return counts, twice
}

// mark marks the spans above a as those that a call is inside of. It appends those to late that are stored.
func (s *spans) mark(a *arrival, late []spanKey) []spanKey {
	for k, n := above(a.spanKey, a.parent), 0; !k.span.IsEmpty() && n < maxDepth; n++ {
		x := s.at(k)
		if x.inside || x.kind == kindWork {
			break
		}
		if x.inside = true; x.counted == countedItself {
			late = append(late, k)
		}
		k.span = x.parent
	}
	return late
}

// counts reports whether the call of a counts. The result for a span that is sent again is the same.
func (s *spans) counts(a *arrival) bool {
	x := s.at(a.spanKey)
	if x.counted == countedItself {
		return true
	}
	if x.inside {
		return false
	}
	x.counted = countedItself
	for k, n := above(a.spanKey, a.parent), 0; n < maxDepth; n++ {
		i, ok := s.index[k]
		if !ok || s.ring[i].kind == kindWork {
			break
		}
		outer := &s.ring[i]
		// A failed call in a successful one was repeated: another one follows.
		if outer.counted != notCounted && (outer.inner.IsEmpty() || outer.inner == a.span) && (outer.failed || !a.failed) {
			outer.inner, x.counted = a.span, countedAbove
			break
		}
		k.span = outer.parent
	}
	return x.counted == countedItself
}

// above returns the key of the parent.
func above(k spanKey, parent pcommon.SpanID) spanKey { return spanKey{k.service, k.trace, parent} }

// at returns what is known of a span, until the next call of at.
func (s *spans) at(k spanKey) *known {
	if i, ok := s.index[k]; ok {
		return &s.ring[i]
	}
	if s.index == nil {
		s.index = make(map[spanKey]int)
	}
	i := len(s.ring)
	if i < maxSpans {
		s.ring = append(s.ring, known{})
	} else {
		i = s.next
		delete(s.index, s.ring[i].spanKey)
		s.next = (s.next + 1) % maxSpans
	}
	s.ring[i], s.index[k] = known{arrival: arrival{spanKey: k}}, i
	return &s.ring[i]
}
