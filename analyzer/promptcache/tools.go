package promptcache

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// A ToolSet is what is remembered of the tools that a request declares. Prompts share it.
type ToolSet struct {
	Hash   uint64 // of the tools as sent, without marks
	Stable uint64 // the same without the hashes of texts in a shape, which depend on the process
	Size   int

	set   uint64   // of the tools in any order
	each  []uint32 // hashes of the first maxEach tools
	names []string // of these, if all have one
}

// maxEach bounds the tools of which a change is located.
const maxEach = 128

// NewToolSet returns what is remembered of tools, a JSON array without marks. names are the names of the declared functions.
func NewToolSet(tools []byte, names []string) *ToolSet {
	t := &ToolSet{Hash: xxh3.Hash(tools), Size: len(tools)}
	t.Stable = t.Hash
	n := 0
	for tool := range elements(tools) {
		h := xxh3.Hash(tool)
		t.set += h
		if n++; n <= maxEach {
			t.each = append(t.each, uint32(h))
		}
	}
	if n == len(names) {
		t.names = names[:min(n, maxEach)]
	}
	return t
}

// declarations are the keys of Gemini's lists of functions, which are in the elements of its tools.
var declarations = [][]byte{[]byte(`{"functionDeclarations"`), []byte(`{"function_declarations"`)}

// elements yields the tools of a JSON array, and those in Gemini's lists.
func elements(list []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) { walk(list, true, yield) }
}

func walk(list []byte, nested bool, yield func([]byte) bool) bool {
	i := bytes.IndexByte(list, '[')
	if i < 0 {
		return true
	}
	for i++; ; i++ {
		if i = jsonscan.Space(list, i); i >= len(list) || list[i] == ']' {
			return true
		}
		end, ok := jsonscan.ValueEnd(list, i)
		if !ok {
			return true
		}
		tool := list[i:end]
		if nested && slices.ContainsFunc(declarations, func(key []byte) bool { return bytes.HasPrefix(tool, key) }) {
			if !walk(tool, false, yield) {
				return false
			}
		} else if !yield(tool) {
			return false
		}
		if i = jsonscan.Space(list, end); i >= len(list) || list[i] != ',' {
			return true
		}
	}
}

// Same reports whether t and o are the same tools in the same order.
func (t *ToolSet) Same(o *ToolSet) bool { return t == o || t != nil && o != nil && t.Hash == o.Hash }

// alike is like Same. If loose, the texts in them may differ, but not their lengths.
func (t *ToolSet) alike(o *ToolSet, loose bool) bool {
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
