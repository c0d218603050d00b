package redact

import "bytes"

// Maximum lengths of the parts of an email address, from RFC 5321.
const (
	maxLocal  = 64
	maxDomain = 255
)

// mail matches the email address around the @ at the current byte. It excludes git@github.com: and file names such as
// logo@2x.png.
func (s *scan) mail() (start, end int) {
	start = s.i
	for start > s.done && s.i-start <= maxLocal && hasClass(s.text[start-1], isLocal) {
		start--
	}
	start = s.withoutEscape(start)
	for start < s.i && bytes.IndexByte([]byte(".%+-"), s.text[start]) >= 0 {
		start++
	}
	if start == s.i || s.i-start > maxLocal || !hasClass(s.text[s.i-1], isAlnum|isNameByte) {
		return 0, 0
	}
	for end = s.i + 1; end < len(s.text) && end-s.i <= maxDomain && (hasClass(s.text[end], isAlnum) || s.text[end] == '-' || s.text[end] == '.'); end++ {
	}
	if end < len(s.text) && s.text[end] == mask[0] { // already masked
		return 0, 0
	}
	for end > s.i+1 && (s.text[end-1] == '.' || s.text[end-1] == '-') {
		end--
	}
	host := s.text[s.i+1 : end]
	dot := bytes.LastIndexByte(host, '.')
	if dot < 1 || len(host)-dot-1 < 2 || host[0] == '.' || host[0] == '-' || bytes.Contains(host, []byte("..")) {
		return 0, 0
	}
	if !isLetters(host[dot+1:]) {
		return 0, 0
	}
	if bytes.HasPrefix(host[1:], []byte("x.")) && '1' <= host[0] && host[0] <= '9' { // file name such as icon@2x.png
		return 0, 0
	}
	if end < len(s.text) && (s.text[end] == '(' || s.text[end] == '[' || s.text[end] == ':' && string(s.text[start:s.i]) == "git") {
		return 0, 0
	}
	return start, end
}

// withoutEscape returns start or, if start is inside an escape such as \n or \u003c, the end of the escape.
func (s *scan) withoutEscape(start int) int {
	if start <= s.done || s.text[start-1] != '\\' || start == len(s.text) {
		return start
	}
	switch s.text[start] {
	case 'n', 'r', 't', 'b', 'f':
		return start + 1
	case 'u':
		if start+5 <= len(s.text) && isHex(s.text[start+1]) && isHex(s.text[start+2]) && isHex(s.text[start+3]) && isHex(s.text[start+4]) {
			return min(start+5, s.i)
		}
	}
	return start
}
