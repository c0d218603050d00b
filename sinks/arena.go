package sinks

import "unsafe"

const (
	minChunk = 4 << 10
	maxChunk = 1 << 20
)

// An arena holds the texts of a batch. Its memory contains no pointers, so garbage collection does not scan it, and reset
// keeps it for the next batch: otherwise the bodies of messages would be most of the garbage of the process.
type arena struct {
	chunks [][]byte // filled up to their length; chunks after the one in use are empty
	use    int      // index of the chunk in use
}

// add copies s and returns the copy, which is valid until reset.
func (a *arena) add(s string) string {
	if s == "" {
		return ""
	}
	for a.use < len(a.chunks) && cap(a.chunks[a.use])-len(a.chunks[a.use]) < len(s) {
		a.use++
	}
	if a.use == len(a.chunks) {
		size := minChunk
		if a.use > 0 {
			size = min(2*cap(a.chunks[a.use-1]), maxChunk)
		}
		a.chunks = append(a.chunks, make([]byte, 0, max(size, len(s))))
	}
	c := &a.chunks[a.use]
	n := len(*c)
	*c = append(*c, s...)
	return unsafe.String(&(*c)[n], len(s))
}

// reset empties a. It keeps the chunks of the usual size.
func (a *arena) reset() {
	kept := a.chunks[:0]
	for _, c := range a.chunks {
		if cap(c) <= maxChunk {
			kept = append(kept, c[:0])
		}
	}
	clear(a.chunks[len(kept):])
	a.chunks, a.use = kept, 0
}
