package shape

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"hash/maphash"
	"math"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

// A Shaper shapes bodies. It reuses its memory and is not safe for concurrent use. The results of its methods are valid until
// the next call.
type Shaper struct {
	mac    hash.Hash
	digest [sha256.Size]byte
	known  []knownText // cached texts, by their maphash
	seed   maphash.Seed

	// extra has the event data that is joined from several lines of body. Offsets ≥ len(body) refer to extra.
	body, extra []byte

	// b is the text being read, which begins at offset base of the body, and i is the position in it. broken ends all
	// loops.
	b      []byte
	i      int
	base   int
	broken bool

	out     []byte
	limit   int
	long    bool // the shape exceeded limit
	inEvent bool

	scratch []byte // a decoded text
	inner   []byte // a decoded text in arguments
	stack   []uint64
	canonical
	stream
}

// maxKept is the maximum size in bytes of a buffer that a Shaper retains between bodies.
const maxKept = 256 << 10

// New returns a Shaper that hashes with key.
func New(key []byte) *Shaper {
	return &Shaper{mac: hmac.New(sha256.New, key), known: make([]knownText, 1<<knownBits), seed: maphash.MakeSeed()}
}

// Request shapes the decoded body of a request. If the shape exceeds limit bytes, the result is Opaque.
func (s *Shaper) Request(d wire.Dialect, body []byte, limit int) []byte {
	t := tables()[d]
	if t == nil || !looksLikeJSON(body) || len(body) > math.MaxInt32/2 {
		return s.Opaque(body)
	}
	s.reset(body, limit)
	s.space()
	s.value(t.request)
	if !s.end() {
		return s.bad(body)
	}
	return s.result(body)
}

// Response shapes the decoded body of an answer, which is one JSON value or a stream in any framing. limit is as in
// Request.
func (s *Shaper) Response(d wire.Dialect, body []byte, limit int) []byte {
	t := tables()[d]
	if t == nil || len(body) > math.MaxInt32/2 {
		return s.Opaque(body)
	}
	s.reset(body, limit)
	switch {
	case looksLikeJSON(body):
		if !s.unary(t) && !s.lines(t) {
			return s.bad(body)
		}
	case sse.IsStream(body):
		s.sse(t)
	case eventstream.HasFrame(body):
		s.frames(t)
	default:
		return s.Opaque(body)
	}
	if s.finish(); len(s.out) == 0 {
		return s.bad(body) // the body is a single truncated event
	}
	return s.result(body)
}

// Opaque returns the shape of a body in an unknown format: ~<bytes>:<hash>.
func (s *Shaper) Opaque(body []byte) []byte {
	s.trim()
	s.out = s.appendShape(s.out[:0], body)
	return s.out
}

// bad returns the shape of a body that begins like JSON but is not JSON.
func (s *Shaper) bad(body []byte) []byte {
	if s.over() {
		return s.Opaque(body)
	}
	s.out = append(s.Opaque(body), verdictBad...)
	return s.out
}

// Suffixes of shapes of texts that are not exactly one JSON value.
const (
	verdictBad   = ":bad"
	verdictMulti = ":multi"
)

func (s *Shaper) result(body []byte) []byte {
	if s.text = s.text[:0]; s.over() {
		return s.Opaque(body)
	}
	s.body, s.b = nil, nil
	return s.out
}

func (s *Shaper) reset(body []byte, limit int) {
	s.trim()
	s.body, s.b, s.i, s.base, s.broken = body, body, 0, 0, false
	s.out, s.extra, s.text, s.limit = s.out[:0], s.extra[:0], s.text[:0], limit
	s.long, s.inEvent = false, false
	s.stream.reset()
}

// trim frees buffers that have grown beyond maxKept.
func (s *Shaper) trim() {
	for _, p := range []*[]byte{&s.out, &s.extra, &s.scratch, &s.inner, &s.text, &s.sorted, &s.tail, &s.whole} {
		if cap(*p) > maxKept {
			*p = nil
		}
	}
	if cap(s.stack) > maxKept/8 {
		s.stack = nil
	}
	s.stream.trim()
	s.body, s.b = nil, nil
}

// unary shapes an answer that is one JSON value. Otherwise it returns false and writes nothing.
func (s *Shaper) unary(t *table) bool {
	s.space()
	if s.b[s.i] == '[' { // a stream of Gemini as a JSON array
		return s.events(t, s.b, 0)
	}
	s.value(t.response)
	if s.end() {
		return true
	}
	if !s.over() {
		s.out = s.out[:0]
	}
	return false
}

// end reports whether the whole text was read.
func (s *Shaper) end() bool {
	s.space()
	return !s.broken && s.i == len(s.b)
}

func looksLikeJSON(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && (b[0] == '{' || b[0] == '[')
}
