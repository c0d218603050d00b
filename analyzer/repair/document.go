package repair

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// An Operation is one operation of a JSON patch (RFC 6902): add, remove, replace or move.
type Operation struct {
	Op    string          `json:"op"`
	From  string          `json:"from,omitempty"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// A child is an element of an array or a member of an object, at text[start:end]. A member starts at its key.
type child struct {
	key               string // empty in an array
	start, value, end int
}

// children yields the children of the container that starts at text[i], and nothing for another value. text must be valid JSON.
func children(text []byte, i int) iter.Seq[child] {
	return func(yield func(child) bool) {
		if i >= len(text) || text[i] != '[' && text[i] != '{' {
			return
		}
		object := text[i] == '{'
		if first := jsonscan.Space(text, i+1); first >= len(text) || text[first] == ']' || text[first] == '}' {
			return
		}
		for more := true; more; more = i < len(text) && text[i] == ',' {
			c := child{start: jsonscan.Space(text, i+1)}
			c.value = c.start
			if object {
				end := jsonscan.End(text, c.start)
				c.key = string(jsonscan.AppendText(nil, text[c.start+1:end-1]))
				c.value = jsonscan.Space(text, jsonscan.Space(text, end)+1) // after the colon
			}
			c.end = jsonscan.End(text, c.value)
			if !yield(c) {
				return
			}
			i = jsonscan.Space(text, c.end)
		}
	}
}

// find returns the child that a JSON pointer names, and the child before it. The whole text is a child without a key.
func find(text []byte, pointer string) (c, before child, ok bool) {
	c.start = jsonscan.Space(text, 0)
	c.value, c.end = c.start, jsonscan.End(text, c.start)
	for token := range tokens(pointer) {
		container := c.value
		ok, before = false, child{start: -1}
		n := 0
		for x := range children(text, container) {
			if text[container] == '{' && x.key == token || text[container] == '[' && strconv.Itoa(n) == token {
				c, ok = x, true
				break
			}
			before = x
			n++
		}
		if !ok {
			return child{}, before, false
		}
	}
	return c, before, true
}

func tokens(pointer string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for pointer != "" {
			token, rest, more := strings.Cut(pointer[1:], "/")
			if !yield(unescape(token)) || !more {
				return
			}
			pointer = "/" + rest
		}
	}
}

func unescape(token string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(token) }

// escape returns a key as a token of a JSON pointer.
func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// quote returns a JSON string.
func quote[T string | []byte](s T) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(string(s)); err != nil {
		panic(err) // a string can always be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// value returns the value at a JSON pointer, or nil.
func value(text []byte, pointer string) json.RawMessage {
	if c, _, ok := find(text, pointer); ok {
		return text[c.value:c.end:c.end]
	}
	return nil
}

// Apply returns text after the operations. All bytes outside the changed values stay as they are. text must be valid JSON.
func Apply(text []byte, patch []Operation) (_ []byte, err error) {
	for _, o := range patch {
		if text, err = apply(text, o); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// apply returns text after the operation. All bytes outside the changed value stay as they are.
func apply(text []byte, o Operation) ([]byte, error) {
	switch o.Op {
	case "add":
		return add(text, o.Path, o.Value)
	case "replace":
		c, _, ok := find(text, o.Path)
		if !ok {
			return nil, fmt.Errorf("replace: no value at %s", o.Path)
		}
		return splice(text, c.value, c.end, o.Value), nil
	case "remove":
		return remove(text, o.Path)
	case "move":
		v := value(text, o.From)
		if v == nil {
			return nil, fmt.Errorf("move: no value at %s", o.From)
		}
		v = slices.Clone(v)
		text, err := remove(text, o.From)
		if err != nil {
			return nil, err
		}
		return add(text, o.Path, v)
	}
	return nil, fmt.Errorf("unknown operation %q", o.Op)
}

func splice(text []byte, start, end int, with ...[]byte) []byte {
	return slices.Concat(append(append([][]byte{text[:start]}, with...), text[end:])...)
}

// add inserts an element of an array, or sets a member of an object. The white space before a neighbour is repeated.
func add(text []byte, pointer string, v []byte) ([]byte, error) {
	cut := strings.LastIndexByte(pointer, '/')
	parent, _, ok := find(text, pointer[:max(cut, 0)])
	if cut < 0 || !ok || text[parent.value] != '{' && text[parent.value] != '[' {
		return nil, fmt.Errorf("add: no container for %s", pointer)
	}
	if text[parent.value] == '{' {
		if c, _, ok := find(text, pointer); ok {
			return splice(text, c.value, c.end, v), nil
		}
		last := child{start: -1}
		for c := range children(text, parent.value) {
			last = c
		}
		key := quote(unescape(pointer[cut+1:]))
		if last.start < 0 {
			return splice(text, parent.value+1, parent.value+1, key, []byte(":"), v), nil
		}
		colon := text[jsonscan.End(text, last.start):last.value]
		return splice(text, last.end, last.end, []byte(","), lead(text, last.start), key, colon, v), nil
	}
	c, before, ok := find(text, pointer)
	if n := length(text, parent.value); !ok && pointer[cut+1:] != strconv.Itoa(n) {
		return nil, fmt.Errorf("add: %s is not an index of an array with %d elements", pointer, n)
	}
	switch {
	case ok && before.start >= 0:
		return splice(text, before.end, before.end, []byte(","), lead(text, c.start), v), nil
	case ok:
		return splice(text, c.start, c.start, v, []byte(","), lead(text, c.start)), nil
	case before.start >= 0: // behind the last element
		return splice(text, before.end, before.end, []byte(","), lead(text, before.start), v), nil
	default:
		return splice(text, parent.value+1, parent.value+1, v), nil
	}
}

// length returns the number of children of the container at text[i].
func length(text []byte, i int) (n int) {
	for range children(text, i) {
		n++
	}
	return n
}

// lead returns the white space before text[i].
func lead(text []byte, i int) []byte {
	return text[len(bytes.TrimRight(text[:i], " \t\r\n")):i]
}

func remove(text []byte, pointer string) ([]byte, error) {
	c, before, ok := find(text, pointer)
	if !ok || pointer == "" {
		return nil, fmt.Errorf("remove: no value at %s", pointer)
	}
	if before.start >= 0 {
		return splice(text, before.end, c.end), nil
	}
	end := c.end
	if i := jsonscan.Space(text, end); text[i] == ',' {
		end = jsonscan.Space(text, i+1)
	}
	return splice(text, c.start, end), nil
}
