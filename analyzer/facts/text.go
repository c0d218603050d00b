package facts

import (
	"bytes"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/wire/jsonscan"
)

// hashText is the hash of the text that raw stands for: the same however a client escapes it.
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

// textBytes is the length of a text from the raw bytes between its quotes. A text that capture mode "shape" replaced by
// ~<bytes>:<hash> says its length itself.
func textBytes(raw []byte) int {
	if n, ok := shaped(raw); ok {
		return n
	}
	return len(raw)
}

// shaped reads ~<bytes>:<16 hex digits>, perhaps followed by a colon and a verdict.
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

// typeAndName reads an object and returns these two members of it: a tool, or a choice of one.
func (s *scanner) typeAndName() (typ, name []byte) {
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "type":
			typ, _ = s.text()
		case "name":
			name, _ = s.text()
		default:
			s.skip()
		}
	}
	return typ, name
}
