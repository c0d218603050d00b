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

// The kinds of what Contents masks.
const (
	Credentials = "credentials"  // keys by their form, and what stands behind names such as password and api_key
	PrivateKeys = "private_keys" // PEM
	Emails      = "emails"
	Phones      = "phones" // E.164, with separators or not; North American numbers without +1
	Cards       = "cards"  // payment cards: a known issuer, the right length and check digit
)

// Kinds are all of them.
var Kinds = []string{Credentials, PrivateKeys, Emails, Phones, Cards}

// Bounds of patterns.
const (
	MaxPatterns   = 32
	maxPatternLen = 1000
)

// A Config says what Contents masks.
type Config struct {
	// Mask are the kinds that are masked.
	Mask []string `yaml:"mask"`
	// Patterns are regular expressions of what is masked beside them, in RE2's syntax. They see the text of a JSON string
	// as it stands there, escapes included, and never match beyond it. A pattern that must have some letters, as EMP-\d{6}
	// has, costs hardly anything where they are not; [A-Z]{3}\d{6} takes ten times as long as all the rest.
	Patterns []string `yaml:"patterns"`
}

// NewRedactor returns what masks as cfg says. Its error names each key that is wrong.
func NewRedactor(cfg Config) (*Redactor, error) {
	c := &Redactor{}
	var errs []error
	for i, k := range cfg.Mask {
		if !slices.Contains(Kinds, k) {
			errs = append(errs, fmt.Errorf("mask[%d]: %q is none of %s", i, k, strings.Join(Kinds, ", ")))
		}
	}
	if len(cfg.Patterns) > MaxPatterns {
		errs = append(errs, fmt.Errorf("patterns: %d are too many; at most %d", len(cfg.Patterns), MaxPatterns))
	}
	for i, p := range cfg.Patterns {
		re, err := compilePattern(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("patterns[%d]: %w", i, err))
			continue
		}
		c.patterns = append(c.patterns, newPattern(re))
	}
	for kind, anchors := range anchorsOf {
		if slices.Contains(cfg.Mask, kind) {
			for b, check := range anchors {
				c.anchors[b] |= check
			}
		}
	}
	for b, check := range c.anchors {
		for prev := 0; check != 0 && prev < 256; prev++ {
			if check.after(byte(prev), byte(b)) != 0 {
				c.hot[b<<8|prev] = 1
			}
		}
	}
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
		return nil, fmt.Errorf("%q matches nothing at all, so it matches everywhere", p)
	}
	return re, nil
}

// Contents masks secrets and personal data in what bodies hold: messages, parameters, answers. Unlike Append, which is for
// error texts, it masks only what is surely one: contents are evidence, so ids of calls and requests, UUIDs, hashes and long
// numbers stay. It is safe for concurrent use.
//
// What was JSON stays JSON: a mask has no quote and no escape, replaces no part of an escape, and what may stand where
// JSON has a number becomes the number 0. Of a streamed answer, which comes in fragments, only what is whole in one
// fragment is seen. Masking what is masked changes nothing, but for what touched a secret, and patterns that match masks.
type Redactor struct {
	anchors  [256]check
	hot      [1 << 16]uint8 // 1 for a pair of bytes at whose second one to look; the first is the low byte
	patterns []pattern
}

// A check is what to look for at a byte.
type check uint16

const (
	checkPrefix check = 1 << iota // a separator that may end the prefix of a key
	checkLetter                   // a letter in the middle of a prefix that has no separator
	checkBearer
	checkName  // what may stand between a name and its value
	checkColon // what a colon stands before: in a URL, or in the token of a bot
	checkPEM
	checkFlag // the second hyphen of a flag
	checkMail
	checkCard
	checkPhone
	checkEscape // what may be that of an escape: something may begin behind it
)

// checkBegins are those of what begins at the byte.
const checkBegins = checkBearer | checkCard | checkPhone

