package redact

import (
	"bytes"
	"slices"
	"strings"
)

// Bounds of secrets.
const (
	minSecret   = 8  // shorter values are words: user_id, org-wide
	minPassword = 6  // after the name of a password
	minPlain    = 16 // minimum length without digits and separators that is not an English word
	maxGap      = 24 // between a name and its value
)

// A prefix begins a key or an id. It is kept; the text after it is masked if it has at least min bytes.
type prefix struct {
	text string // in lower case
	min  int
}

// keyPrefixes are the prefixes of keys, idPrefixes those of ids of accounts, users and requests.
var (
	keyPrefixes = func() (list []prefix) {
		for _, k := range keys {
			if k.errorMin > 0 {
				list = append(list, prefix{strings.ToLower(k.prefix), k.errorMin})
			}
		}
		return list
	}()
	idPrefixes = []prefix{
		{"org-", 8},
		{"org_", 8},
		{"proj_", 8},
		{"user_", 8},
		{"user-", 8},
		{"acct_", 8},
		{"cus_", 8},
		{"req_", 8},
		{"request_", 8},
		{"wrkspc_", 8},
	}
)

// A hint is the kind of value that a word announces.
type hint uint8

const (
	hintNone     hint = iota
	hintScheme        // Bearer
	hintName          // api_key, followed by a colon or an equals sign
	hintQuery         // key, followed by an equals sign
	hintPassword      // password, followed by a colon or an equals sign
	hintCookie        // Cookie
	hintProvided      // "provided", which keeps the previous hint
)

// names announce values. With suffix, a longer name that ends in "_", "-" or "." and the text announces the value too.
var names = []struct {
	text   string // in lower case
	hint   hint
	suffix bool
}{
	{"bearer", hintScheme, false},
	{"basic", hintScheme, false},
	{"apikey", hintName, true},
	{"accesskey", hintName, true},
	{"secretkey", hintName, true},
	{"accesstoken", hintName, true},
	{"authtoken", hintName, true},
	{"refreshtoken", hintName, true},
	{"authorization", hintName, true},
	{"key", hintQuery, true},
	{"token", hintQuery, true},
	{"signature", hintQuery, true},
	{"credential", hintQuery, true},
	{"sig", hintQuery, false},
	{"password", hintPassword, true},
	{"passwd", hintPassword, true},
	{"pwd", hintPassword, false},
	{"secret", hintPassword, true},
	{"clientsecret", hintPassword, true},
	{"cookie", hintCookie, false},
	{"set-cookie", hintCookie, false},
	{"provided", hintProvided, false},
}

// plain lists words that follow Bearer and Basic in sentences.
var plain = []string{
	"authentication", "authorization", "authenticated", "credential", "credentials", "realm", "security", "required", "expected",
	"provided", "supported",
}

// announced returns the hint of w. A longer name that ends in key or token is a name of its own.
func announced(w []byte) hint {
	for _, i := range namesBy[w[len(w)-1]|0x20] {
		n := &names[i]
		at := len(w) - len(n.text)
		if at < 0 || !equalFold(w[at:], n.text) {
			continue
		}
		switch {
		case at == 0:
			return n.hint
		case !n.suffix || bytes.IndexByte([]byte("_-."), w[at-1]) < 0:
		case n.hint == hintQuery:
			return hintName
		default:
			return n.hint
		}
	}
	return hintNone
}

// gap reports whether g, between a word with the hint after and its value, is a colon or an equals sign or, for a scheme,
// the required space.
func gap(g []byte, after hint) (colon, equals bool) {
	switch {
	case len(g) == 0:
		return false, false
	case after == hintScheme:
		return false, string(g) == "+" || string(g) == "%20" || len(bytes.Trim(g, " \t")) == 0
	}
	const quotes = "\"'\\"
	if bytes.IndexByte([]byte(quotes), g[0]) >= 0 && bytes.IndexByte([]byte(quotes+"/"), g[len(g)-1]) < 0 {
		return false, false // a number or null in JSON, which must stay valid
	}
	switch string(bytes.Trim(g, quotes+"/ ")) {
	case ":":
		return after != hintQuery, false
	case "=", "%3D", "%3d":
		return false, true
	}
	return false, false
}

// cookieFollows reports whether the text after the word cookie makes it a header name.
func cookieFollows(after []byte) bool {
	after = bytes.TrimLeft(after[:min(len(after), maxGap)], "\"'\\ ")
	return len(after) > 0 && after[0] == ':'
}

// isPlain reports whether v is in plain.
func isPlain(v []byte) bool {
	v = bytes.TrimRight(v, ".")
	return slices.ContainsFunc(plain, func(p string) bool { return equalFold(v, p) })
}

// prefixOf returns the length of the prefix of the key or id w, or 0.
func prefixOf(w []byte) (n int, id bool) {
	for _, i := range prefixesBy[w[0]|0x20] {
		if p := prefixAt(i); p.begins(w) {
			return len(p.text), i >= len(keyPrefixes)
		}
	}
	return 0, false
}

// prefixAt returns prefix i of keyPrefixes followed by idPrefixes.
func prefixAt(i int) *prefix {
	if i < len(keyPrefixes) {
		return &keyPrefixes[i]
	}
	return &idPrefixes[i-len(keyPrefixes)]
}

// Indexes of prefixes by their first byte and of names by their last byte, which exclude most words.
var (
	prefixesBy = func() (by [256][]int) {
		for i := range len(keyPrefixes) + len(idPrefixes) {
			c := prefixAt(i).text[0]
			by[c] = append(by[c], i)
		}
		return by
	}()
	namesBy = func() (by [256][]int) {
		for i, n := range names {
			c := n.text[len(n.text)-1]
			by[c] = append(by[c], i)
		}
		return by
	}()
)

// begins reports whether w is a secret with prefix p: asia-northeast1 is not.
func (p *prefix) begins(w []byte) bool {
	n := len(p.text)
	return len(w) >= n+p.min && equalFold(w[:n], p.text) && w[n] != '-' && looksRandom(w[n:])
}

// looksRandom reports whether w is not English words joined by hyphens, dots or underscores.
func looksRandom(w []byte) bool {
	joined := false
	for _, c := range w {
		if '0' <= c && c <= '9' || c == '*' {
			return true
		}
		joined = joined || c == '_' || c == '-' || c == '.'
	}
	return len(w) >= minPlain && !joined
}

// isZhipu reports whether w is a key of Zhipu: 32 hex digits, a dot, 16 letters and digits.
func isZhipu(w []byte) bool {
	if len(w) != 49 || w[32] != '.' {
		return false
	}
	for i, c := range w {
		if i < 32 && !isHex(c) || i > 32 && bytes.IndexByte([]byte("-_.@+*"), c) >= 0 {
			return false
		}
	}
	return true
}

// isMail reports whether w is a mail address: openai@4.2.1 is not.
func isMail(w []byte) bool {
	at := bytes.IndexByte(w, '@')
	if at < 1 {
		return false
	}
	host := w[at+1:]
	top := host[bytes.LastIndexByte(host, '.')+1:]
	if len(top) < 2 || len(top) == len(host) {
		return false
	}
	for _, c := range top {
		if c |= 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// equalFold reports whether w equals lower, which is in lower case, ignoring case.
func equalFold(w []byte, lower string) bool {
	if len(w) != len(lower) {
		return false
	}
	for i, c := range w {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
