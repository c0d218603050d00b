package cause

import (
	"bytes"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// maxText is the maximum number of bytes that are read of an error text; maxTail of them are read from the end of a longer
// text. Providers state the fault at the start, and exceptions printed with their stack at the end. The middle is only an echo
// of the request, or the stack.
const (
	maxText  = 4 << 10
	maxTail  = 1 << 10
	maxEdges = 8 // bytes that normalise adds at the cut

	maxNormal = maxText + maxText/2 + maxEdges // bytes of a normal form, in which every second letter may start a word
)

// normalise appends the normal form of text to dst. The normal form is in lower case, without quotes, escapes and terminal
// colours. Contractions are written out, so that "doesn't" and "doesnt" are "does not", and "can't" is "cannot". The words of
// a name in camel case are joined by underscores, so that toolResult and tool_result are one name; names that start with a
// capital, such as those of companies and exceptions, remain one word. White space and box-drawing characters become single
// spaces, or nothing after a colon or comma. JSON escaped any number of times and the repr of a Python object have the same
// normal form as the plain text.
func normalise(dst, text []byte) []byte { return appendEdges(dst, text, true) }

// appendEdges appends the normal form of text to dst, without its middle if it is long. split says whether names in camel case
// and contractions are split.
func appendEdges(dst, text []byte, split bool) []byte {
	if len(text) > maxText {
		dst = appendNormal(dst, text[:maxText-maxTail], split)
		return appendNormal(append(dst, ". "...), text[len(text)-maxTail:], split)
	}
	return appendNormal(dst, text, split)
}

func appendNormal(dst, text []byte, split bool) []byte {
	camel := false // in a name that started with a small letter
	space := func() {
		// Omit the space after a colon, a comma or an opening brace, because JSON may be written with or without it.
		if n := len(dst); n > 0 {
			switch dst[n-1] {
			case ' ', ':', ',', '{':
			default:
				dst = append(dst, ' ')
			}
		}
	}
	for i := 0; i < len(text); {
		c := text[i]
		i++
		switch {
		case c == '\\':
			for i < len(text) && text[i] == '\\' { // one backslash for each level of escaping
				i++
			}
			if i == len(text) {
				break
			}
			switch text[i] {
			case 'n', 't', 'r':
				i++
				space()
			case 'u':
				if r := jsonscan.Hex4(text[i-1:]); r >= 0 {
					i += 5
					if r == escape {
						i += afterEscape(text[i:])
					} else if r = fold(r); r == ' ' {
						space()
					} else if r != 0 {
						dst = utf8.AppendRune(dst, r)
					}
				}
			case 'x', '0', 'e':
				if n := escapeCode(text[i:]); n > 0 {
					i += n
					i += afterEscape(text[i:])
				}
			}
		case c == escape:
			i += afterEscape(text[i:])
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(text[i-1:])
			i += n - 1
			if r == utf8.RuneError { // one byte, like the invalid byte, so that the text does not grow
				r = '?'
			}
			if r = fold(r); r == ' ' {
				space()
			} else if r != 0 {
				dst = utf8.AppendRune(dst, r)
			}
		case c <= ' ' || c == '|' || c == 0x7f:
			space()
		case c == '\'' || c == '"' || c == '`':
		case 'A' <= c && c <= 'Z':
			switch n := len(dst); {
			case n == 0 || !isWord(dst[n-1]):
				camel = false
			case camel && isSmall(text[i-2]):
				dst = append(dst, '_')
			}
			dst = append(dst, c+'a'-'A')
		default:
			if n := len(dst); n == 0 || !isWord(dst[n-1]) {
				camel = split && isSmall(c)
			}
			dst = append(dst, c)
		}
		if split && (c == 't' || c == 'T') && (i == len(text) || !isWord(text[i]|0x20) && text[i] != '_') {
			dst = splitContraction(dst)
		}
	}
	return dst
}

// negated contains the words that "n't" negates without another change.
var negated = [...]string{"ca", "does", "do", "did", "is", "are", "was", "were", "has", "have", "could", "should", "would", "must"}

// splitContraction writes out a negation at the end of dst, which has lost its apostrophe: "does not" for "doesnt".
func splitContraction(dst []byte) []byte {
	stem, ok := bytes.CutSuffix(dst, []byte("nt"))
	if !ok {
		return dst
	}
	for _, word := range negated {
		if n := len(stem) - len(word); n >= 0 && string(stem[n:]) == word && (n == 0 || !isWord(stem[n-1]) && stem[n-1] != '_') {
			if word == "ca" {
				return append(stem, "nnot"...)
			}
			return append(stem, " not"...)
		}
	}
	return dst
}

func isSmall(b byte) bool { return 'a' <= b && b <= 'z' }

// escape is the character that starts a terminal control sequence.
const (
	escape   = 0x1b
	maxTitle = 256 // maximum bytes of a link or a title
)

// afterEscape returns the length of the rest of a terminal escape sequence, such as a colour, a cursor movement or a link.
func afterEscape(text []byte) int {
	if len(text) == 0 {
		return 0
	}
	switch text[0] {
	case '[':
		n := 1
		for n < len(text) && 0x20 <= text[n] && text[n] < 0x40 {
			n++
		}
		return min(n+1, len(text))
	case ']':
		for n := 1; n < min(len(text), maxTitle); n++ {
			switch text[n] {
			case 0x07:
				return n + 1
			case escape:
				return min(n+2, len(text))
			}
		}
	}
	return 1
}

// escapeCode returns the length of the code that stands for the escape character after a backslash in Python, C or a shell;
// 0 if text does not start with such a code.
func escapeCode(text []byte) int {
	for _, code := range [...]string{"x1b[", "x1B[", "033[", "e["} {
		if len(text) >= len(code) && string(text[:len(code)]) == code {
			return len(code) - 1
		}
	}
	return 0
}

// fold maps quotes to 0, separators to a space, and upper-case ASCII letters to lower case.
func fold(r rune) rune {
	switch {
	case 'A' <= r && r <= 'Z':
		return r + 'a' - 'A'
	case r == '"', r == '\'', r == '`', r == '\\', r == '´', r == '«', r == '»', 0x2018 <= r && r <= 0x201f:
		return 0
	case r <= ' ', r == '|', r == 0x7f, r == 0xa0, r == 0x2028, r == 0x2029, r == 0xfeff,
		0x2500 <= r && r <= 0x257f, // box drawing
		0x239b <= r && r <= 0x23bf: // bracket pieces, such as the gutter of a terminal
		return ' '
	}
	return r
}
