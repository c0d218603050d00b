package otlp

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

const (
	maxGroups   = 1 << 14 // parents whose calls are remembered; the oldest is forgotten
	maxSiblings = 32      // calls that are remembered of one parent; the oldest is forgotten
)

// A sibling is an LLM call as far as it is compared with the others below the same parent.
type sibling struct {
	Parent        spanKey
	Span          pcommon.SpanID
	inner         pcommon.SpanID // call that arrived later and does not count, because this one describes it
	Scope         string         // instrumentation
	Model         string
	Start, End    pcommon.Timestamp
	Input, Output int64 // tokens
	Failed        bool  `json:",omitzero"`
	Repeated      bool  `json:",omitzero"` // does not count, because another one describes the same call
}

// describes reports whether x is the span of a framework around the call of y: of another instrumentation, at least as long,
// and with the same model and result. A model may have the date of its version.
func (x *sibling) describes(y *sibling) bool {
	return x.Scope != y.Scope && x.Start <= y.Start && x.End >= y.End && x.Input == y.Input && x.Output == y.Output && x.Failed == y.Failed &&
		(x.Input+x.Output > 0 || x.Failed) && x.Model != "" && y.Model != "" && (strings.HasPrefix(x.Model, y.Model) || strings.HasPrefix(y.Model, x.Model))
}

// siblings remembers the calls that were counted, by the parent of their spans. The spans of a framework that does not set
// the current span are beside those of the provider's SDK, not around them.
type siblings struct {
	mu     sync.Mutex // guards the fields below
	groups map[spanKey][]sibling
	ring   []spanKey // keys of groups in the order in which they were added
	next   int
}

// count sets Repeated of the calls that describe the same call as a shorter one, or as a longer one that is stored already.
func (s *siblings) count(calls []sibling) {
	s.mu.Lock()
	defer s.mu.Unlock()
	order := make([]int, len(calls))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(calls[i].End-calls[i].Start, calls[j].End-calls[j].Start) })
	for _, i := range order {
		if x := &calls[i]; !x.Parent.Span.IsEmpty() { // roots have no trace in common
			if x.Repeated = s.covered(x); !x.Repeated {
				s.add(*x)
			}
		}
	}
}

// restore remembers calls that were counted before a restart.
func (s *siblings) restore(calls []sibling) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range calls {
		switch x := &calls[i]; {
		case x.Repeated:
			s.covered(x)
		case !x.Parent.Span.IsEmpty():
			s.add(*x)
		}
	}
}

// covered reports whether one of the stored calls below the same parent describes x, or x one of them.
func (s *siblings) covered(x *sibling) bool {
	group := s.groups[x.Parent]
	if slices.ContainsFunc(group, func(y sibling) bool { return y.Span == x.Span }) {
		return false // sent again
	}
	for i := range group {
		y := &group[i]
		if x.describes(y) {
			return true
		}
		if (y.inner.IsEmpty() || y.inner == x.Span) && y.describes(x) {
			y.inner = x.Span
			return true
		}
	}
	return false
}

func (s *siblings) add(call sibling) {
	k := call.Parent
	group, ok := s.groups[k]
	switch {
	case slices.ContainsFunc(group, func(y sibling) bool { return y.Span == call.Span }): // sent again
		return
	case ok:
	case len(s.ring) < maxGroups:
		if s.groups == nil {
			s.groups = make(map[spanKey][]sibling)
		}
		s.ring = append(s.ring, k)
	default:
		delete(s.groups, s.ring[s.next])
		s.ring[s.next] = k
		s.next = (s.next + 1) % maxGroups
	}
	if len(group) == maxSiblings {
		group = slices.Delete(group, 0, 1)
	}
	s.groups[k] = append(group, call)
}
