package redact

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strings"
)

// Kinds of text that a Redactor masks.
const (
	Credentials = "credentials"  // keys with a known form, and values after names such as password and api_key
	PrivateKeys = "private_keys" // private keys in PEM format
	Emails      = "emails"
	Phones      = "phones" // E.164 with or without separators; North American numbers also without +1
	Cards       = "cards"  // payment card numbers: known issuer, valid length and check digit
)

// Kinds are all kinds.
var Kinds = []string{Credentials, PrivateKeys, Emails, Phones, Cards}

// Limits of patterns.
const (
	MaxPatterns   = 32
	maxPatternLen = 1000
)

// Config configures a Redactor.
type Config struct {
	Kinds []string
	// Patterns are additional regular expressions to mask, in RE2 syntax. They are matched against each JSON string
	// as written, with its escapes. A pattern that contains a literal, such as EMP-\d{6}, costs little in text
	// without the literal. A pattern such as [A-Z]{3}\d{6} takes ten times as long as all kinds together.
	Patterns []string
}

// NewRedactor returns a Redactor for cfg. The error lists every invalid key of cfg.
func NewRedactor(cfg Config) (*Redactor, error) {
	c := &Redactor{}
	var errs []error
	for i, k := range cfg.Kinds {
		if !slices.Contains(Kinds, k) {
			errs = append(errs, fmt.Errorf("redact[%d]: %q is not one of %s", i, k, strings.Join(Kinds, ", ")))
		}
	}
	if len(cfg.Patterns) > MaxPatterns {
		errs = append(errs, fmt.Errorf("redact_patterns: %d are too many; at most %d", len(cfg.Patterns), MaxPatterns))
	}
	for i, p := range cfg.Patterns {
		re, err := compilePattern(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("redact_patterns[%d]: %w", i, err))
			continue
		}
		c.patterns = append(c.patterns, newPattern(re))
	}
	for kind, anchors := range anchorsOf {
		if slices.Contains(cfg.Kinds, kind) {
			for b, check := range anchors {
				c.anchors[b] |= check
			}
		}
	}
	c.index()
	return c, errors.Join(errs...)
}

func compilePattern(p string) (*regexp.Regexp, error) {
	if len(p) > maxPatternLen {
		return nil, fmt.Errorf("has %d bytes; at most %d", len(p), maxPatternLen)
	}
	re, err := regexp.Compile(p)
	if err != nil {
		return nil, fmt.Errorf("%q does not compile: %w", p, err)
	}
	if re.MatchString("") {
		return nil, fmt.Errorf("%q matches the empty string and thus everywhere", p)
	}
	return re, nil
}

// A Redactor masks secrets and personal data in bodies of requests and responses. Bodies are evidence, so unlike the
// function Append, which masks error texts, a Redactor masks only certain matches: it retains ids of calls and
// requests, UUIDs, hashes and long numbers. It is safe for concurrent use.
//
// JSON stays valid: a mask contains no quote or escape, does not replace a part of an escape, and the mask of a JSON
// number is 0. In a streamed response, secrets that span fragments are not recognized: see Matches. Masking is
// idempotent, except for text next to a secret and patterns that match masks.
type Redactor struct {
	anchors  [256]check
	hot      [1 << 16]uint8 // 1 for byte pairs to examine, indexed by second byte << 8 | first byte
	before   [256][64]check // checks that can succeed after two bytes, indexed by the second byte and the low 6 bits of the first
	next     [2][256]check  // checks that can succeed before a byte, and two bytes before it
	patterns []pattern
}

// Append appends the masked text to dst.
func (c *Redactor) Append(dst, text []byte) []byte {
	at := len(dst)
	return c.match(c.mask(dst, text), at)
}

// A Range is text[Start:End].
type Range struct{ Start, End int }

// AppendRepeated is Append for a text with known repetitions: it does not examine repeats, which are ranges of text in order,
// unless anything outside of them is masked. Each repeats bytes that stand outside of all of them. It is either the start of a
// JSON object or array, from its first byte to the opening quote of a string whose name announces no secret, or its end, from the
// closing quote of the string to the end of the line. So what a matcher finds in a range does not depend on the text around it,
// because no matcher reads back across an opening brace or bracket, or on across the end of a line, or across a quote unless it
// opens the value of a name; a private key may have several lines, but ends with its string. FuzzRepeats in package content compares
// the result with that of Append.
func (c *Redactor) AppendRepeated(dst, text []byte, repeats []Range) []byte {
	found := false
	c.kinds(text, repeats, func(int, int, string) { found = true })
	if found {
		return c.Append(dst, text)
	}
	at := len(dst)
	return c.match(append(dst, text...), at)
}

