package shape

import (
	"bytes"
	"encoding/hex"
	"hash/maphash"
	"strconv"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

const (
	hashDigits = 16
	knownBits  = 11 // log2 of the number of cached texts
	maxKnown   = 40 // maximum length of a cached text
)

// A knownText is a short text with its hash. Texts are cached because keys and the words of schemas recur.
type knownText struct {
	n    int // length; 0: unused
	text [maxKnown]byte
	hash [hashDigits]byte
}

// appendShape appends ~<bytes>:<hash>.
func (s *Shaper) appendShape(dst, text []byte) []byte {
	dst = append(dst, '~')
	dst = strconv.AppendInt(dst, int64(len(text)), 10)
	dst = append(dst, ':')
	return s.appendHash(dst, text)
}

// appendHash appends the first 16 hex digits of the text's HMAC.
func (s *Shaper) appendHash(dst, text []byte) []byte {
	if len(text) == 0 || len(text) > maxKnown {
		var digits [hashDigits]byte
		s.sum(text, &digits)
		return append(dst, digits[:]...)
	}
	k := &s.known[maphash.Bytes(s.seed, text)>>(64-knownBits)]
	if string(k.text[:k.n]) != string(text) {
		s.sum(text, &k.hash)
		k.n = copy(k.text[:], text)
	}
	return append(dst, k.hash[:]...)
}

func (s *Shaper) sum(text []byte, digits *[hashDigits]byte) {
	s.mac.Reset()
	_, _ = s.mac.Write(text) // never fails
	hex.Encode(digits[:], s.mac.Sum(s.digest[:0])[:hashDigits/2])
}

// decode returns the decoded text of raw. The result is valid until the next call.
func (s *Shaper) decode(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	s.scratch = jsonscan.AppendText(s.scratch[:0], raw)
	return s.scratch
}
