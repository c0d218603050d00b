package redact

import (
	"slices"
	"strings"
)

// A check is a bit set of matchers to run at a byte.
type check uint16

const (
	checkPrefix check = 1 << iota // separator at the end of a key prefix
	checkLetter                   // letter in a key prefix without separator
	checkBearer
	checkName  // separator between a name and its value
	checkColon // byte after the colon of a URL or a bot token
	checkPEM
	checkFlag // second hyphen of a flag
	checkMail
	checkCard
	checkPhone
	checkPlus   // phone number after a plus
	checkEscape // byte of an escape; text may begin after it
)

// checkBegins are the checks for text that begins at the byte.
const checkBegins = checkBearer | checkCard | checkPhone

// index sets the tables of c from its anchors.
func (c *Redactor) index() {
	for prev := range 256 {
		var possible check
		for far := range 256 {
			can := after(byte(far), byte(prev))
			possible |= can
			c.before[prev][far%64] |= can
		}
		for b, check := range c.anchors {
			if check &= possible; check != 0 && check.follows(byte(prev), byte(b)) {
				c.hot[b<<8|prev] = 1
			}
		}
		for check, bytes := range following {
			for i, set := range bytes {
				set, not := strings.CutPrefix(set, "^")
				if not != (strings.IndexByte(set, byte(prev)) >= 0) {
					c.next[i][prev] |= check
				}
			}
		}
	}
}

// after returns the checks that can succeed after the bytes far and prev.
func after(far, prev byte) check {
	c := checkLetter | checkEscape
	add := func(which check, ok bool) {
		if ok {
			c |= which
		}
	}
	gap, escape := hasClass(prev, isGap), prev == 'n' || prev == 'r' || prev == 't' // prev may end an escape
	add(checkPrefix, prev == 'Q' || isHex(prev) && isHex(far) || separatedBefore[prev]>>(far&63)&1 != 0)
	add(checkBearer, escape || !hasClass(prev, isKey))
	add(checkName, gap && (hasClass(far, isGap) || len(secretNamesBy[far]) > 0) || !gap && secretNamesBefore[prev][0]>>(far&31)&1 != 0)
	add(checkColon, prev == ':')
	add(checkPEM|checkFlag, prev == '-')
	add(checkMail, hasClass(prev, isKey))
	add(checkCard|checkPhone, escape || !hasClass(prev, isKey|isNumberBefore))
	add(checkPlus, prev == '+')
	return c
}

// follows reports whether one of the checks of c can succeed at b after prev, if it can after prev.
func (c check) follows(prev, b byte) bool {
	if !(b == '~' && prev == 'Q' || b == '.' && isHex(prev) || slices.ContainsFunc(separatedBy[prev], func(k key) bool { return k.prefix[len(k.prefix)-1] == b })) {
		c &^= checkPrefix
	}
	if !slices.ContainsFunc(joinedBy[b], func(k key) bool { return k.prefix[k.anchor-1] == prev }) {
		c &^= checkLetter
	}
	if prev != '\\' && b != '%' {
		c &^= checkEscape
	}
	return c != 0
}

// following contains, for each check, the bytes that can be next after the byte to check, and those that can be second. A ^ stands
// before the bytes that cannot.
var following = func() map[check][2]string {
	const (
		digits = "0123456789"
		hex    = digits + "abcdefABCDEF"
		alnum  = digits + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		key    = alnum + "-_.~"
	)
	return map[check][2]string{
		checkPrefix: {key, key}, checkLetter: {key, key}, checkBearer: {"eE", "aA"}, checkName: {"^${<%,}]:)[(\n\r", "^"},
		checkColon: {"/A", "^"}, checkPEM: {"-", "-"}, checkFlag: {alnum, alnum + "-_"}, checkMail: {alnum, "^"},
		checkCard: {digits, digits}, checkPhone: {digits + "-.", digits}, checkPlus: {digits + " -.(", digits + " -.("}, checkEscape: {hex, "^"},
	}
}()

// anchorsOf maps each kind to the rare bytes that its matches contain.
var anchorsOf = func() map[string]map[byte]check {
	credentials := map[byte]check{
		'-': checkPrefix | checkFlag, '_': checkPrefix, '.': checkPrefix, '~': checkPrefix, 'b': checkBearer, 'B': checkBearer, ':': checkName, '=': checkName,
		'/': checkColon, '\\': checkColon, 'A': checkColon,
	}
	for b, keys := range joinedBy {
		if len(keys) > 0 {
			credentials[byte(b)] |= checkLetter
		}
	}
	cards, phones := map[byte]check{}, map[byte]check{}
	for c := byte('0'); c <= '9'; c++ {
		cards[c], phones[c] = checkCard, checkPhone|checkPlus
	}
	for _, c := range []byte("bfu%") {
		credentials[c], cards[c], phones[c] = credentials[c]|checkEscape, checkEscape, checkEscape
	}
	return map[string]map[byte]check{Credentials: credentials, PrivateKeys: {'-': checkPEM}, Emails: {'@': checkMail}, Cards: cards, Phones: phones}
}()
