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
	scope         string // instrumentation
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

// repeated returns the indices of the calls that describe the same call as a shorter one. keys contains the parents.
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
		if slices.ContainsFunc(s.groups[keys[i]], func(y sibling) bool { return calls[i].describes(&y) }) {
			found[i] = true
		} else {
			s.add(keys[i], calls[i])
		}
	}
	return found
}

func (s *siblings) add(k spanKey, call sibling) {
	group, ok := s.groups[k]
	switch {
	case slices.Contains(group, call): // sent again
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