// block is the number of bytes looked up before any of them is examined. Looking up a block without branches is
// several times as fast.
const block = 64

// Matches calls hide with each range of text to mask and its mask, first for the kinds in the order of the text, then for each
// pattern, so ranges may overlap. text is the inside of one JSON string, as written.
func (c *Redactor) Matches(text []byte, hide func(start, end int, with string)) {
	c.kinds(text, nil, hide)
	for i := range c.patterns {
		c.patterns[i].matches(text, func(start, end int) { hide(start, end, mask) })
	}
}

// mask appends text with the configured kinds masked.
func (c *Redactor) mask(dst, text []byte) []byte {
	done := 0
	c.kinds(text, nil, func(start, end int, with string) {
		dst = append(append(dst, text[done:start]...), with...)
		done = end
	})
	return append(dst, text[done:]...)
}

// kinds calls hide with each range of text that the configured kinds mask, in order. It skips the given ranges, except
// for parts of them in a block that begins before them.
func (c *Redactor) kinds(text []byte, skip []Range, hide func(start, end int, with string)) {
	s := scan{text: text, c: c}
	for base := 0; base < len(text); base = max(base+block, s.next&^(block-1)) {
		for len(skip) > 0 && skip[0].Start <= max(base, s.next) {
			s.next = max(s.next, skip[0].End)
			skip = skip[1:]
		}
		if s.next >= base+block {
			continue
		}
		hot := c.marks(text, base)
		if base <= s.done && s.done < min(base+block, len(text)) { // the pair of the byte at done begins in masked text
			hot |= 1 << (s.done - base)
		}
		for ; hot != 0; hot &= hot - 1 {
			if s.i = base + bits.TrailingZeros64(hot); s.i < s.next {
				continue
			}
			check := s.checks()
			if check == 0 {
				continue
			}
			start, end, with := s.match(check)
			if end == 0 {
				continue
			}
			hide(start, end, with)
			s.done, s.next = end, end
			if end < min(base+block, len(text)) {
				hot |= 1 << (end - base)
			}
		}
	}
}

// marks returns a bit for each byte to examine in the block at base.
func (c *Redactor) marks(text []byte, base int) (hot uint64) {
	if base == 0 || base+block > len(text) {
		var padded [block + 1]byte
		copy(padded[1:], text[base:])
		if base > 0 {
			padded[0] = text[base-1]
		}
		return c.hotIn(&padded)
	}
	return c.hotIn((*[block + 1]byte)(text[base-1:]))
}

// hotIn returns a bit for each pair of bytes of t to examine. The loop is unrolled, because it takes most of the time.
func (c *Redactor) hotIn(t *[block + 1]byte) (hot uint64) {
	for i := block - 8; i >= 0; i -= 8 {
		b := t[i : i+9]
		h := uint64(c.hot[binary.LittleEndian.Uint16(b[7:])])
		h = h<<1 + uint64(c.hot[binary.LittleEndian.Uint16(b[6:])])
		h = h<<1 + uint64(c.hot[binary.LittleEndian.Uint16(b[5:])])
		h = h<<1 + uint64(c.hot[binary.LittleEndian.Uint16(b[4:])])
		h = h<<1 + uint64(c.hot[binary.LittleEndian.Uint16(b[3:])])
		h = h<<1 + uint64(c.hot[binary.LittleEndian.Uint16(b[2:])])
		h = h<<1 + uint64(c.hot[binary.LittleEndian.Uint16(b[1:])])
		h = h<<1 + uint64(c.hot[binary.LittleEndian.Uint16(b)])
		hot = hot<<8 | h
	}
	return hot
}

// A scan examines a text in one pass.
type scan struct {
	text []byte
	c    *Redactor
	i    int // index of the current byte
	done int // text[:done] has been copied or masked and is not examined again
	next int // no match begins before next
}

// checks returns the checks that can succeed at the current byte.
func (s *scan) checks() check {
	if s.i < s.done+2 || s.i+2 >= len(s.text) {
		return s.c.anchors[s.text[s.i]]
	}
	t := (*[5]byte)(s.text[s.i-2:])
	return s.c.anchors[t[2]] & s.c.before[t[1]][t[0]%64] & s.c.next[0][t[3]] & s.c.next[1][t[4]]
}

