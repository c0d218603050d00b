package shape

import (
	_ "embed" // shape_paths.json
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// pathsJSON is a copy of ingest/sdk/testdata/shape_paths.json, which is shared by the hooks in all languages.
//
//go:generate cp ../../testdata/shape_paths.json shape_paths.json
//go:embed shape_paths.json
var pathsJSON []byte

// A bodySpec specifies the values of a body to retain; see the format member of shape_paths.json.
type bodySpec struct {
	Keep      []string            `json:"keep"`
	Below     []string            `json:"below"`
	Text      []string            `json:"text"`
	Free      []string            `json:"free"`
	Arguments []string            `json:"arguments"`
	Use       map[string][]string `json:"use"`
	Join      []joinSpec          `json:"join"`
}

type joinSpec struct {
	Paths       []string            `json:"paths"`
	By          []string            `json:"by"`
	Arguments   bool                `json:"arguments"`
	ArgumentsIf map[string][]string `json:"arguments_if"`
	Blank       bool                `json:"blank"`
	Run         string              `json:"run"`
	Calls       string              `json:"calls"`
}

type dialectSpec struct {
	Defs     map[string]bodySpec `json:"defs"`
	Request  bodySpec            `json:"request"`
	Response bodySpec            `json:"response"`
	Event    bodySpec            `json:"event"`
}

// A node is a position in a body. A nil node is free content.
type node struct {
	kids map[string]*node
	elem *node // elements of an array

	keep, below, text, arguments bool

	join *join
	slot int // 1 + the slot of the node's value, if by of a join refers to it; 0: none

	// Only set for an event, or an element in an event, whose members distinguish fragments:
	own   uint32    // slots below the node, except those below an inner element
	run   *join     // join of the text, if the node is a part of a message
	calls *join     // join of the arguments, if the node is a tool call
	head  headField // role of the node's value in its tool call
}

// A headField is a member of a tool call that assigns a fragment to its call.
type headField uint8

const (
	headNone headField = iota
	headID
	headName
	headIndex
)

// A join is a set of positions whose fragments form one text.
type join struct {
	slots     uint32 // slots of by
	arguments bool
	argsSlot  int // 1 + a slot; the text is arguments if its value is in argsIf
	argsIf    []string
	blank     bool
	run       bool
	calls     bool
	salt      uint64
}

// A table contains the compiled positions of a dialect.
type table struct {
	request, response, event *node
	events                   *node // array of events
}

// tables compiles shape_paths.json once. The file is embedded and tested, so an error in it is a bug.
var tables = sync.OnceValue(func() map[wire.Dialect]*table {
	t, err := compile(pathsJSON)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return t
})

func compile(data []byte) (map[wire.Dialect]*table, error) {
	var file struct {
		Dialects map[wire.Dialect]dialectSpec `json:"dialects"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("read shape_paths.json: %w", err)
	}
	all := make(map[wire.Dialect]*table, len(file.Dialects))
	for name, d := range file.Dialects {
		t := &table{request: new(node), response: new(node), event: new(node)}
		for _, b := range []struct {
			root *node
			spec bodySpec
		}{{t.request, d.Request}, {t.response, d.Response}, {t.event, d.Event}} {
			c := compiler{defs: d.Defs}
			if err := c.add(b.root, "", &b.spec, 0); err != nil {
				return nil, fmt.Errorf("dialect %s: %w", name, err)
			}
			if err := c.joins(b.root, b.spec.Join); err != nil {
				return nil, fmt.Errorf("dialect %s: %w", name, err)
			}
		}
		t.events = &node{elem: t.event}
		all[name] = t
	}
	return all, nil
}

type compiler struct {
	defs  map[string]bodySpec
	slots []string // paths of the values that joins refer to
}

// maxDefs is the maximum depth of defs that use other defs.
const maxDefs = 8

func (c *compiler) add(root *node, prefix string, spec *bodySpec, depth int) error {
	if depth > maxDefs {
		return fmt.Errorf("%s: defs are nested more than %d deep", prefix, maxDefs)
	}
	for _, p := range spec.Keep {
		reach(root, prefix, p).keep = true
	}
	for _, p := range spec.Below {
		reach(root, prefix, p).below = true
	}
	for _, p := range spec.Text {
		reach(root, prefix, p).text = true
	}
	for _, p := range spec.Arguments {
		reach(root, prefix, p).arguments = true
	}
	for _, p := range spec.Free {
		reach(root, prefix, p)
	}
	for at, names := range spec.Use {
		for _, name := range names {
			def, ok := c.defs[name]
			if !ok {
				return fmt.Errorf("%s%s uses %q, which is not in defs", prefix, at, name)
			}
			if err := c.add(root, dotted(prefix, at), &def, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func dotted(prefix, path string) string {
	if prefix == "" || path == "" {
		return prefix + path
	}
	return prefix + "." + path
}

// reach returns the node at a path and creates missing nodes.
func reach(root *node, prefix, path string) *node {
	n := root
	for segment := range strings.SplitSeq(dotted(prefix, path), ".") {
		name := strings.TrimRight(segment, "[]")
		if name != "" {
			n = n.member(strings.Split(name, "|"))
		}
		for range strings.Count(segment, "[]") {
			if n.elem == nil {
				n.elem = new(node)
			}
			n = n.elem
		}
	}
	return n
}

func (n *node) member(spellings []string) *node {
	if n.kids == nil {
		n.kids = make(map[string]*node)
	}
	kid := n.kids[spellings[0]]
	if kid == nil {
		kid = new(node)
	}
	for _, s := range spellings {
		n.kids[s] = kid
	}
	return kid
}

// joins marks the positions of fragments and of the values that distinguish them.
func (c *compiler) joins(root *node, specs []joinSpec) error {
	for i, spec := range specs {
		j := &join{arguments: spec.Arguments, blank: spec.Blank, run: spec.Run != "", calls: spec.Calls != "", salt: uint64(i + 1)}
		for _, p := range spec.By {
			slot, err := c.slot(root, p)
			if err != nil {
				return err
			}
			j.slots |= 1 << slot
		}
		for p, values := range spec.ArgumentsIf {
			slot, err := c.slot(root, p)
			if err != nil {
				return err
			}
			j.argsSlot, j.argsIf = slot+1, values
		}
		for _, p := range spec.Paths {
			reach(root, "", p).join = j
		}
		if j.run {
			reach(root, "", spec.Run).run = j
		}
		if j.calls {
			call := reach(root, "", spec.Calls)
			call.calls = j
			reach(call, "", "id").head = headID
			reach(call, "", "function.name").head = headName
			reach(call, "", "index").head = headIndex
		}
	}
	return nil
}

// maxSlots is the maximum number of values that the joins of a dialect refer to.
const maxSlots = 16

func (c *compiler) slot(root *node, path string) (int, error) {
	if i := slices.Index(c.slots, path); i >= 0 {
		return i, nil
	}
	i := len(c.slots)
	if i == maxSlots {
		return 0, fmt.Errorf("%s: joins refer to more than %d values", path, maxSlots)
	}
	c.slots = append(c.slots, path)
	reach(root, "", path).slot = i + 1
	owner := root
	if at := strings.LastIndex(path, "[]"); at >= 0 {
		owner = reach(root, "", path[:at+2])
	}
	owner.own |= 1 << i
	return i, nil
}
