package redact

import (
	"bytes"
	"slices"
)

const (
	numberMask = "0" // mask of a JSON number
	minCard    = 14
	maxDigits  = 19 // maximum number of digits of a card number
)

// digits is a number that consists of groups of digits.
type digits struct {
	digits [maxDigits]byte
	n      int
	groups [8]int // lengths of the groups
	g      int
	end    int
	seps   byte // separator of the groups, or 0
}

// digits reads the groups of digits at i, which have the same separator: a space, a hyphen or a dot. If the first
// group has the length of a card number, only that group is read. d.n is 0 if there are too many digits.
func (s *scan) digits(i int) (d digits) {
	for {
		from := i
		for i < len(s.text) && '0' <= s.text[i] && s.text[i] <= '9' {
			if d.n == maxDigits {
				return digits{}
			}
			d.digits[d.n] = s.text[i] - '0'
			d.n++
			i++
		}
		if i == from {
			return d // the last separator is not part of the number
		}
		if d.g == len(d.groups) {
			return digits{}
		}
		d.groups[d.g], d.end = i-from, i
		d.g++
		if i+1 >= len(s.text) || s.text[i] != ' ' && s.text[i] != '-' && s.text[i] != '.' || s.text[i+1] < '0' || s.text[i+1] > '9' {
			return d
		}
		if d.seps != 0 && d.seps != s.text[i] || d.seps == 0 && d.n >= minCard {
			return d
		}
		d.seps = s.text[i]
		i++
	}
}

// number matches a card or phone number that begins with the current digit, or with a plus or parenthesis before it.
func (s *scan) number(c check) (start, end int, with string) {
	start = s.i
	if s.i > s.done && c&(checkPhone|checkPlus) != 0 {
		switch s.text[s.i-1] {
		case '+':
			if !s.numberBegins(s.i - 1) {
				return 0, 0, ""
			}
			return s.i - 1, s.international(), mask
		case '(':
			if end = s.areaCode(); end > 0 && s.numberBegins(s.i-1) && s.numberEnds(end, '-') {
				return s.i - 1, end, mask
			}
		}
	}
	for s.next = s.i + 1; s.next < len(s.text) && '0' <= s.text[s.next] && s.text[s.next] <= '9'; s.next++ {
	}
	if !s.numberLike(s.next-start) || !s.numberBegins(start) {
		return 0, 0, ""
	}
	d := s.digits(start)
	switch {
	case c&checkCard != 0 && isCard(&d) && s.numberEnds(d.end, d.seps):
	case c&checkPhone != 0 && isNorthAmerican(&d) && s.numberEnds(d.end, d.seps):
	default:
		return 0, 0, ""
	}
	return start, d.end, s.numberMask(start, d.end)
}

// numberLike reports whether the n digits at the current byte may be a card or phone number, or its first group.
func (s *scan) numberLike(n int) bool {
	if n >= minCard {
		return n <= maxDigits
	}
	if s.next+1 >= len(s.text) || s.text[s.next+1] < '0' || s.text[s.next+1] > '9' {
		return false
	}
	switch gap := s.text[s.next]; n {
	case 1:
		return s.text[s.i] == '1' && (gap == '-' || gap == '.')
	case 3:
		return gap == '-' || gap == '.'
	case 4:
		return gap == '-' || gap == ' '
	}
	return false
}

// numberBegins reports whether a number may begin at i, because the text before it is not part of the same word,
// number or expression.
func (s *scan) numberBegins(i int) bool {
	if i <= s.done {
		return i == s.done
	}
	switch c := s.text[i-1]; {
	case c == ':': // not in a time, such as 12:30
		return i-1 == s.done || s.text[i-2] < '0' || s.text[i-2] > '9'
	case hasClass(c, isKey|isNumberBefore):
		return s.escaped(i)
	default:
		return true
	}
}

