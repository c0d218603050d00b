package session

import (
	"bytes"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// An alignment describes how a request Q continues an earlier request P. All positions are relative to the bodies.
type alignment struct {
	prefix  int  // number of messages at the start that P and Q share
	whole   bool // Q starts with the whole body of P
	tail    int  // number of messages at the end of P that Q contains after the prefix; if there are several such places, see align
	tailEnd int  // message of Q after that tail; -1 if the last message of P is not in Q
	known   bool // P is known
}

// align compares Q with P. loose compares lengths instead of texts, for shapes published by two processes with different
// keys. If Q contains the end of P in several places, the longest match decides, then the last; but if P is answered, that
// answer follows, so the end of Q is the last choice: two equal replies may both be in Q.
func align(p, q *skeleton, loose, answered bool) alignment {
	pb, qb := p.body(), q.body()
	a := alignment{tailEnd: -1, known: true}
	for a.prefix < len(pb) && a.prefix < len(qb) && p.same(&pb[a.prefix], q, &qb[a.prefix], loose) {
		a.prefix++
	}
	if a.prefix == len(pb) {
		a.whole, a.tailEnd = true, len(pb)
		return a
	}
	// A message that occurs several times, such as a reminder, is followed by the same messages as in P.
	last := &pb[len(pb)-1]
	for i, tries := len(qb)-1, 0; i >= a.prefix && tries < maxTails && a.tail < len(pb)-a.prefix; i-- {
		if !p.same(last, q, &qb[i], loose) {
			continue
		}
		tries++
		tail := 1
		for tail < len(pb)-a.prefix && tail <= i-a.prefix && p.same(&pb[len(pb)-1-tail], q, &qb[i-tail], loose) {
			tail++
		}
		if tail > a.tail || tail == a.tail && answered && a.tailEnd == len(qb) {
			a.tail, a.tailEnd = tail, i+1
		}
	}
	return a
}

// maxTails bounds the number of positions at which the end of P is searched in Q.
const maxTails = 16

// same reports whether message a of s and message b of o are the same message: their bytes are equal, or, for an assistant
// message that was reformatted (other JSON formatting of the arguments, null instead of ""), their texts and call ids are.
func (s *skeleton) same(a *message, o *skeleton, b *message, loose bool) bool {
	if a.hash == b.hash {
		return true
	}
	if a.role != b.role || a.item != b.item || a.calls != b.calls || a.replies != b.replies {
		return false
	}
	for i, c := range s.callsOf(a) {
		if d := &o.callsOf(b)[i]; s.names || o.names {
			if c.name != d.name || c.args != d.args && !loose {
				return false
			}
		} else if c.id != d.id {
			return false
		}
	}
	if loose {
		if s.names || o.names {
			return a.bytes == b.bytes && a.noText == b.noText && (a.calls > 0 || a.bytes > 0)
		}
		return slices.Equal(s.repliesOf(a), o.repliesOf(b)) && a.bytes == b.bytes && a.noText == b.noText && (a.calls > 0 || a.bytes > 0)
	}
	if a.role != facts.RoleAssistant || !sameText(a.text, a.noText, b.text, b.noText) {
		return false
	}
	return a.calls > 0 || !a.noText
}

// sameText reports whether two assistant texts are equal; null, "" and absent are equal.
func sameText(a uint64, aEmpty bool, b uint64, bEmpty bool) bool {
	return aEmpty && bEmpty || a != 0 && a == b
}

// unmarkedHash returns the hash of a message without its cache marks, which agents move as the history grows.
func unmarkedHash(b []byte) uint64 { return xxh3.Hash(Unmark(nil, b)) }

// Unmark returns message b without its cache marks, appended to buf, or b itself if there are none.
func Unmark(buf, b []byte) []byte {
	var marks [len(markKeys)]facts.Span // the next one with each key
	for i, key := range markKeys {
		marks[i] = keyedMark(b, key, 0)
	}
	for end := 0; ; {
		first := 0
		for i, m := range marks {
			if m.Start < marks[first].Start {
				first = i
			}
		}
		switch m := marks[first]; {
		case m.Start < len(b):
			buf = append(buf, b[end:max(m.Start, end)]...)
			end = m.End
			marks[first] = keyedMark(b, markKeys[first], end)
		case end == 0:
			return b
		default:
			return append(buf, b[end:]...)
		}
	}
}

// The keys of marks. A cachePoint of Bedrock is a block of its own.
var (
	markKeys = [...][]byte{[]byte(`"cache_control"`), []byte(`"prompt_cache_breakpoint"`), pointKey}
	pointKey = []byte(`"cachePoint"`)
)

// keyedMark returns the range of the next mark with this key, including a comma before or after it; the end of b if there is none.
func keyedMark(b, key []byte, from int) facts.Span {
	for {
		n := bytes.Index(b[from:], key)
		if n < 0 {
			return facts.Span{Start: len(b), End: len(b)}
		}
		start := from + n
		from = start + len(key)
		end := markEnd(b, from)
		if end < 0 {
			continue
		}
		before := len(bytes.TrimRight(b[:start], space))
		if &key[0] == &pointKey[0] {
			after := jsonscan.Space(b, end)
			if before == 0 || b[before-1] != '{' || after == len(b) || b[after] != '}' {
				continue
			}
			start, end = before-1, after+1
			before = len(bytes.TrimRight(b[:start], space))
		}
		if before > 0 && b[before-1] == ',' {
			return facts.Span{Start: before - 1, End: end}
		}
		if before > 0 && (b[before-1] == '{' || b[before-1] == '[') {
			if after := jsonscan.Space(b, end); after < len(b) && b[after] == ',' {
				end = jsonscan.Space(b, after+1)
			}
			return facts.Span{Start: start, End: end}
		}
	}
}

const space = " \t\r\n"

// markEnd returns the end of the value of the key that ends at i. The value must be null or an object without braces inside;
// otherwise markEnd returns -1.
func markEnd(b []byte, i int) int {
	if i = jsonscan.Space(b, i); i >= len(b) || b[i] != ':' {
		return -1
	}
	i = jsonscan.Space(b, i+1)
	if bytes.HasPrefix(b[i:], []byte("null")) {
		return i + len("null")
	}
	if i >= len(b) || b[i] != '{' {
		return -1
	}
	n := bytes.IndexByte(b[i:], '}')
	if n < 0 || bytes.IndexByte(b[i+1:i+n], '{') >= 0 {
		return -1
	}
	return i + n + 1
}
