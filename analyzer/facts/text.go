package facts

import (
	"bytes"
	"math/bits"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// hashText returns the hash of the text that raw encodes. The hash does not depend on how the text is escaped.
func (s *scanner) hashText(raw []byte) uint64 {
	if bytes.IndexByte(raw, '\\') < 0 {
		return xxh3.Hash(raw)
	}
	n := len(s.scratch)
	s.scratch = jsonscan.AppendText(s.scratch, raw)
	h := xxh3.Hash(s.scratch[n:])
	s.scratch = s.scratch[:n]
	return h
}

// sizedText steps over the current value, which has kind k. It returns the size, counted like Message.ContentBytes, and the
// raw text of a string, or nil for other values.
func (s *scanner) sizedText(k Kind) (size int, text []byte) {
	raw := s.raw(k)
	if k != String || s.err != nil {
		return len(raw), nil
	}
	text = raw[1 : len(raw)-1]
	return textBytes(text), text
}

// rawText steps over the current value and returns the raw text of a string, or nil for other values.
func (s *scanner) rawText() []byte {
	k := s.kind()
	raw := s.raw(k)
	if k != String || s.err != nil {
		return nil
	}
	return raw[1 : len(raw)-1]
}

// textOrRaw steps over the current value and returns a string decoded, null as nil, and any other value raw.
func (s *scanner) textOrRaw() ([]byte, Kind) {
	start := s.i
	text, k := s.text()
	if k > Null && k != String {
		text = s.b[start:s.i]
	}
	return text, k
}

// doneData is the data of the last event in a stream of chat completions. Many gateways add it to other streams, too.
var doneData = []byte(wire.OpenAIChat.Descriptor().LastData)

// isDone reports whether the text continues with doneData.
func (s *scanner) isDone() bool { return bytes.HasPrefix(s.b[s.i:], doneData) }

// isLastEvent reports whether an event with this name or type ends a stream of dialect d.
func isLastEvent(d wire.Dialect, name []byte) bool {
	return slices.Contains(d.Descriptor().LastEvents, string(name))
}

// textBytes returns the length of raw, the bytes between the quotes of a string. For a text that capture mode "shape"
// replaced with ~<bytes>:<hash>, it returns the original length.
func textBytes(raw []byte) int {
	if n, ok := shaped(raw); ok {
		return n
	}
	return len(raw)
}

// shaped parses ~<bytes>:<16 hex digits>, optionally followed by a colon and a verdict.
func shaped(raw []byte) (bytes int, ok bool) {
	if len(raw) < len("~0:0123456789abcdef") || raw[0] != '~' {
		return 0, false
	}
	i := 1
	for ; i < len(raw) && i < 12 && raw[i] >= '0' && raw[i] <= '9'; i++ {
		bytes = bytes*10 + int(raw[i]-'0')
	}
	if i == 1 || len(raw) < i+17 || raw[i] != ':' || len(raw) > i+17 && raw[i+17] != ':' {
		return 0, false
	}
	for _, c := range raw[i+1 : i+17] {
		if jsonscan.HexDigits[c] < 0 {
			return 0, false
		}
	}
	return bytes, true
}

// foldHash combines the hash of a signature with the hash of the signatures before it in the message (see Signed).
func foldHash(before, hash uint64) uint64 { return bits.RotateLeft64(before, 1) ^ hash }

// typeAndName returns the members type and name of an object, which is a tool or a tool choice.
func (s *scanner) typeAndName() (typ, name []byte) {
	typ, name, _ = s.typeNameAndMark()
	return typ, name
}

// typeNameAndMark is like typeAndName, and also returns the mark of the tool.
func (s *scanner) typeNameAndMark() (typ, name []byte, m cacheMark) {
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "type":
			typ, _ = s.text()
		case "name":
			name, _ = s.text()
		case "cache_control":
			m = s.cacheMark()
		default:
			s.skip()
		}
	}
	return typ, name, m
}

// texts joins the text parts of one assistant message for its hash.
type texts struct {
	first  []byte // the first text, raw and without its quotes; nil if there is none
	joined bool   // Request.joined contains all texts, decoded
}

func (t *texts) add(f *Request, raw []byte) {
	if t.first == nil {
		t.first = raw
		return
	}
	if !t.joined {
		f.joined = jsonscan.AppendText(f.joined[:0], t.first)
		t.joined = true
	}
	f.joined = jsonscan.AppendText(f.joined, raw)
}

// hash returns the hash of the joined texts, or 0 if there are none.
func (t *texts) hash(f *Request, s *scanner) uint64 {
	switch {
	case t.first == nil:
		return 0
	case t.joined:
		return xxh3.Hash(f.joined)
	}
	return s.hashText(t.first)
}

// setText steps over the current value and, if it is a string and v is empty, stores it in v.
func setText(v *string, s *scanner) {
	if *v != "" { // set by an earlier event of the stream
		s.skip()
		return
	}
	n := len(s.scratch)
	text, _ := s.text()
	*v = string(text)
	s.scratch = s.scratch[:n]
}

// replaceText steps over the current value and, if it is a string, stores it in v.
func replaceText(v *string, s *scanner) {
	n := len(s.scratch)
	if text, k := s.text(); k == String && s.err == nil {
		*v = string(text)
	}
	s.scratch = s.scratch[:n]
}

// errorMember reads an error member into v unless v already has an error. null, false and "" mean that there is no error.
// A truncated error is still an error.
func (s *scanner) errorMember(v *[]byte) {
	k := s.kind()
	raw := s.raw(k)
	if k > Bool && len(*v) == 0 && string(raw) != `""` {
		*v = raw
	}
}
