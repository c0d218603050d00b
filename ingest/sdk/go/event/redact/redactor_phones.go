package redact

import "bytes"

const maxPhone = 15 // maximum number of digits of an E.164 number

// phoneLengths contains the minimum and maximum number of digits by country code, for country codes of two digits;
// other elements are zero. Source: the numbering plans of E.164.
var phoneLengths = [100][2]uint8{
	20: {11, 12}, 27: {11, 11}, 30: {12, 12}, 31: {11, 11}, 32: {10, 11}, 33: {11, 11}, 34: {11, 11}, 36: {10, 11}, 39: {9, 13},
	40: {11, 12}, 41: {11, 11}, 43: {9, 15}, 44: {11, 12}, 45: {10, 10}, 46: {9, 12}, 47: {10, 10}, 48: {11, 11}, 49: {9, 15},
	51: {10, 11}, 52: {12, 13}, 53: {10, 10}, 54: {12, 13}, 55: {12, 13}, 56: {11, 11}, 57: {10, 12}, 58: {12, 12},
	60: {10, 12}, 61: {11, 11}, 62: {10, 14}, 63: {11, 12}, 64: {10, 12}, 65: {10, 10}, 66: {10, 11},
	81: {11, 12}, 82: {10, 12}, 84: {11, 12}, 86: {12, 13},
	90: {12, 12}, 91: {12, 12}, 92: {11, 12}, 93: {11, 11}, 94: {11, 11}, 95: {9, 12}, 98: {12, 12},
}

// phoneCodes are the country codes of three digits; shortCodes are the country codes with short numbers.
const (
	phoneCodes = " 211 212 213 216 218 220 221 222 223 224 225 226 227 228 229 230 231 232 233 234 235 236 237 238 239 240 241 242 243 244 245 246 247 248 249" +
		" 250 251 252 253 254 255 256 257 258 260 261 262 263 264 265 266 267 268 269 290 291 297 298 299" +
		" 350 351 352 353 354 355 356 357 358 359 370 371 372 373 374 375 376 377 378 380 381 382 383 385 386 387 389 420 421 423" +
		" 500 501 502 503 504 505 506 507 508 509 590 591 592 593 594 595 596 597 598 599 670 672 673 674 675 676 677 678 679 680 681 682 683 685 686 687 688 689 690 691 692" +
		" 850 852 853 855 856 880 886 960 961 962 963 964 965 966 967 968 970 971 972 973 974 975 976 977 992 993 994 995 996 998 "
	shortCodes = " 298 299 352 358 376 "
)

// international returns the end of the longest number that begins here, after a +, or 0 if its country code or length
// is invalid. Numbers after a + are not always phone numbers: added lines of a diff may begin with dates, counts or
// IP addresses.
func (s *scan) international() (end int) {
	var number [maxPhone]byte
	trunk, dots, longest := 0, true, 0 // trunk prefix digits, as in +44 (0)20; all gaps are dots; length of the longest group
	for n, groups, i := 0, 0, s.i; ; {
		from := i
		for i < len(s.text) && '0' <= s.text[i] && s.text[i] <= '9' {
			if n == maxPhone {
				return end
			}
			number[n] = s.text[i]
			n++
			i++
		}
		groups++
		longest = max(longest, i-from)
		if groups == 2 && i-from == 1 && number[n-1] == '0' {
			trunk = 1
		}
		if i == from || groups > 2+trunk && i-from == 1 {
			return end
		}
		if plain := groups > 1 && dots && (groups == 2 || groups == 4 && longest <= 3); !plain && isPhone(number[:n], n-trunk, groups) && // 64.5 or 10.0.0.1
			(i == len(s.text) || !hasClass(s.text[i], isKey) && bytes.IndexByte([]byte("@=%*+"), s.text[i]) < 0 || s.text[i] == '-') {
			end = i
		}
		gap := s.phoneGap(i, groups)
		if gap == 0 {
			return end
		}
		dots = dots && gap == i+1 && s.text[i] == '.'
		i = gap
	}
}

// isPhone reports whether number may be a phone number. n is its number of digits without the trunk prefix.
func isPhone(number []byte, n, groups int) bool {
	if n < 9 || groups == 1 && n < 10 {
		return false
	}
	switch number[0] {
	case '1':
		return n == 11 && number[1] >= '2' && number[4] >= '2'
	case '7':
		return n == 11
	}
	if of := phoneLengths[10*(number[0]-'0')+number[1]-'0']; of[1] > 0 {
		return int(of[0]) <= n && n <= int(of[1])
	}
	code := [5]byte{' ', number[0], number[1], number[2], ' '}
	return bytes.Contains([]byte(phoneCodes), code[:]) && n <= 13 && (n > 9 || bytes.Contains([]byte(shortCodes), code[:]))
}

// phoneGap returns the start of the digits after the gap at i, or 0 if there is no gap. A gap is a space, a hyphen or
// a dot; the first digits after the country code may be in parentheses.
func (s *scan) phoneGap(i, groups int) int {
	t, n := s.text[i:], 0
	if groups == 2 && n < len(t) && t[n] == ')' {
		n++
	}
	if n < len(t) && bytes.IndexByte([]byte(" -."), t[n]) >= 0 {
		n++
	}
	if groups == 1 && n < len(t) && t[n] == '(' {
		n++
	}
	if n == 0 || n >= len(t) || t[n] < '0' || t[n] > '9' {
		return 0
	}
	return i + n
}
