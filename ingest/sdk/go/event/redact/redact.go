package redact

import "bytes"

// mask is the replacement for masked text.
const mask = "***"

// Classes of bytes.
const (
	inWord  = 1 << iota // in a key, an id, a name or an email address
	inValue             // in a value; includes base64 and percent-encoding
	inUser              // in the user or password of a URL
	inText              // printable, except spaces and quotes: words that Truncate does not split
)

var classes = func() (t [256]uint8) {
	for c := range t {
		alnum := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if alnum || bytes.IndexByte([]byte("-_.@+*"), byte(c)) >= 0 {
			t[c] |= inWord | inValue
		}
		if bytes.IndexByte([]byte("/=~%"), byte(c)) >= 0 {
			t[c] |= inValue
		}
		if c > ' ' && bytes.IndexByte([]byte("/?#\"'<>\\@\x7f"), byte(c)) < 0 {
			t[c] |= inUser
		}
		if ' ' < c && c < 0x7f && c != '"' && c != '\'' {
			t[c] |= inText
		}
	}
	return t
}()

func is(c byte, class uint8) bool { return classes[c]&class != 0 }

// Append appends the masked text to dst. The result exceeds text by at most a few bytes per mail address.
func Append(dst, text []byte) []byte {
	r := reader{text: text, dst: dst}
	for r.i < len(text) {
		switch c := text[r.i]; {
		case is(c, inWord):
			r.word()
		case c == '\\':
			r.escape()
		case c == '%' && r.i+2 < len(text) && isHex(text[r.i+1]) && isHex(text[r.i+2]):
			r.keep(3)
		case c == ':':
			r.keep(1)
			r.userinfo()
		default:
			r.keep(1)
		}
	}
	return r.dst
}

// maxWord is the maximum length of a word that Truncate removes and of the text that userinfo examines.
const maxWord = 512

// Truncate returns the first limit bytes of text. If the limit splits a word, the word is removed, because the first
// part of a secret may be unrecognizable. Words longer than 512 bytes are split, because secrets of that length are
// recognized by their start.
func Truncate(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > 0 && is(text[end-1], inText) && is(text[limit], inText) {
		if end--; limit-end > maxWord {
			return text[:limit]
		}
	}
	return text[:end]
}

// A reader masks a text in one pass.
type reader struct {
	text, dst []byte
	i         int // text[:i] is in dst
	noMail    int // the run of word bytes up to this index contains no @

	hint     hint // kind of value expected after the last word
	hintEnd  int  // end of the last word
	afterAPI bool // the last word is "api"
}

// keep copies the next n bytes to dst.
func (r *reader) keep(n int) {
	r.dst = append(r.dst, r.text[r.i:r.i+n]...)
	r.i += n
}

// hide appends a mask to dst instead of the text up to end.
func (r *reader) hide(end int) {
	r.dst = append(r.dst, mask...)
	r.i = end
}

// escape copies a JSON escape, which may be nested to any depth, so that the n of \n does not begin a word.
func (r *reader) escape() {
	n := r.i
	for n < len(r.text) && r.text[n] == '\\' {
		n++
	}
	if n < len(r.text) {
		switch r.text[n] {
		case 'n', 'r', 't', 'b', 'f':
			n++
		case 'u':
			end := n + 1
			for end < len(r.text) && end < n+5 && isHex(r.text[end]) {
				end++
			}
			if end == n+5 {
				n = end
			}
		}
	}
	r.keep(n - r.i)
}

// urlSlashes returns the length of the two slashes at the start of text, which may be escaped as in JSON; 0 if there
// are none.
func urlSlashes(text []byte) int {
	for _, s := range [...]string{"//", `\/\/`} {
		if bytes.HasPrefix(text, []byte(s)) {
			return len(s)
		}
	}
	return 0
}

// userinfo masks the text between the slashes of a URL and an @. The colon before the slashes was just copied.
func (r *reader) userinfo() {
	slashes := urlSlashes(r.text[r.i:])
	if slashes == 0 {
		return
	}
	r.keep(slashes)
	end := r.i
	for end < len(r.text) && end-r.i < maxWord && is(r.text[end], inUser) {
		end++
	}
	if end > r.i && end < len(r.text) && r.text[end] == '@' {
		r.hide(end)
		r.keep(1)
	}
}

// word copies or masks the word that begins at i, or the value expected after the previous word.
func (r *reader) word() {
	if r.secretHere() {
		return
	}
	// A word may be surrounded by markup: **sk-…**, _sk-…_, "sk-….".
	start := r.i
	for start < len(r.text) && bytes.IndexByte([]byte("*.+_@-"), r.text[start]) >= 0 {
		start++
	}
	if pem := []byte("-----BEGIN "); start-r.i >= 5 && bytes.HasPrefix(r.text[start-5:], pem) {
		r.keep(start - 5 - r.i)
		r.private()
		return
	}
	end := r.wordEnd(start)
	r.keep(start - r.i)
	if start == end {
		r.hint = hintNone
		return
	}
	w := r.text[start:end]
	stop := end
	for r.text[stop-1] == '.' {
		stop--
	}
	h, api := announced(w[:stop-start]), r.afterAPI
	switch after := r.text[end:]; {
	case isMail(w[:stop-start]):
		r.dst = append(r.dst, mask+"@"...)
		r.hide(stop)
	case string(w) == "arn" && bytes.HasPrefix(after, []byte(":aws")):
		r.arn()
	case h == hintCookie && cookieFollows(after):
		r.keep(end - r.i)
		r.cookie()
	case isZhipu(w[:stop-start]), isTelegram(r.text[:start], w[:stop-start]):
		r.hide(stop)
	default:
		if p, ids := prefixOf(w[:stop-start]); p > 0 {
			r.keep(p)
			if !ids {
				stop = r.valueEnd(stop)
			}
			r.hide(stop)
		}
	}
	if h == hintProvided { // "API key provided: …"
		h = hintNone
		if r.hint == hintName && string(r.text[r.hintEnd:start]) == " " {
			h = hintName
		}
	}
	if h == hintQuery && api && string(r.text[r.hintEnd:start]) == " " && equalFold(w, "key") {
		h = hintName
	}
	if r.i < end {
		r.keep(end - r.i)
	}
	r.hint, r.hintEnd, r.afterAPI = h, r.i, equalFold(w, "api")
	if r.i < len(r.text) && r.text[r.i] == '+' {
		r.keep(1) // an encoded space in a query
	}
}