// numberEnds reports whether a number whose separator is seps may end at i, because the text after it is not part of
// the same word, number or expression. Another number may follow after a space, unless seps is a space.
func (s *scan) numberEnds(i int, seps byte) bool {
	if i == len(s.text) {
		return true
	}
	c := s.text[i]
	if c == '.' || c == '-' || c == ' ' { // punctuation
		return i+1 == len(s.text) || !hasClass(s.text[i+1], isAlnum) || c == ' ' && (seps != ' ' || s.text[i+1] < '0' || s.text[i+1] > '9')
	}
	return !hasClass(c, isKey|isNumberAfter)
}

// numberMask returns the mask for a number: 0 for a JSON number, else mask.
func (s *scan) numberMask(start, end int) string {
	if !isDigits(s.text[start:end]) {
		return mask
	}
	for start > s.done && bytes.IndexByte([]byte(" \t\r\n"), s.text[start-1]) >= 0 {
		start--
	}
	for end < len(s.text) && bytes.IndexByte([]byte(" \t\r\n"), s.text[end]) >= 0 {
		end++
	}
	before := start == 0 || bytes.IndexByte([]byte(":,["), s.text[start-1]) >= 0
	after := end == len(s.text) || bytes.IndexByte([]byte(",}]"), s.text[end]) >= 0
	if before && after {
		return numberMask
	}
	return mask
}

// isCard reports whether d is a card number, either ungrouped or grouped as on the card.
func isCard(d *digits) bool {
	if d.n < minCard || d.seps == '.' || d.g > 1 && !cardGroups(d) {
		return false
	}
	return isIssued(d) && luhn(d.digits[:d.n])
}

func cardGroups(d *digits) bool {
	switch d.n {
	case 16:
		return d.g == 4 && d.groups[0] == 4 && d.groups[1] == 4 && d.groups[2] == 4
	case 15, 14:
		return d.g == 3 && d.groups[0] == 4 && d.groups[1] == 6
	case 19:
		return d.g == 5 && d.groups[0] == 4 && d.groups[1] == 4 && d.groups[2] == 4 && d.groups[3] == 4
	}
	return false
}

// isIssued reports whether d has a prefix and length used by an issuer of cards.
func isIssued(d *digits) bool {
	p := 0
	for _, c := range d.digits[:4] {
		p = 10*p + int(c)
	}
	switch d.n {
	case 14: // Diners Club
		return p >= 3000 && p <= 3059 || p/100 == 36 || p/100 == 38
	case 15: // American Express
		return p/100 == 34 || p/100 == 37
	case 16: // Visa, Mastercard, Discover, JCB, UnionPay
		return p/1000 == 4 || p >= 5100 && p <= 5599 || p >= 2221 && p <= 2720 || p == 6011 || p >= 6440 && p <= 6599 || p >= 3528 && p <= 3589 || p/100 == 62
	case 19: // UnionPay
		return p/100 == 62
	}
	return false
}

func luhn(d []byte) bool {
	sum := 0
	for i, c := range d {
		n := int(c)
		if (len(d)-i)%2 == 0 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

// isNorthAmerican reports whether d has the form 415-555-2671, 415.555.2671 or 1-415-555-2671.
func isNorthAmerican(d *digits) bool {
	at := 0
	if d.g == 4 && d.groups[0] == 1 && d.digits[0] == 1 {
		at = 1
	}
	return (d.seps == '-' || d.seps == '.') && d.g == 3+at && d.n == 10+at && d.groups[at] == 3 && d.groups[at+1] == 3 &&
		d.digits[at] >= 2 && d.digits[at+3] >= 2
}

// areaCode returns the end of a number such as (415) 555-2671, whose area code begins at the current byte.
func (s *scan) areaCode() int {
	t := s.text[s.i-1:]
	if len(t) < 13 || t[4] != ')' || t[1] < '2' || t[1] > '9' || !isDigits(t[1:4]) {
		return 0
	}
	i := 5
	if t[i] == ' ' || t[i] == '-' {
		i++
	}
	if len(t) < i+8 || t[i] < '2' || !isDigits(t[i:i+3]) || t[i+3] != '-' && t[i+3] != ' ' && t[i+3] != '.' || !isDigits(t[i+4:i+8]) {
		return 0
	}
	return s.i - 1 + i + 8
}

func isDigits(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c < '0' || c > '9' })
}
