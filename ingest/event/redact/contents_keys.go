package redact

// A keyForm is a key that begins with a prefix.
type keyForm struct {
	prefix string
	min    int // bytes behind it
	anchor int // of joinedKeys: the index of its rarest byte
	form   form
}

// A form is what a key looks like behind its prefix.
type form uint8

const (
	formDense form = iota // words of letters and digits, one of them long
	formUpper             // exactly min capitals and digits
	formHex               // exactly min digits of lower-case hex
	formRun               // min or more of base64 for URLs
	formJWT               // three parts
)

// separatedKeys are those whose prefix ends in a separator. What stands behind looks random: sk-container-id-1 is none.
var separatedKeys = []keyForm{
	{prefix: "sk-", min: 20},
	{prefix: "rk-", min: 20},
	{prefix: "pk-", min: 24},
	{prefix: "sess-", min: 24},
	{prefix: "csk-", min: 24},
	{prefix: "xai-", min: 24},
	{prefix: "pplx-", min: 24},
	{prefix: "nvapi-", min: 24},
	{prefix: "tvly-", min: 20},
	{prefix: "bedrock-api-key-", min: 20},
	{prefix: "GOCSPX-", min: 20},
	{prefix: "glpat-", min: 16},
	{prefix: "gldt-", min: 16},
	{prefix: "glrt-", min: 16},
	{prefix: "glptt-", min: 20},
	{prefix: "gloas-", min: 20},
	{prefix: "sq0atp-", min: 20},
	{prefix: "sq0csp-", min: 20},
	{prefix: "AGE-SECRET-KEY-", min: 50},
	{prefix: "xoxb-", min: 20},
	{prefix: "xoxp-", min: 20},
	{prefix: "xoxa-", min: 20},
	{prefix: "xoxe-", min: 20},
	{prefix: "xoxs-", min: 20},
	{prefix: "xoxc-", min: 20},
	{prefix: "xoxd-", min: 20},
	{prefix: "xapp-", min: 20},
	{prefix: "pypi-", min: 40},
	{prefix: "PMAK-", min: 24},
	{prefix: "NRAK-", min: 20},
	{prefix: "HRKU-", min: 20},
	{prefix: "sk_", min: 20},
	{prefix: "rk_", min: 20},
	{prefix: "gsk_", min: 24},
	{prefix: "hf_", min: 24},
	{prefix: "r8_", min: 24},
	{prefix: "fw_", min: 20},
	{prefix: "tgp_v1_", min: 24},
	{prefix: "jina_", min: 24},
	{prefix: "e2b_", min: 24},
	{prefix: "vck_", min: 24},
	{prefix: "pcsk_", min: 40},
	{prefix: "rpa_", min: 30},
	{prefix: "sgp_", min: 36},
	{prefix: "CCIPAT_", min: 30},
	{prefix: "lsv2_", min: 24},
	{prefix: "api_org_", min: 24},
	{prefix: "ghp_", min: 30},
	{prefix: "gho_", min: 30},
	{prefix: "ghu_", min: 30},
	{prefix: "ghs_", min: 30},
	{prefix: "ghr_", min: 30},
	{prefix: "github_pat_", min: 30},
	{prefix: "npm_", min: 30},
	{prefix: "whsec_", min: 24},
	{prefix: "dop_v1_", min: 32},
	{prefix: "doo_v1_", min: 32},
	{prefix: "shpat_", min: 24},
	{prefix: "shpss_", min: 24},
	{prefix: "shpca_", min: 24},
	{prefix: "shppa_", min: 24},
	{prefix: "lin_api_", min: 24},
	{prefix: "ntn_", min: 30},
	{prefix: "glsa_", min: 30},
	{prefix: "glc_", min: 30},
	{prefix: "sntrys_", min: 30},
	{prefix: "dckr_pat_", min: 20},
	{prefix: "rubygems_", min: 32},
	{prefix: "sbp_", min: 30},
	{prefix: "figd_", min: 24},
	{prefix: "pscale_tkn_", min: 24},
	{prefix: "SG.", min: 40},
	{prefix: "hvs.", min: 20},
	{prefix: "hvb.", min: 20},
	{prefix: "ya29.", min: 24},
	{prefix: "AQ.", min: 30},
	{prefix: "dp.pt.", min: 30},
	{prefix: "dp.st.", min: 30},
}

