package shape

import (
	_ "embed" // shape_paths.json
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/llmtap/llmtap/ingest/wire"
)

// pathsJSON is ingest/sdk/testdata/shape_paths.json: the hooks of all languages have a copy of it.
//
//go:generate cp ../sdk/testdata/shape_paths.json shape_paths.json
//go:embed shape_paths.json
var pathsJSON []byte

// A bodySpec says which values of a body stay; see the format member of shape_paths.json.
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

// A node is one position of a body. A nil node is free content.
type node struct {
	kids map[string]*node
	elem *node // of an array

	keep, below, text, arguments bool

	join *join
	slot int // 1 + the index of the value it has for a join's by; 0: none

	// Of an event, or of an element in one, whose members tell fragments apart:
	own   uint32    // the slots below it and below no element further down
	run   *join     // it is a part of a message, and this the join of its text
	calls *join     // it is a tool call, and this the join of its arguments
	head  headField // what the value at this node says of its tool call
}

// A headField is a member of a tool call that says which call a fragment belongs to.
type headField uint8

const (
	headNone headField = iota
	headID
	headName
	headIndex
)

// A join is a set of positions whose fragments are one text.
type join struct {
	slots     uint32 // of by
	arguments bool
	argsSlot  int // 1 + the slot whose value makes it arguments, if it is one of argsIf
	argsIf    []string
	blank     bool
	run       bool
	calls     bool
	salt      uint64
}

// A table is a dialect, compiled.
type table struct {
	request, response, event *node
	events                   *node // an array of them
}

// tables compiles shape_paths.json once. It is embedded and tested, so a mistake in it is a bug.
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
	slots []string // paths of the values that joins ask for
}

// maxDefs bounds how deep defs use defs.
const maxDefs = 8

func (c *compiler) add(root *node, prefix string, spec *bodySpec, depth int) error {
	if depth > maxDefs {
		return fmt.Errorf("%s: defs use each other", prefix)
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
				return fmt.Errorf("%s%s uses %q, which defs lacks", prefix, at, name)
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

// reach returns the node at a path and makes those on the way.
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

// joins marks where fragments of texts stand, and the values that tell them apart.
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

// maxSlots is how many values one dialect's joins may ask for.
const maxSlots = 16

func (c *compiler) slot(root *node, path string) (int, error) {
	if i := slices.Index(c.slots, path); i >= 0 {
		return i, nil
	}
	i := len(c.slots)
	if i == maxSlots {
		return 0, fmt.Errorf("%s is one value too many for joins", path)
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
