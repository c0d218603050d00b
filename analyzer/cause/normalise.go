package cause

import "unicode/utf8"

// maxText bounds how much of an error text is read. Providers state the fault at the start, exceptions printed with
// their stack at the end; what stands between is an echo of the request, or the stack.
const (
	maxText  = 4 << 10
	maxTail  = 1 << 10
	maxEdges = 8 // what normalise adds where it cut
)

// normalise appends the normal form of text to dst: lower case, without quotes and escapes, white space and the frames
// that terminals draw as single spaces, none after a colon or comma. JSON that was escaped any number of times and the
// repr of a Python object have the same normal form as the plain text.
func normalise(dst, text []byte) []byte {
	if len(text) > maxText {
		dst = appendNormal(dst, text[:maxText-maxTail])
		return appendNormal(append(dst, ". "...), text[len(text)-maxTail:])
	}
	return appendNormal(dst, text)
}

func appendNormal(dst, text []byte) []byte {
	space := func() {
		// Nothing after a colon or a comma: JSON is written with and without.
		if n := len(dst); n > 0 && dst[n-1] != ' ' && dst[n-1] != ':' && dst[n-1] != ',' {
			dst = append(dst, ' ')
		}
	}
	for i := 0; i < len(text); {
		c := text[i]
		i++
		switch {
		case c == '\\':
			for i < len(text) && text[i] == '\\' { // as many as there were levels of escaping
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
				if r, ok := hex4(text[i+1:]); ok {
					i += 5
					if r = fold(r); r == ' ' {
						space()
					} else if r != 0 {
						dst = utf8.AppendRune(dst, r)
					}
				}
			}
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(text[i-1:])
			i += n - 1
			if r == utf8.RuneError { // as short as what it stands for
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
			dst = append(dst, c+'a'-'A')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// fold maps what quotes to 0, what separates to a space, and capital ASCII letters to small ones.
func fold(r rune) rune {
	switch {
	case 'A' <= r && r <= 'Z':
		return r + 'a' - 'A'
	case r == '"', r == '\'', r == '`', r == '\\', r == '´', r == '«', r == '»', 0x2018 <= r && r <= 0x201f:
		return 0
	case r <= ' ', r == '|', r == 0x7f, r == 0xa0, r == 0x2028, r == 0x2029, r == 0xfeff,
		0x2500 <= r && r <= 0x257f, // frames
		0x239b <= r && r <= 0x23bf: // bracket pieces, such as the gutter of a terminal
		return ' '
	}
	return r
}

// hex4 reads the four digits of a \u escape.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
