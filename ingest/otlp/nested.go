package otlp

import (
	"sync"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// maxParents is the maximum number of parents that are remembered between payloads, 8 MiB in all. The oldest is forgotten.
const maxParents = 1 << 16

// maxDepth bounds the walk from a span to its ancestors.
const maxDepth = 128

// A spanKey identifies a span of a service.
type spanKey struct {
	service string
	trace   pcommon.TraceID
	span    pcommon.SpanID
}

// A node is a span of a payload.
type node struct {
	kind   kind
	parent pcommon.SpanID
}

// parents remembers the spans of earlier payloads below which an LLM call was made. A span ends after those below it, so
// it may arrive in a later payload.
type parents struct {
	mu   sync.Mutex // guards known, ring and next
	next int
	// known and ring contain the same keys; ring in the order in which they were added.
	known map[spanKey]struct{}
	ring  []spanKey
}

// wrappers returns the spans that describe LLM calls and have other LLM calls of the same service below them, such as the
// span of a framework around the span of a provider's SDK: both describe the same call. Only the innermost counts. The walk
// up ends at the span of a tool or an agent, because calls below it are work of their own.
func (p *parents) wrappers(nodes map[spanKey]node) map[spanKey]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, visited := map[spanKey]bool{}, map[spanKey]bool{}
	for k, n := range nodes {
		_, above := p.known[k]
		switch {
		case above:
			p.climb(nodes, k, found, visited)
		case n.kind == kindCall && !n.parent.IsEmpty():
			k.span = n.parent
			p.climb(nodes, k, found, visited)
		}
	}
	return found
}

// climb marks the LLM calls from k upwards, and remembers the first span that is not in the payload.
func (p *parents) climb(nodes map[spanKey]node, k spanKey, found, visited map[spanKey]bool) {
	for range maxDepth {
		if visited[k] {
			return
		}
		visited[k] = true
		n, ok := nodes[k]
		if !ok {
			p.remember(k)
			return
		}
		if n.kind == kindWork {
			return
		}
		if n.kind == kindCall {
			found[k] = true
		}
		if n.parent.IsEmpty() {
			return
		}
		k.span = n.parent
	}
}

func (p *parents) remember(k spanKey) {
	if _, ok := p.known[k]; ok {
		return
	}
	if p.known == nil {
		p.known = make(map[spanKey]struct{})
	}
	if len(p.ring) < maxParents {
		p.ring = append(p.ring, k)
	} else {
		delete(p.known, p.ring[p.next])
		p.ring[p.next] = k
		p.next = (p.next + 1) % maxParents
	}
	p.known[k] = struct{}{}
}
