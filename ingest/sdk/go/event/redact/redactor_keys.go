package redact

import (
	"slices"
	"strings"
)

// A key is a prefix of API keys and other credentials.
type key struct {
	prefix   string
	errorMin int // minimum length after the prefix in error texts, where case is ignored; 0: not masked by Append
	min      int // minimum length after the prefix in bodies; 0: not masked by a Redactor
	form     form
	anchor   int // index of the rarest byte of a prefix without separator
}

// A form is the format of a key after its prefix.
type form uint8

const (
	formDense form = iota // words of letters and digits, at least one of them long (see dense)
	formUpper             // exactly min upper-case letters and digits
	formHex               // exactly min digits of lower-case hex
	formRun               // at least min bytes of URL-safe base64
	formJWT               // three parts separated by dots
)

// keys are the known keys. A formDense key must look random, so sk-container-id-1 is not a key.
var keys = func() []key {
	list := []key{
		{"AKIA", 12, 16, formUpper, 1},
		{"ASIA", 12, 16, formUpper, 1},
		{"LTAI", 12, 12, formRun, 3},
		{"AKID", 32, 32, formRun, 1},
		{"AKLT", 40, 40, formRun, 1},
		{"ATATT3", 60, 60, formRun, 3},
		{"AIza", 8, 35, formRun, 2},
		{"ABSK", 16, 40, formRun, 3},
		{"dapi", 16, 32, formHex, 2},
		{"eyJ", 16, 40, formJWT, 2},
	}
	for _, dense := range []struct {
		errorMin, min int
		prefixes      string
	}{
		{8, 24, "pk- csk- xai- pplx- nvapi- gsk_ hf_ r8_ tgp_v1_ jina_ e2b_ vck_ lsv2_ api_org_ ya29."},
		{8, 20, "sk- rk- tvly- bedrock-api-key- GOCSPX- xoxb- xoxp- xapp- sk_ rk_ fw_"},
		{8, 30, "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_"},
		{16, 24, "sess-"},
		{8, 16, "glpat-"},
		{16, 40, "pypi-"},
		{8, 0, "pk_"},
		{16, 30, "npm_"},
		{24, 30, "AQ."},
		{20, 20, "glptt- gloas- sq0atp- sq0csp- xoxa- xoxe- xoxs- xoxc- xoxd- NRAK- HRKU- dckr_pat_ hvs. hvb."},
		{24, 24, "PMAK- whsec_ shpat_ shpss_ shpca_ shppa_ lin_api_ figd_ pscale_tkn_"},
		{30, 30, "rpa_ CCIPAT_ ntn_ glsa_ glc_ sntrys_ sbp_ dp.pt. dp.st."},
		{32, 32, "dop_v1_ doo_v1_ rubygems_"},
		{16, 16, "gldt- glrt-"},
		{40, 40, "pcsk_ SG."},
		{50, 50, "AGE-SECRET-KEY-"},
		{36, 36, "sgp_"},
	} {
		for p := range strings.FieldsSeq(dense.prefixes) {
			list = append(list, key{p, dense.errorMin, dense.min, formDense, 0})
		}
	}
	return list
}()

var separatedBy, separatedBefore, joinedBy = indexKeys()

// indexKeys returns indexes of the keys. separated contains the keys whose prefix ends with a separator, by the byte
// before the separator; before is a bit set of the bytes before that byte. joined contains the other keys, by their
// anchor.
func indexKeys() (separated [256][]key, before [256]uint64, joined [256][]key) {
	for _, k := range keys {
		n := len(k.prefix)
		switch last, prev := k.prefix[n-1], k.prefix[n-2]; {
		case k.min == 0:
		case last == '-' || last == '_' || last == '.':
			separated[prev] = append(separated[prev], k)
			before[prev] |= 1 << (k.prefix[n-3] & 63)
		default:
			joined[k.prefix[k.anchor]] = append(joined[k.prefix[k.anchor]], k)
		}
	}
	return separated, before, joined
}

// maxParts is the maximum number of parts, separated by dots, of a key.
const maxParts = 4

