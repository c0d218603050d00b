package session

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/bits"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// maxDepth bounds the nesting depth of compared arguments.
const maxDepth = 256

// canonical returns a hash of the meaning of a JSON text, independent of white space, the order of members, escapes, and the
// notation of numbers, so that all encodings of one value by SDKs have the same hash. It is 0 unless b is exactly one JSON
// value.
func canonical(b []byte) uint64 {
	c := canon{b: b}
	h := c.value(0)
	if c.space(); c.bad || c.i != len(b) {
		return 0
	}
	return max(h, 1)
}

type canon struct {
	b   []byte
	i   int
	bad bool
}

func (c *canon) space() { c.i = jsonscan.Space(c.b, c.i) }

// take skips white space and then the byte want, if present. It reports whether want was present.
func (c *canon) take(want byte) bool {
	c.space()
	if c.i < len(c.b) && c.b[c.i] == want {
		c.i++
		return true
	}
	return false
}

func (c *canon) fail() uint64 {
	c.bad = true
	return 0
}

// value hashes the next value.
func (c *canon) value(depth int) uint64 {
	c.space()
	if c.bad || depth > maxDepth || c.i >= len(c.b) {
		return c.fail()
	}
	switch c.b[c.i] {
	case '{':
		return c.object(depth)
	case '[':
		return c.array(depth)
	case '"':
		return mix('s', c.text())
	default:
		return c.word()
	}
}

// object sums the hashes of its members, so that their order does not matter.
func (c *canon) object(depth int) uint64 {
	c.i++
	var sum, n uint64
	if c.take('}') {
		return mix('o', 0)
	}
	for {
		if c.space(); c.i >= len(c.b) || c.b[c.i] != '"' {
			return c.fail()
		}
		key := c.text()
		if !c.take(':') {
			return c.fail()
		}
		sum += mix(c.value(depth+1), key)
		n++
		if c.bad {
			return 0
		}
		if c.take('}') {
			return mix('o', mix(n, sum))
		}
		if !c.take(',') {
			return c.fail()
		}
	}
}

func (c *canon) array(depth int) uint64 {
	c.i++
	h := uint64('a')
	if c.take(']') {
		return mix('a', 0)
	}
	for {
		h = mix(h, c.value(depth+1))
		if c.bad {
			return 0
		}
		if c.take(']') {
			return mix('a', h)
		}
		if !c.take(',') {
			return c.fail()
		}
	}
}

// text hashes the next string.
func (c *canon) text() uint64 {
	start := c.i
	end := jsonscan.StringEnd(c.b, start+1)
	if end < 0 {
		return c.fail()
	}
	c.i = end + 1
	raw := c.b[start+1 : end]
	if bytes.IndexByte(raw, '\\') < 0 {
		return xxh3.Hash(raw)
	}
	var s string
	if json.Unmarshal(c.b[start:c.i], &s) != nil {
		return c.fail()
	}
	return xxh3.HashString(s)
}

// word hashes a number, true, false or null. 1, 1.0 and 1e0 are the same number.
func (c *canon) word() uint64 {
	start := c.i
	for c.i < len(c.b) && c.b[c.i] > ' ' && c.b[c.i] != ',' && c.b[c.i] != ']' && c.b[c.i] != '}' {
		c.i++
	}
	w := c.b[start:c.i]
	switch string(w) {
	case "true", "false", "null":
		return mix('w', xxh3.Hash(w))
	case "":
		return c.fail()
	}
	if w[0] != '-' && (w[0] < '0' || w[0] > '9') || len(w) > 400 {
		return c.fail()
	}
	f, err := strconv.ParseFloat(string(w), 64)
	if err != nil && !math.IsInf(f, 0) {
		return c.fail()
	}
	if math.Abs(f) >= 1<<53 { // different large ids would be equal as floats
		return mix('b', xxh3.Hash(w))
	}
	return mix('n', math.Float64bits(f+0)) // +0 turns negative zero into zero
}

func mix(a, b uint64) uint64 {
	var buf [16]byte
	binary.LittleEndian.PutUint64(buf[:], bits.RotateLeft64(a, 29))
	binary.LittleEndian.PutUint64(buf[8:], b)
	return xxh3.Hash(buf[:])
}
