package promptcaching

import (
	"bytes"
	"encoding/json"
	"strings"
)

// object is a JSON object whose members are not decoded.
type object map[string]json.RawMessage

// decode returns the members of raw; none if it is no object.
func decode(raw []byte) object {
	var o object
	_ = json.Unmarshal(raw, &o) // something else has no members
	return o
}

// list returns the elements of an array; none if raw is none.
func list(raw json.RawMessage) (elements []json.RawMessage) {
	_ = json.Unmarshal(raw, &elements) // something else has no elements
	return elements
}

// text returns a string; "" if raw is none.
func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s) // something else is no text
	return s
}

// compact returns JSON without spaces between its tokens. The order of keys remains, and is part of a prompt.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// but returns the object without a member, in JSON with the other members in their order.
func but(raw json.RawMessage, member string) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return compact(raw)
	}
	var b strings.Builder
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return compact(raw)
		}
		if name != member {
			b.WriteString(name.(string) + ":" + compact(value) + ",")
		}
	}
	return b.String()
}

// parts returns the rendered parts of a content, which is a text or a list of objects.
func parts(content json.RawMessage) []string {
	if s := text(content); s != "" {
		return []string{s}
	}
	var out []string
	for _, p := range list(content) {
		if s := text(decode(p)["text"]); s != "" {
			out = append(out, s)
			continue
		}
		out = append(out, but(p, "cache_control"))
	}
	return out
}

// size is the number of bytes of a token.
const size = 4

// tokens returns the number of tokens of a rendered text.
func tokens(s string) int { return (len(s) + size - 1) / size }

// A prompt is rendered as a list of texts, each of which begins a token.
type prompt struct {
	pieces []string
	length int // in tokens
}

func (p *prompt) add(pieces ...string) {
	for _, s := range pieces {
		p.pieces = append(p.pieces, s)
		p.length += tokens(s)
	}
}

// prefixes returns the keys of the prefixes of step tokens, of two steps and so on.
func (p *prompt) prefixes(k key, step int) []key {
	var keys []key
	var b strings.Builder
	for _, s := range p.pieces {
		b.WriteString(s)
		if rest := len(s) % size; rest > 0 {
			b.WriteString("\x00\x00\x00\x00"[rest:])
		}
	}
	for rest := b.String(); len(rest) >= step*size; rest = rest[step*size:] {
		k = k.with(rest[:step*size])
		keys = append(keys, k)
	}
	return keys
}

// longest returns how many of the prefixes, which are in the order of their lengths, can be read: all up to that one.
func (c *Cache) longest(prefixes []key) (n int) {
	for n < len(prefixes) && c.holds(prefixes[n]) {
		n++
	}
	return n
}