// prefixed matches a key whose prefix ends with the separator at the current byte.
func (s *scan) prefixed() (start, end int) {
	if s.i == s.done {
		return 0, 0
	}
	switch {
	case s.text[s.i] == '~':
		return s.azure()
	case s.i-32 >= s.done && isHex(s.text[s.i-1]) && isHex(s.text[s.i-4]) && isHex(s.text[s.i-8]) && isHex(s.text[s.i-32]) && s.text[s.i] == '.':
		if start, end = s.zhipu(); end > 0 {
			return start, end
		}
	}
	if prev := s.text[s.i-1]; s.i-2 < s.done || separatedBefore[prev]>>(s.text[s.i-2]&63)&1 == 0 {
		return 0, 0
	}
	for _, k := range separatedBy[s.text[s.i-1]] {
		at := s.i + 1 - len(k.prefix)
		if at < s.done || string(s.text[at:s.i+1]) != k.prefix || !s.begins(at) {
			continue
		}
		start, end = s.i+1, s.run(s.i+1, isKey)
		for n := 1; n < maxParts && s.text[s.i] == '.' && end+1 < len(s.text) && s.text[end] == '.' && hasClass(s.text[end+1], isKey); n++ {
			end = s.run(end+1, isKey)
		}
		if end-start < k.min || !dense(s.text[start:end]) {
			continue
		}
		return start, end
	}
	return 0, 0
}

// azure matches a client secret of Entra ID: three bytes, a digit, Q~ and 31 to 34 more bytes.
func (s *scan) azure() (start, end int) {
	start = s.i - 5
	if start < s.done || s.text[s.i-1] != 'Q' || s.text[s.i-2] < '0' || s.text[s.i-2] > '9' || s.run(start, isKey) != s.i || !s.begins(start) {
		return 0, 0
	}
	end = s.i + 1
	for end < len(s.text) && end-s.i < 64 && (hasClass(s.text[end], isKey) || s.text[end] == '.' || s.text[end] == '~') {
		end++
	}
	if n := end - s.i - 1; n < 31 || n > 34 {
		return 0, 0
	}
	return start, end
}

// zhipu matches a key of Zhipu AI: 32 digits of lower-case hex, a dot (the current byte), and 16 letters and digits.
func (s *scan) zhipu() (start, end int) {
	start, end = s.i-32, s.i+17
	if end > len(s.text) || isDigits(s.text[s.i+1:end]) || s.run(s.i+1, isAlnum) != end || end < len(s.text) && hasClass(s.text[end], isKey) {
		return 0, 0
	}
	if !allBytes(s.text[start:s.i], lowerHex) || !s.begins(start) {
		return 0, 0
	}
	return start, end
}

// joined matches a key whose prefix has its anchor at the current byte.
func (s *scan) joined() (start, end int) {
	for _, k := range joinedBy[s.text[s.i]] {
		at := s.i - k.anchor
		start = at + len(k.prefix)
		if at < s.done || start > len(s.text) || string(s.text[at:start]) != k.prefix || !s.begins(at) {
			continue
		}
		end = s.run(start, isKey)
		switch k.form {
		case formUpper:
			if !s.exactly(start, k.min, upperAlnum) {
				continue
			}
			end = start + k.min
		case formHex:
			if !s.exactly(start, k.min, lowerHex) {
				continue
			}
		case formJWT:
			if end = s.jwt(end); end-start < k.min {
				continue
			}
		case formDense, formRun:
			if end-start < k.min || !dense(s.text[start:end]) {
				continue
			}
		}
		return start, end
	}
	return 0, 0
}

// jwt returns the end of a JWT whose first part ends at i, or 0.
func (s *scan) jwt(i int) int {
	for range 2 {
		if i >= len(s.text) || s.text[i] != '.' {
			return 0
		}
		i = s.run(i+1, isKey)
	}
	return i
}

func lowerHex(c byte) bool   { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }
func upperAlnum(c byte) bool { return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' }

// exactly reports whether the word at i has n bytes and ok returns true for each.
func (s *scan) exactly(i, n int, ok func(byte) bool) bool {
	return len(s.text)-i >= n && allBytes(s.text[i:i+n], ok) && (i+n == len(s.text) || !hasClass(s.text[i+n], isKey))
}

func allBytes(w []byte, ok func(byte) bool) bool {
	return !slices.ContainsFunc(w, func(c byte) bool { return !ok(c) })
}

// denseRun is the minimum length of a word of letters and digits that is too long for a name.
const denseRun = 12

// dense reports whether w contains a word of at least denseRun letters and digits, with both among them.
func dense(w []byte) bool {
	n, digit, letter := 0, false, false
	for _, c := range w {
		switch {
		case '0' <= c && c <= '9':
			digit = true
		case hasClass(c, isAlnum):
			letter = true
		default:
			n, digit, letter = -1, false, false
		}
		if n++; n >= denseRun && digit && letter {
			return true
		}
	}
	return false
}
