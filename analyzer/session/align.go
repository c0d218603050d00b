package session

import (
	"bytes"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// A fit says how a request Q continues an earlier request P. All positions are in bodies.
type fit struct {
	prefix  int  // messages that both start with
	whole   bool // Q starts with all of P
	tail    int  // messages of P's end that Q holds further on
	tailEnd int  // the message of Q after them; -1 when P's last message is not in Q
	known   bool // there is a P
}

// align compares Q with P. Loose compares lengths in place of texts: of two processes that published the shapes of bodies
// under keys of their own.
func align(p, q *skeleton, loose bool) fit {
	pb, qb := p.body(), q.body()
	f := fit{tailEnd: -1, known: true}
	for f.prefix < len(pb) && f.prefix < len(qb) && p.same(&pb[f.prefix], q, &qb[f.prefix], loose) {
		f.prefix++
	}
	if f.prefix == len(pb) {
		f.whole, f.tailEnd = true, len(pb)
		return f
	}
	last := &pb[len(pb)-1]
	for i := len(qb) - 1; i >= f.prefix; i-- {
		if !p.same(last, q, &qb[i], loose) {
			continue
		}
		f.tailEnd = i + 1
		for f.tail < len(pb)-f.prefix && f.tail <= i-f.prefix && p.same(&pb[len(pb)-1-f.tail], q, &qb[i-f.tail], loose) {
			f.tail++
		}
		break
	}
	return f
}

// same reports whether a of s and b of o are one message. Bytes decide; an assistant message that was written anew
// (arguments in another spelling, null for "") is still the same if text and call ids are.
func (s *skeleton) same(a *message, o *skeleton, b *message, loose bool) bool {
	if a.hash == b.hash {
		return true
	}
	if a.role != b.role || a.item != b.item || a.calls != b.calls || a.replies != b.replies {
		return false
	}
	for i, c := range s.calls(a) {
		if c.id != o.calls(b)[i].id {
			return false
		}
	}
	if loose {
		for i, id := range s.replyIDs(a) {
			if id != o.replyIDs(b)[i] {
				return false
			}
		}
		return a.bytes == b.bytes && a.noText == b.noText && (a.calls > 0 || a.bytes > 0)
	}
	if a.role != facts.RoleAssistant || !sameText(a.text, a.noText, b.text, b.noText) {
		return false
	}
	return a.calls > 0 || !a.noText
}

// sameText compares two assistant texts; null, "" and absent are the same.
func sameText(a uint64, aEmpty bool, b uint64, bEmpty bool) bool {
	return aEmpty && bEmpty || a != 0 && a == b
}

// unmarked hashes a message without its cache marks, which agents move along as the history grows.
func unmarked(b []byte) uint64 { return xxh3.Hash(Unmark(b)) }

var cacheKey = []byte(`"cache_control"`)

// cacheMark is the next member cache_control of b with a comma that it needs; -1 when there is none.
func cacheMark(b []byte) (start, end int) {
	for from := 0; ; {
		n := bytes.Index(b[from:], cacheKey)
		if n < 0 {
			return -1, -1
		}
		start = from + n
		from = start + len(cacheKey)
		if end = markEnd(b, from); end < 0 {
			continue
		}
		before := len(bytes.TrimRight(b[:start], " \t\r\n"))
		if before > 0 && b[before-1] == ',' {
			return before - 1, end
		}
		if before > 0 && b[before-1] == '{' {
			if after := space(b, end); after < len(b) && b[after] == ',' {
				end = space(b, after+1)
			}
			return start, end
		}
	}
}

// markEnd is the end of the value after the key that ends at i: null, or an object whose strings have no braces; else -1.
func markEnd(b []byte, i int) int {
	if i = space(b, i); i >= len(b) || b[i] != ':' {
		return -1
	}
	i = space(b, i+1)
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

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}