// joinedKeys are those whose prefix has no separator.
var joinedKeys = []keyForm{
	{"AKIA", 16, 1, formUpper},
	{"ASIA", 16, 1, formUpper},
	{"LTAI", 12, 3, formRun},
	{"AKID", 32, 1, formRun},
	{"AKLT", 40, 1, formRun},
	{"ATATT3", 60, 3, formRun},
	{"AIza", 35, 2, formRun},
	{"ABSK", 40, 3, formRun},
	{"dapi", 32, 2, formHex},
	{"eyJ", 40, 2, formJWT},
}

var (
	separatedBy = func() (by [256][]keyForm) { // by the byte before the separator
		for _, k := range separatedKeys {
			c := k.prefix[len(k.prefix)-2]
			by[c] = append(by[c], k)
		}
		return by
	}()
	separatedBefore = func() (before [256]uint64) { // by the same byte, a bit for each before it
		for _, k := range separatedKeys {
			before[k.prefix[len(k.prefix)-2]] |= 1 << (k.prefix[len(k.prefix)-3] & 63)
		}
		return before
	}()
	joinedBy = func() (by [256][]keyForm) { // by their anchor
		for _, k := range joinedKeys {
			by[k.prefix[k.anchor]] = append(by[k.prefix[k.anchor]], k)
		}
		return by
	}()
)

// maxParts bounds how many parts a key with dots has.
const maxParts = 4

// prefixed finds a key whose prefix ends at the separator at hand.
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
		for n := 1; n < maxParts && s.text[s.i] == '.' && end+1 < len(s.text) && s.text[end] == '.' && of(s.text[end+1], isKey); n++ {
			end = s.run(end+1, isKey)
		}
		if end-start < k.min || !dense(s.text[start:end]) {
			continue
		}
		return start, end
	}
	return 0, 0
}

// azure finds a client secret of Entra ID: three bytes, a digit, Q~ and 31 to 34 more.
func (s *scan) azure() (start, end int) {
	start = s.i - 5
	if start < s.done || s.text[s.i-1] != 'Q' || s.text[s.i-2] < '0' || s.text[s.i-2] > '9' || s.run(start, isKey) != s.i || !s.begins(start) {
		return 0, 0
	}
	end = s.i + 1
	for end < len(s.text) && end-s.i < 64 && (of(s.text[end], isKey) || s.text[end] == '.' || s.text[end] == '~') {
		end++
	}
	if n := end - s.i - 1; n < 31 || n > 34 {
		return 0, 0
	}
	return start, end
}

// zhipu finds a key of Zhipu AI: 32 digits of lower-case hex, the dot at hand, and 16 letters and digits.
func (s *scan) zhipu() (start, end int) {
	start, end = s.i-32, s.i+17
	if end > len(s.text) || isDigits(s.text[s.i+1:end]) || s.run(s.i+1, isAlnum) != end || end < len(s.text) && of(s.text[end], isKey) {
		return 0, 0
	}
	for _, c := range s.text[start:s.i] {
		if !lowerHex(c) {
			return 0, 0
		}
	}
	if !s.begins(start) {
		return 0, 0
	}
	return start, end
}

// joined finds a key in whose prefix the letter at hand is.
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

// jwt is where the token whose first part ends at i ends; 0 if it is none.
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

// exactly reports whether n bytes that are ok begin at i, and then a word ends.
func (s *scan) exactly(i, n int, ok func(byte) bool) bool {
	if len(s.text)-i < n {
		return false
	}
	for _, c := range s.text[i : i+n] {
		if !ok(c) {
			return false
		}
	}
	return i+n == len(s.text) || !of(s.text[i+n], isKey)
}

// denseRun is how long a word of letters and digits is that no name has.
const denseRun = 12

// dense reports whether w holds a long word of letters and digits.
func dense(w []byte) bool {
	n, digit, letter := 0, false, false
	for _, c := range w {
		switch {
		case '0' <= c && c <= '9':
			digit = true
		case of(c, isAlnum):
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