// secretHere masks the value expected after the previous word if the text at i looks like one.
func (r *reader) secretHere() bool {
	h := r.hint
	if h == hintNone || h == hintCookie || r.i-r.hintEnd > maxGap {
		return false
	}
	colon, equals := gap(r.text[r.hintEnd:r.i], h)
	if !colon && !equals {
		return false
	}
	if h == hintScheme && isPlain(r.text[r.i:r.wordEnd(r.i)]) {
		return false
	}
	end := r.valueEnd(r.i)
	v := r.text[r.i:end]
	switch {
	case bytes.Contains(v, []byte(mask)): // already masked
		return false
	case h == hintPassword && len(v) >= minPassword:
	case len(v) < minSecret:
		return false
	case colon && !looksRandom(v):
		return false
	}
	// Keep the prefix, which identifies the kind of key.
	if p, _ := prefixOf(v); p > 0 {
		r.keep(p)
	}
	r.hide(end)
	r.hint, r.hintEnd, r.afterAPI = hintNone, r.i, false
	return true
}

// wordEnd returns the end of the word at i. A + separates words, as in a query, except in an email address.
func (r *reader) wordEnd(i int) int {
	plus := -1
	for end := i; ; end++ {
		switch {
		case end == len(r.text) || !is(r.text[end], inWord):
			if plus >= 0 {
				r.noMail = end
				return plus
			}
			return end
		case r.text[end] == '@':
			for end < len(r.text) && is(r.text[end], inWord) {
				end++
			}
			return end
		case r.text[end] == '+' && plus < 0:
			if plus = end; end < r.noMail {
				return end
			}
		}
	}
}

// valueEnd returns the end of the value that contains i.
func (r *reader) valueEnd(i int) int {
	for i < len(r.text) {
		if is(r.text[i], inValue) {
			i++
		} else if bytes.HasPrefix(r.text[i:], []byte(`\/`)) {
			i += 2
		} else {
			break
		}
	}
	for r.text[i-1] == '.' {
		i--
	}
	return i
}

// private masks a PEM private key up to its end or to the closing quote.
func (r *reader) private() {
	label := r.text[r.i:min(len(r.text), r.i+48)]
	if !bytes.Contains(label, []byte("PRIVATE KEY")) {
		r.keep(len("-----BEGIN"))
		r.hint, r.afterAPI = hintNone, false
		return
	}
	end := r.i + len("-----BEGIN")
	for end < len(r.text) && r.text[end] != '"' && r.text[end] != '\'' {
		if r.text[end] == '-' && bytes.HasPrefix(r.text[end:], []byte("-----END ")) {
			end += len("-----END ")
			for end < len(r.text) && ('A' <= r.text[end] && r.text[end] <= 'Z' || r.text[end] == ' ' || r.text[end] == '-') {
				end++
			}
			break
		}
		end++
	}
	for r.text[end-1] == '\\' { // backslashes before the quote
		end--
	}
	r.hide(end)
	r.hint, r.afterAPI = hintNone, false
}

// cookie masks the value of the cookie header whose name was just copied.
func (r *reader) cookie() {
	for r.i < len(r.text) && bytes.IndexByte([]byte("\\\"': "), r.text[r.i]) >= 0 {
		r.keep(1)
	}
	end := r.i
	for end < len(r.text) && bytes.IndexByte([]byte("\\\"'\r\n"), r.text[end]) < 0 {
		end++
	}
	if end > r.i {
		r.hide(end)
	}
}

// arn masks the account and identity in an ARN: arn:aws:sts::123456789012:assumed-role/agent/jane.
func (r *reader) arn() {
	at := r.i
	var service []byte
	for n := range 4 { // arn, partition, service, region
		colon := bytes.IndexByte(r.text[at:min(len(r.text), at+32)], ':')
		if colon < 0 {
			return
		}
		if n == 2 {
			service = r.text[at : at+colon]
		}
		at += colon + 1
	}
	end := at
	for end < len(r.text) && end < at+13 && '0' <= r.text[end] && r.text[end] <= '9' {
		end++
	}
	if end != at+12 {
		return
	}
	if s := string(service); s == "iam" || s == "sts" {
		for end < len(r.text) && (is(r.text[end], inValue) || r.text[end] == ':' || r.text[end] == ',') {
			end++
		}
	}
	r.keep(at - r.i)
	r.hide(end)
}
