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
	Service string
	Trace   pcommon.TraceID
	Span    pcommon.SpanID
}

// An arrival is a span of a payload, and what count made of it.
type arrival struct {
	spanKey
	Parent  pcommon.SpanID
	Kind    kind           `json:",omitzero"`
	Failed  bool           `json:",omitzero"`
	Counted counted        `json:",omitzero"`
	Outer   pcommon.SpanID `json:",omitzero"` // the call above it, if that one counts instead
}

// A known span is one that has arrived, or one below which an LLM call has arrived.
type known struct {
	arrival
	arrived bool
	inside  bool           // an LLM call of the same service is below it
	inner   pcommon.SpanID // call below it that arrived later and does not count for that reason
}

// counted is how the LLM call of a span counts.
type counted uint8

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

// count finds out which spans of a payload are LLM calls that count, and returns how many calls are known to count twice.
//
// Of calls below each other, such as the span of a framework around the span of a provider's SDK, the innermost counts: all
// describe the same call. The walk up ends at the span of a tool or an agent, because calls below it are work of their own.
// If the outer span came first, it is stored already, and the first call below it does not count instead. If the link
// between both comes last, both are stored.
func (s *spans) count(payload []arrival) (twice int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := s.arrive(payload)
	for i := range payload {
		if payload[i].Kind == kindCall {
			s.decide(&payload[i])
		}
	}
	for _, k := range late {
		if s.at(k).inner.IsEmpty() {
			twice++
		}
	}
	return twice
}

// restore remembers a payload that was counted before a restart.
func (s *spans) restore(payload []arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrive(payload)
	for i := range payload {
		if a := &payload[i]; !a.Outer.IsEmpty() {
			s.at(above(a.spanKey, a.Outer)).inner = a.Span
		}
	}
}

// arrive remembers a payload. It returns the calls that were stored before those below them came.
func (s *spans) arrive(payload []arrival) (late []spanKey) {
	for i := range payload {
		a := &payload[i]
		x := s.at(a.spanKey)
		if a.Counted == notCounted { // sent again
			a.Counted, a.Outer = x.Counted, x.Outer
		}
		x.arrival, x.arrived = *a, true
	}
	for i := range payload {
		a := &payload[i]
		if a.Kind == kindCall || a.Kind == kindOther && s.at(a.spanKey).inside {
			late = s.mark(a, late)
		}
	}
	return late
}

// mark marks the spans above a as those that a call is inside of. It appends those to late that are stored.
func (s *spans) mark(a *arrival, late []spanKey) []spanKey {
	for k, n := above(a.spanKey, a.Parent), 0; !k.Span.IsEmpty() && n < maxDepth; n++ {
		x := s.at(k)
		if x.inside || x.Kind == kindWork {
			break
		}
		if x.inside = true; x.Counted == countedItself {
			late = append(late, k)
		}
		k.Span = x.Parent
	}
	return late
}

// decide finds out how the call of a counts. The result for a span that is sent again is the same.
func (s *spans) decide(a *arrival) {
	x := s.at(a.spanKey)
	if x.Counted == countedItself || x.inside {
		a.Counted, a.Outer = x.Counted, x.Outer
		return
	}
	a.Counted = countedItself
	for k, n := above(a.spanKey, a.Parent), 0; n < maxDepth; n++ {
		i, ok := s.index[k]
		if !ok || s.ring[i].Kind == kindWork {
			break
		}
		outer := &s.ring[i]
		// A failed call in a successful one was repeated: another one follows.
		if outer.Counted != notCounted && (outer.inner.IsEmpty() || outer.inner == a.Span) && (outer.Failed || !a.Failed) {
			outer.inner, a.Counted, a.Outer = a.Span, countedAbove, k.Span
			break
		}
		k.Span = outer.Parent
	}
	x.arrival = *a
}

// above returns the key of the parent.
func above(k spanKey, parent pcommon.SpanID) spanKey { return spanKey{k.Service, k.Trace, parent} }

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
