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
	span          pcommon.SpanID
	inner         pcommon.SpanID // call that arrived later and does not count, because this one describes it
	scope         string         // instrumentation
	model         string
	start, end    pcommon.Timestamp
	input, output int64 // tokens
	failed        bool
}

// describes reports whether x is the span of a framework around the call of y: of another instrumentation, at least as long,
// and with the same model and result. A model may have the date of its version.
func (x *sibling) describes(y *sibling) bool {
	return x.scope != y.scope && x.start <= y.start && x.end >= y.end && x.input == y.input && x.output == y.output && x.failed == y.failed &&
		(x.input+x.output > 0 || x.failed) && x.model != "" && y.model != "" && (strings.HasPrefix(x.model, y.model) || strings.HasPrefix(y.model, x.model))
}

// siblings remembers the calls that were counted, by the parent of their spans. The spans of a framework that does not set
// the current span are beside those of the provider's SDK, not around them.
type siblings struct {
	mu     sync.Mutex // guards the fields below
	groups map[spanKey][]sibling
	ring   []spanKey // keys of groups in the order in which they were added
	next   int
}

// repeated returns the indices of the calls that do not count, because they describe the same call as a shorter one, or as
// a longer one that is stored already. keys contains the parents.
func (s *siblings) repeated(keys []spanKey, calls []sibling) map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	order := make([]int, len(calls))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(calls[i].end-calls[i].start, calls[j].end-calls[j].start) })
	found := map[int]bool{}
	for _, i := range order {
		if keys[i].span.IsEmpty() {
			continue // roots have no trace in common
		}
		found[i] = s.covered(s.groups[keys[i]], &calls[i])
		if !found[i] {
			s.add(keys[i], calls[i])
		}
	}
	return found
}

// covered reports whether one of the stored calls in group describes x, or x one of them.
func (s *siblings) covered(group []sibling, x *sibling) bool {
	if slices.ContainsFunc(group, func(y sibling) bool { return y.span == x.span }) {
		return false // sent again
	}
	for i := range group {
		y := &group[i]
		if x.describes(y) {
			return true
		}
		if (y.inner.IsEmpty() || y.inner == x.span) && y.describes(x) {
			y.inner = x.span
			return true
		}
	}
	return false
}

func (s *siblings) add(k spanKey, call sibling) {
	group, ok := s.groups[k]
	switch {
	case slices.ContainsFunc(group, func(y sibling) bool { return y.span == call.span }): // sent again
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
