package redact

import (
	"bytes"
	"slices"
	"strings"
)

// Limits for the recognition of secrets.
const (
	minSecret   = 8  // minimum length; shorter values are words, such as user_id and org-wide
	minPassword = 6  // minimum length after the name of a password
	minPlain    = 16 // length from which text without digits and separators is not an English word
	maxGap      = 24 // maximum length of the text between a name and its value
)

// A prefix is the known start of a key or id. It is not masked; the text after it is masked if it has at least min
// bytes.
type prefix struct {
	text string // in lower case
	min  int
	id   bool // prefix of the id of an account, a user or a request
}

var prefixes = func() (list []prefix) {
	for _, k := range keys {
		if k.errorMin > 0 {
			list = append(list, prefix{strings.ToLower(k.prefix), k.errorMin, false})
		}
	}
	for id := range strings.FieldsSeq("org- org_ proj_ user_ user- acct_ cus_ req_ request_ wrkspc_") {
		list = append(list, prefix{id, 8, true})
	}
	return list
}()

// A hint is the kind of secret value that a word announces.
type hint uint8

const (
	hintNone     hint = iota
	hintScheme        // Bearer
	hintName          // api_key, followed by a colon or an equals sign
	hintQuery         // key, followed by an equals sign
	hintPassword      // password, followed by a colon or an equals sign
	hintCookie        // Cookie
	hintProvided      // "provided", which retains the previous hint
)

// A name announces a value. If suffix is set, longer names that end with "_", "-" or "." and text also announce the
// value.
type name struct {
	text   string // in lower case
	hint   hint
	suffix bool
}

var names = func() (list []name) {
	for _, group := range []struct {
		hint   hint
		suffix bool
		texts  string
	}{
		{hintScheme, false, "bearer basic"},
		{hintName, true, "apikey accesskey secretkey accesstoken authtoken refreshtoken authorization"},
		{hintQuery, true, "key token signature credential"},
		{hintQuery, false, "sig"},
		{hintPassword, true, "password passwd secret clientsecret"},
		{hintPassword, false, "pwd"},
		{hintCookie, false, "cookie set-cookie"},
		{hintProvided, false, "provided"},
	} {
		for text := range strings.FieldsSeq(group.texts) {
			list = append(list, name{text, group.hint, group.suffix})
		}
	}
	return list
}()

// plain lists words that follow Bearer and Basic in sentences.
var plain = []string{
	"authentication", "authorization", "authenticated", "credential", "credentials", "realm", "security", "required", "expected",
	"provided", "supported",
}

// announced returns the hint of w. A name such as x_key or x_token has hintName; key or token alone does not.
func announced(w []byte) hint {
	for _, n := range namesBy[w[len(w)-1]|0x20] {
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

// gap reports whether g separates a word from its value, by a colon, by an equals sign or, after a scheme, by a
// space. after is the hint of the word.
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

// cookieFollows reports whether after, the text that follows the word cookie, shows that the word is a header name.
func cookieFollows(after []byte) bool {
	after = bytes.TrimLeft(after[:min(len(after), maxGap)], "\"'\\ ")
	return len(after) > 0 && after[0] == ':'
}

// isPlain reports whether v is one of plain, apart from dots at its end.
func isPlain(v []byte) bool {
	v = bytes.TrimRight(v, ".")
	return slices.ContainsFunc(plain, func(p string) bool { return equalFold(v, p) })
}

// prefixOf returns the length of the known prefix of w, a key or id; 0 if there is none.
func prefixOf(w []byte) (n int, id bool) {
	for _, p := range prefixesBy[w[0]|0x20] {
		if p.begins(w) {
			return len(p.text), p.id
		}
	}
	return 0, false
}

// Indexes of prefixes by first byte and of names by last byte. Most words are excluded by one look-up.
var prefixesBy, namesBy = func() (byFirst [256][]prefix, byLast [256][]name) {
	for _, p := range prefixes {
		byFirst[p.text[0]] = append(byFirst[p.text[0]], p)
	}
	for _, n := range names {
		last := n.text[len(n.text)-1]
		byLast[last] = append(byLast[last], n)
	}
	return byFirst, byLast
}()

// begins reports whether w is a secret with prefix p. For example, asia-northeast1 is not.
func (p prefix) begins(w []byte) bool {
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

// isTelegram reports whether w is the secret part of the token of a Telegram bot: AA and 33 more bytes, behind a digit and a colon, which
// may be percent-encoded.
func isTelegram(before, w []byte) bool {
	if len(w) != 35 || w[0] != 'A' || w[1] != 'A' {
		return false
	}
	n := len(before) - 1
	if n >= 2 && (string(before[n-2:]) == "%3A" || string(before[n-2:]) == "%3a") {
		n -= 2
	} else if n < 0 || before[n] != ':' {
		return false
	}
	if n < 1 || before[n-1] < '0' || before[n-1] > '9' {
		return false
	}
	for _, c := range w {
		if !hasClass(c, isKey) {
			return false
		}
	}
	return true
}

// isZhipu reports whether w is a key of Zhipu AI: 32 hex digits, a dot, and 16 letters and digits.
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

// isMail reports whether w is an email address. For example, openai@4.2.1 is not.
func isMail(w []byte) bool {
	at := bytes.IndexByte(w, '@')
	if at < 1 {
		return false
	}
	host := w[at+1:]
	top := host[bytes.LastIndexByte(host, '.')+1:]
	return len(top) >= 2 && len(top) < len(host) && isLetters(top)
}

func isLetters(w []byte) bool {
	return !slices.ContainsFunc(w, func(c byte) bool { return c|0x20 < 'a' || c|0x20 > 'z' })
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