// after is what of c is worth a look at b when it stands behind prev: a few percent of a text remain.
func (c check) after(prev, b byte) check {
	escape := prev == 'n' || prev == 'r' || prev == 't' // it may end one
	drop := func(which check, unless bool) {
		if !unless {
			c &^= which
		}
	}
	drop(checkPrefix, b == '~' && prev == 'Q' || b == '.' && isHex(prev) || slices.ContainsFunc(separatedBy[prev], func(k keyForm) bool { return k.prefix[len(k.prefix)-1] == b }))
	drop(checkLetter, slices.ContainsFunc(joinedBy[b], func(k keyForm) bool { return k.prefix[k.anchor-1] == prev }))
	drop(checkBearer, escape || !of(prev, isKey))
	drop(checkName, of(prev, isGap) || len(secretNamesBy[prev]) > 0)
	drop(checkColon, prev == ':')
	drop(checkPEM|checkFlag, prev == '-')
	drop(checkMail, of(prev, isKey))
	drop(checkCard, escape || !of(prev, isKey|isNumberBefore))
	drop(checkPhone, escape || !of(prev, isKey|isNumberBefore) || prev == '+')
	drop(checkEscape, prev == '\\' || b == '%')
	return c
}

// anchorsOf are, by kind, the rare bytes that everything of the kind has.
var anchorsOf = func() map[string]map[byte]check {
	credentials := map[byte]check{
		'-': checkPrefix | checkFlag, '_': checkPrefix, '.': checkPrefix, '~': checkPrefix, 'b': checkBearer, 'B': checkBearer, ':': checkName, '=': checkName,
		'/': checkColon, '\\': checkColon, 'A': checkColon,
	}
	for _, k := range joinedKeys {
		credentials[k.prefix[k.anchor]] |= checkLetter
	}
	cards, phones := map[byte]check{}, map[byte]check{}
	for c := byte('0'); c <= '9'; c++ {
		cards[c], phones[c] = checkCard, checkPhone
	}
	for _, c := range []byte("bfu%") {
		credentials[c], cards[c], phones[c] = credentials[c]|checkEscape, checkEscape, checkEscape
	}
	return map[string]map[byte]check{Credentials: credentials, PrivateKeys: {'-': checkPEM}, Emails: {'@': checkMail}, Cards: cards, Phones: phones}
}()

// Append appends text to dst, masked.
func (c *Redactor) Append(dst, text []byte) []byte {
	at := len(dst)
	return c.match(c.mask(dst, text), at)
}

// block is how many bytes are looked up before one of them is looked at: most are not, and a processor that need not guess
// which is several times as fast.
const block = 64

// mask appends text without what is of the kinds.
func (c *Redactor) mask(dst, text []byte) []byte {
	s := scan{text: text, anchors: &c.anchors}
	for base := 0; base < len(text); base = max(base+block, s.next&^(block-1)) {
		hot := c.marks(text, base)
		if base <= s.done && s.done < min(base+block, len(text)) { // no pair begins before it
			hot |= 1 << (s.done - base)
		}
		for ; hot != 0; hot &= hot - 1 {
			if s.i = base + bits.TrailingZeros64(hot); s.i < s.next {
				continue
			}
			start, end, with := s.look(c.anchors[text[s.i]])
			if end == 0 {
				continue
			}
			dst = append(append(dst, text[s.done:start]...), with...)
			s.done, s.next = end, end
			if end < min(base+block, len(text)) {
				hot |= 1 << (end - base)
			}
		}
	}
	return append(dst, text[s.done:]...)
}

// marks has a bit for each byte of the block at base that is hot.
func (c *Redactor) marks(text []byte, base int) (hot uint64) {
	if base == 0 || base+block > len(text) {
		for i, b := range text[base:min(base+block, len(text))] {
			if base+i > 0 {
				hot |= uint64(c.hot[uint16(b)<<8|uint16(text[base+i-1])]) << i
			}
		}
		return hot
	}
	for t, i := text[base-1:base+block], 0; i < block; i += 8 {
		pairs, last := binary.LittleEndian.Uint64(t[i:]), binary.LittleEndian.Uint16(t[i+7:])
		hot |= uint64(c.hot[uint16(pairs)]|c.hot[uint16(pairs>>8)]<<1|c.hot[uint16(pairs>>16)]<<2|c.hot[uint16(pairs>>24)]<<3|
			c.hot[uint16(pairs>>32)]<<4|c.hot[uint16(pairs>>40)]<<5|c.hot[uint16(pairs>>48)]<<6|c.hot[last]<<7) << i
	}
	return hot
}

// A scan goes through a text once.
type scan struct {
	text    []byte
	anchors *[256]check
	i       int // the byte at hand
	done    int // what is before it is copied or masked: nothing looks behind it
	next    int // there is nothing to be found before it
}

