package redact

import "bytes"

// mask stands for what was taken out.
const mask = "***"

// Classes of bytes.
const (
	inWord  = 1 << iota // of a key, an id, a name or a mail address
	inValue             // of what stands behind a name: base64 and percent-encoding too
	inUser              // of the user and the password in a URL
	inText              // printable and no space or quote: what a cut may halve
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

// Append appends text to dst, masked. It is a few bytes longer than text at the most for each address in it.
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

// maxHalved bounds what Cut takes off, and what userinfo looks at.
const maxHalved = 512

// Cut returns the first limit bytes of text, less what the cut halves: the rest of a secret might not look like one. What is
// longer than 512 bytes is halved, for it is known by how it begins.
func Truncate(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > 0 && is(text[end-1], inText) && is(text[limit], inText) {
		if end--; limit-end > maxHalved {
			return text[:limit]
		}
	}
	return text[:end]
}

// A reader goes through a text once.
type reader struct {
	text, dst []byte
	i         int // what is before it is in dst
	noMail    int // no @ stands in the run of word characters that ends here

	said  sort // what the last word says of the next
	ended int  // where that word ended
	api   bool // that word is "api"
}

// keep copies the next n bytes.
func (r *reader) keep(n int) {
	r.dst = append(r.dst, r.text[r.i:r.i+n]...)
	r.i += n
}

// hide writes a mask in place of all up to end.
func (r *reader) hide(end int) {
	r.dst = append(r.dst, mask...)
	r.i = end
}

// escape copies an escape of JSON, however often it was escaped itself: the n of \n begins no word.
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

// userinfo masks what stands between the slashes of a URL, whose colon was just copied, and an @.
func (r *reader) userinfo() {
	rest := r.text[r.i:]
	slashes := 0
	for _, s := range [...]string{"//", `\/\/`} {
		if bytes.HasPrefix(rest, []byte(s)) {
			slashes = len(s)
		}
	}
	if slashes == 0 {
		return
	}
	r.keep(slashes)
	end := r.i
	for end < len(r.text) && end-r.i < maxHalved && is(r.text[end], inUser) {
		end++
	}
	if end > r.i && end < len(r.text) && r.text[end] == '@' {
		r.hide(end)
		r.keep(1)
	}
}

// word copies or masks the word that begins here, or the value that the word before announced.
func (r *reader) word() {
	if r.secretHere() {
		return
	}
	// Around a word there may be markup: **sk-…**, _sk-…_, "sk-….".
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
		r.said = sayNothing
		return
	}
	w := r.text[start:end]
	stop := end
	for r.text[stop-1] == '.' {
		stop--
	}
	said, api := announced(w[:stop-start]), r.api
	switch after := r.text[end:]; {
	case isMail(w[:stop-start]):
		r.dst = append(r.dst, mask+"@"...)
		r.hide(stop)
	case string(w) == "arn" && bytes.HasPrefix(after, []byte(":aws")):
		r.arn()
	case said == sayCookie && cookieFollows(after):
		r.keep(end - r.i)
		r.cookie()
	case isZhipu(w[:stop-start]):
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
	if said == sayProvided { // "API key provided: …"
		said = sayNothing
		if r.said == sayName && string(r.text[r.ended:start]) == " " {
			said = sayName
		}
	}
	if said == sayQuery && api && string(r.text[r.ended:start]) == " " && equalFold(w, "key") {
		said = sayName
	}
	if r.i < end {
		r.keep(end - r.i)
	}
	r.said, r.ended, r.api = said, r.i, equalFold(w, "api")
	if r.i < len(r.text) && r.text[r.i] == '+' {
		r.keep(1) // a space, in a query
	}
}

// secretHere masks what the word before announced, if it is that.
func (r *reader) secretHere() bool {
	said := r.said
	if said == sayNothing || said == sayCookie || r.i-r.ended > maxGap {
		return false
	}
	colon, equals := gap(r.text[r.ended:r.i], said)
	if !colon && !equals {
		return false
	}
	if said == sayScheme && isPlain(r.text[r.i:r.wordEnd(r.i)]) {
		return false
	}
	end := r.valueEnd(r.i)
	v := r.text[r.i:end]
	switch {
	case bytes.Contains(v, []byte(mask)): // masked already
		return false
	case said == sayPassword && len(v) >= minPassword:
	case len(v) < minSecret:
		return false
	case colon && !looksRandom(v):
		return false
	}
	// What says of which kind a key is stays.
	if p, _ := prefixOf(v); p > 0 {
		r.keep(p)
	}
	r.hide(end)
	r.said, r.ended, r.api = sayNothing, r.i, false
	return true
}

// wordEnd is where the word at i ends. A + joins words, as in a query, but not in a mail address.
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

// valueEnd is where the value that i is in ends.
func (r *reader) valueEnd(i int) int {
	for i < len(r.text) {
		switch {
		case is(r.text[i], inValue):
			i++
		case r.text[i] == '\\' && i+1 < len(r.text) && r.text[i+1] == '/':
			i += 2
		default:
			for r.text[i-1] == '.' {
				i--
			}
			return i
		}
	}
	for r.text[i-1] == '.' {
		i--
	}
	return i
}

// private masks a private key in PEM, up to its end, or to the quote that ends it.
func (r *reader) private() {
	label := r.text[r.i:min(len(r.text), r.i+48)]
	if !bytes.Contains(label, []byte("PRIVATE KEY")) {
		r.keep(len("-----BEGIN"))
		r.said, r.api = sayNothing, false
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
	for r.text[end-1] == '\\' { // of an escaped quote
		end--
	}
	r.hide(end)
	r.said, r.api = sayNothing, false
}

// cookie masks the header whose name was just copied, to its end.
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

// arn masks the account in a name of AWS, and who it is: arn:aws:sts::123456789012:assumed-role/agent/jane.
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
