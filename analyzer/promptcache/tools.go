package promptcache

import (
	"iter"
	"math/bits"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"
)

// A ToolSet is what is remembered of the tools that a request declares. Prompts share it.
type ToolSet struct {
	Hash   uint64 // of the tools as sent, without marks
	Stable uint64 // the same without the hashes of texts in a shape, which depend on the process
	Size   int

	set   uint64   // of the tools in any order
	each  []uint32 // hashes of the first maxEach tools
	names []string // of these; "" for one without a name
}

// maxEach bounds the tools of which a change is located.
const maxEach = 128

// NewToolSet returns what is remembered of tools, which are declared without marks. stable returns a tool without the hashes of a shape.
func NewToolSet(tools iter.Seq2[string, []byte], size func([]byte) int, stable func([]byte) []byte) *ToolSet {
	t := new(ToolSet)
	for name, tool := range tools {
		h := xxh3.Hash(tool)
		t.Hash = bits.RotateLeft64(t.Hash, 5) ^ h
		t.Stable = bits.RotateLeft64(t.Stable, 5) ^ xxh3.Hash(stable(tool))
		t.set += h
		if t.Size += size(tool); len(t.each) < maxEach {
			t.each, t.names = append(t.each, uint32(h)), append(t.names, name)
		}
	}
	return t
}

// Same reports whether t and o are the same tools in the same order.
func (t *ToolSet) Same(o *ToolSet) bool { return t == o || t != nil && o != nil && t.Hash == o.Hash }

// Alike is like Same. If loose, the texts in them may differ, but not their lengths.
func (t *ToolSet) Alike(o *ToolSet, loose bool) bool {
	return t.Same(o) || loose && t != nil && o != nil && t.Stable == o.Stable
}

// permutes reports whether t and o are the same tools in any order.
func (t *ToolSet) permutes(o *ToolSet) bool {
	return t.set == o.set && len(t.each) == len(o.each) && len(t.each) > 1
}

// Bytes returns the size of the tools.
func (t *ToolSet) Bytes() int {
	if t == nil {
		return 0
	}
	return t.Size
}

func (t *ToolSet) name(i int) string {
	if i < len(t.names) {
		return t.names[i]
	}
	return ""
}

// Common returns the size of the tools that both have, if all are of one size.
func (t *ToolSet) Common(o *ToolSet) int {
	switch {
	case t.Same(o):
		return t.Bytes()
	case t == nil || o == nil || len(t.each) == 0:
		return 0
	case t.permutes(o):
		return t.Size
	}
	n := 0
	for _, h := range t.each {
		if slices.Contains(o.each, h) {
			n++
		}
	}
	return t.Size * n / len(t.each)
}

// Difference returns the first tool of to that is not at its place in from, as an element with its name, and whether only
// the order of the tools differs.
func Difference(from, to *ToolSet) (element, name string, reordered bool) {
	if from == nil || to == nil {
		return "tools", "", false
	}
	reordered = from.permutes(to)
	for i := range max(len(from.each), len(to.each)) {
		if i < len(from.each) && i < len(to.each) && from.each[i] == to.each[i] {
			continue
		}
		name = to.name(i)
		if i < len(from.each) && !slices.Contains(to.each, from.each[i]) && !slices.Contains(to.names, from.name(i)) {
			name = from.name(i) // it was removed
		}
		return "tools[" + strconv.Itoa(i) + "]", name, reordered
	}
	return "tools", "", reordered
}
