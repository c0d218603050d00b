package redact

import "bytes"

// bearer finds what follows the word Bearer that begins here.
func (s *scan) bearer() (start, end int) {
	const word = "bearer"
	start = s.i + len(word)
	if start >= len(s.text) || !equalFold(s.text[s.i:start], word) || !s.begins(s.i) {
		return 0, 0
	}
	switch rest := s.text[start:]; {
	case rest[0] == ' ', rest[0] == '+':
		start++
	case bytes.HasPrefix(rest, []byte("%20")):
		start += 3
	default:
		return 0, 0
	}
	// Not all of what may be none is read: the next word may be the same again.
	if head := s.head(start, isBearer); head-start < 16 || !mixed(s.text[start:head]) {
		return 0, 0
	}
	return start, s.run(start, isBearer)
}

// maxHead is how much of a value says whether it is a secret.
const maxHead = 64

// head is where the bytes of class that begin at i end, or the first of them.
func (s *scan) head(i int, class uint16) int {
	for n := min(len(s.text), i+maxHead); i < n && of(s.text[i], class); {
		i++
	}
	return i
}

// mixed reports whether there are a letter and a digit among the first bytes of w.
func mixed(w []byte) bool {
	digit, letter := false, false
	for _, c := range w[:min(len(w), maxHead)] {
		if '0' <= c && c <= '9' {
			digit = true
		} else if of(c, isAlnum) {
			letter = true
		}
	}
	return digit && letter
}

// minPEM is how many bytes of a private key make it one; less is talk of its header.
const minPEM = 32

// flag finds the value of a command's flag whose second hyphen is at hand: --password hunter22.
func (s *scan) flag() (start, end int) {
	at := s.i + 1
	if at >= len(s.text) || !of(s.text[at], isAlnum) {
		return 0, 0
	}
	for end = at; end < len(s.text) && end-at < maxName && of(s.text[end], isNameByte); end++ {
	}
	if end-at < 3 || end == len(s.text) || s.text[end] != ' ' {
		return 0, 0
	}
	want := s.name(end)
	if want != wantPassword && want != wantKey && want != wantToken {
		return 0, 0
	}
	s.i = end
	return s.value(want, true, false)
}

// pem finds the body of a private key whose header begins with the hyphen before the one at hand. The header and the end
// stay.
func (s *scan) pem() (start, end int) {
	const begin = "-----BEGIN "
	if s.i == s.done {
		return 0, 0
	}
	rest := s.text[s.i-1:]
	if len(rest) < len(begin) || string(rest[:len(begin)]) != begin {
		return 0, 0
	}
	label := rest[len(begin):min(len(rest), len(begin)+48)]
	n := bytes.Index(label, []byte("-----"))
	if n < 0 || !bytes.Contains(label[:n], []byte("PRIVATE KEY")) {
		return 0, 0
	}
	start = s.i - 1 + len(begin) + n + len("-----")
	base64 := 0
	for end = start; end < len(s.text); end++ {
		c := s.text[end]
		if of(c, isAlnum) || c == '+' || c == '/' || c == '=' {
			base64++
		} else if c == '-' && bytes.HasPrefix(s.text[end:], []byte("-----")) || bytes.IndexByte([]byte("\\ \t\r\n:,-()."), c) < 0 {
			break
		}
	}
	if end == len(s.text) || s.text[end] != '-' {
		for end > start && bytes.IndexByte([]byte("\\ \t\r\n,"), s.text[end-1]) >= 0 { // of an escaped quote, or what follows
			end--
		}
	}
	s.next = start
	if base64 < minPEM {
		return 0, 0
	}
	return start, end
}