// look returns what to mask at the byte at hand, and by what; end 0: nothing.
func (s *scan) look(c check) (start, end int, with string) {
	if c&checkName != 0 {
		if start, end = s.named(); end > 0 {
			return start, end, mask
		}
	}
	if c&checkPrefix != 0 {
		if start, end = s.prefixed(); end > 0 {
			return start, end, mask
		}
	}
	if c&checkLetter != 0 {
		if start, end = s.joined(); end > 0 {
			return start, end, mask
		}
	}
	if c&checkBearer != 0 {
		if start, end = s.bearer(); end > 0 {
			return start, end, mask
		}
	}
	if c&checkColon != 0 {
		if start, end = s.behindColon(); end > 0 {
			return start, end, mask
		}
	}
	if c&checkPEM != 0 {
		if start, end = s.pem(); end > 0 {
			return start, end, mask
		}
	}
	if c&checkFlag != 0 && s.i > s.done && s.text[s.i-1] == '-' {
		if start, end = s.flag(); end > 0 {
			return start, end, mask
		}
	}
	if c&checkMail != 0 {
		if start, end = s.mail(); end > 0 {
			return start, end, mask + "@" + mask
		}
	}
	if c&checkEscape != 0 {
		return s.behindEscape()
	}
	if c&(checkCard|checkPhone) != 0 {
		return s.number(c)
	}
	return 0, 0, ""
}

// behindEscape looks behind the escape that the byte at hand may be of, if what begins there may not be known by the byte
// before it.
func (s *scan) behindEscape() (start, end int, with string) {
	i := s.i + 1
	switch s.text[s.i] {
	case 'u':
		i += 4
	case '%':
		i += 2
	}
	if i >= len(s.text) || s.anchors[s.text[i]]&checkBegins == 0 || !s.escaped(i) {
		return 0, 0, ""
	}
	s.i = i
	return s.look(s.anchors[s.text[i]] & checkBegins)
}

// More classes of bytes, beside those of Append.
const (
	isAlnum        uint16 = 1 << iota
	isKey                 // of a key: base64 for URLs
	isLocal               // of a mail address before the @
	isBare                // of a value without quotes
	isOpaque              // of a value that ends with the line, or at a quote
	isBearer              // of what stands behind Bearer
	isQuote               // of any language
	isNameByte            // of a name that is given a value
	isGap                 // between a name and the separator
	isNumberBefore        // which no number follows
	isNumberAfter         // which follows no number
)

var contentClasses = func() (t [256]uint16) {
	for c := range t {
		b := byte(c)
		if '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z' {
			t[c] |= isAlnum | isKey | isLocal | isBare | isBearer | isNameByte
		}
		if bytes.IndexByte([]byte("-_"), b) >= 0 {
			t[c] |= isKey | isNameByte
		}
		if bytes.IndexByte([]byte("._%+-"), b) >= 0 {
			t[c] |= isLocal
		}
		if bytes.IndexByte([]byte("-_+/!@#%^*?~"), b) >= 0 || b >= 0x80 {
			t[c] |= isBare
		}
		if bytes.IndexByte([]byte("-_.~+/="), b) >= 0 {
			t[c] |= isBearer
		}
		if bytes.IndexByte([]byte("\"'`\\ ]"), b) >= 0 {
			t[c] |= isGap
		}
		if bytes.IndexByte([]byte(".+/#$@~*)%\\"), b) >= 0 {
			t[c] |= isNumberBefore
		}
		if bytes.IndexByte([]byte("@/:*%+="), b) >= 0 {
			t[c] |= isNumberAfter
		}
		if bytes.IndexByte([]byte("\"'`"), b) >= 0 {
			t[c] |= isQuote
		} else if b > ' ' && b != 0x7f && b != '\\' {
			t[c] |= isOpaque
		}
	}
	return t
}()

func of(c byte, class uint16) bool { return contentClasses[c]&class != 0 }

// run is where the bytes of class that begin at i end.
func (s *scan) run(i int, class uint16) int {
	for i < len(s.text) && of(s.text[i], class) {
		i++
	}
	return i
}

// begins reports whether a word may begin at i: there is none before it, but for an escape.
func (s *scan) begins(i int) bool {
	if i <= s.done {
		return i == s.done
	}
	return !of(s.text[i-1], isKey) || s.escaped(i)
}

// escaped reports whether an escape ends at i: \n, \u003c, %3D.
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