// match runs the matchers of c at the current byte. It returns the range to mask and the mask; end is 0 if nothing
// matches.
func (s *scan) match(c check) (start, end int, with string) {
	if c == checkEscape {
		return s.afterEscape()
	}
	if c&checkName != 0 {
		start, end = s.named()
	}
	if end == 0 && c&checkPrefix != 0 {
		start, end = s.prefixed()
	}
	if end == 0 && c&checkLetter != 0 {
		start, end = s.joined()
	}
	if end == 0 && c&checkBearer != 0 {
		start, end = s.bearer()
	}
	if end == 0 && c&checkColon != 0 {
		start, end = s.afterColon()
	}
	if end == 0 && c&checkPEM != 0 {
		start, end = s.pem()
	}
	if end == 0 && c&checkFlag != 0 {
		start, end = s.flag()
	}
	if end > 0 {
		return start, end, mask
	}
	if c&checkMail != 0 {
		if start, end = s.mail(); end > 0 {
			return start, end, mask + "@" + mask
		}
	}
	if c&checkEscape != 0 {
		return s.afterEscape()
	}
	if c&(checkCard|checkPhone|checkPlus) != 0 {
		return s.number(c)
	}
	return 0, 0, ""
}

// afterEscape matches the text after an escape at the current byte. The last byte of the escape may look like a part
// of the word after it.
func (s *scan) afterEscape() (start, end int, with string) {
	i := s.i + 1
	switch s.text[s.i] {
	case 'u':
		i += 4
	case '%':
		i += 2
	}
	if i >= len(s.text) || s.c.anchors[s.text[i]]&checkBegins == 0 || !s.escaped(i) {
		return 0, 0, ""
	}
	s.i = i
	return s.match(s.c.anchors[s.text[i]] & checkBegins)
}

// Classes of bytes. (Those of Append are in redact.go.)
const (
	isAlnum        uint16 = 1 << iota
	isKey                 // in a key: URL-safe base64
	isLocal               // in the local part of an email address
	isBare                // in an unquoted value
	isOpaque              // in a value that ends at a quote or at the end of the line
	isBearer              // in a bearer token
	isQuote               // a quotation mark of any programming language
	isNameByte            // in a name
	isGap                 // between a name and its separator
	isNumberBefore        // never directly before a number
	isNumberAfter         // never directly after a number
)

var contentClasses = func() (t [256]uint16) {
	for c := range t {
		b := byte(c)
		if '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z' {
			t[c] |= isAlnum | isKey | isLocal | isBare | isBearer | isNameByte
		}
		if b >= 0x80 {
			t[c] |= isBare
		}
		if b > ' ' && bytes.IndexByte([]byte("\"'`\\\x7f"), b) < 0 {
			t[c] |= isOpaque
		}
	}
	for bytes, class := range map[string]uint16{
		"-_": isKey | isNameByte, "._%+-": isLocal, "-_+/!@#%^*?~": isBare, "-_.~+/=": isBearer, "\"'`\\ ]": isGap, "\"'`": isQuote,
		".+/#$@~*)%\\": isNumberBefore, "@/:*%+=": isNumberAfter,
	} {
		for _, b := range []byte(bytes) {
			t[b] |= class
		}
	}
	return t
}()

func hasClass(c byte, class uint16) bool { return contentClasses[c]&class != 0 }

// run returns the end of the run of bytes of class that begins at i.
func (s *scan) run(i int, class uint16) int {
	for i < len(s.text) && hasClass(s.text[i], class) {
		i++
	}
	return i
}

// begins reports whether a word may begin at i: after a byte that is not part of a word, or after an escape.
func (s *scan) begins(i int) bool {
	if i <= s.done {
		return i == s.done
	}
	return !hasClass(s.text[i-1], isKey) || s.escaped(i)
}

// escaped reports whether an escape, such as \n, \u003c or %3D, ends at i.
func (s *scan) escaped(i int) bool {
	t := s.text[s.done:i]
	n := len(t)
	switch {
	case n >= 2 && t[n-2] == '\\' && bytes.IndexByte([]byte("nrtbf"), t[n-1]) >= 0:
		return true
	case n >= 6 && t[n-6] == '\\' && t[n-5] == 'u' && isHex(t[n-4]) && isHex(t[n-3]) && isHex(t[n-2]) && isHex(t[n-1]):
		return true
	}
	return n >= 3 && t[n-3] == '%' && isHex(t[n-2]) && isHex(t[n-1])
}
