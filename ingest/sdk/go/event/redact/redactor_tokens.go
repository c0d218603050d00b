package redact

import "bytes"

// bearer matches the token after the word Bearer, which begins at the current byte.
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
	// Only the head is examined, because scanning long words to their end would take quadratic time in a text of such
	// words.
	if head := s.head(start, isBearer); head-start < 16 || !mixed(s.text[start:head]) {
		return 0, 0
	}
	return start, s.run(start, isBearer)
}

// maxHead is the maximum number of bytes of a value that are examined.
const maxHead = 64

// head returns the end of the run of bytes of class that begins at i; it examines at most maxHead bytes.
func (s *scan) head(i int, class uint16) int {
	for n := min(len(s.text), i+maxHead); i < n && hasClass(s.text[i], class); {
		i++
	}
	return i
}

// mixed reports whether the head of w contains a letter and a digit.
func mixed(w []byte) bool {
	digit, letter := false, false
	for _, c := range w[:min(len(w), maxHead)] {
		if '0' <= c && c <= '9' {
			digit = true
		} else if hasClass(c, isAlnum) {
			letter = true
		}
	}
	return digit && letter
}

// minPEM is the minimum length of a private key. A header before a shorter text is only a mention.
const minPEM = 32

// flag matches the value of a command-line flag, as in --password hunter22, whose second hyphen is the current byte.
func (s *scan) flag() (start, end int) {
	at := s.i + 1
	if s.i == s.done || s.text[s.i-1] != '-' || at >= len(s.text) || !hasClass(s.text[at], isAlnum) {
		return 0, 0
	}
	for end = at; end < len(s.text) && end-at < maxName && hasClass(s.text[end], isNameByte); end++ {
	}
	if end-at < 3 || end == len(s.text) || s.text[end] != ' ' {
		return 0, 0
	}
	kind := s.nameKind(end)
	if kind != valuePassword && kind != valueKey && kind != valueToken {
		return 0, 0
	}
	s.i = end
	return s.value(kind, true, false)
}

// pem matches the body of a private key whose header begins one byte before the current byte, a hyphen. Header and
// footer are not masked.
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
	if n < 0 || !bytes.Contains(label[:n], []byte("PRIVATE KEY")) || bytes.IndexByte(label[:n], '"') >= 0 {
		return 0, 0
	}
	start = s.i - 1 + len(begin) + n + len("-----")
	base64 := 0
	for end = start; end < len(s.text); end++ {
		c := s.text[end]
		if hasClass(c, isAlnum) || c == '+' || c == '/' || c == '=' {
			base64++
		} else if c == '-' && bytes.HasPrefix(s.text[end:], []byte("-----")) || bytes.IndexByte([]byte("\\ \t\r\n:,-()."), c) < 0 {
			break
		}
	}
	if end == len(s.text) || s.text[end] != '-' {
		for end > start && bytes.IndexByte([]byte("\\ \t\r\n,"), s.text[end-1]) >= 0 { // escapes, white space
			end--
		}
	}
	s.next = start
	if base64 < minPEM {
		return 0, 0
	}
	return start, end
}
