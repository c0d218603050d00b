package redact

import (
	"bytes"
	"slices"
)

// Bounds on what is taken for a secret.
const (
	minSecret   = 8  // shorter is a word: user_id, org-wide
	minPassword = 6  // behind the name of a password
	minPlain    = 16 // so long without a digit or a joint is no English word
	maxGap      = 24 // between a name and its value
)

// A prefix begins a key or an id; it stays, and what follows it goes if it is min bytes long.
type prefix struct {
	text string // in lower case
	min  int
}

// keyPrefixes begin keys, idPrefixes ids of accounts, people and requests.
var (
	keyPrefixes = []prefix{
		{"sk-", 8},
		{"sk_", 8},
		{"pk-", 8},
		{"pk_", 8},
		{"rk-", 8},
		{"rk_", 8},
		{"sess-", 16},
		{"gsk_", 8},
		{"csk-", 8},
		{"xai-", 8},
		{"pplx-", 8},
		{"hf_", 8},
		{"api_org_", 8},
		{"nvapi-", 8},
		{"r8_", 8},
		{"fw_", 8},
		{"tgp_v1_", 8},
		{"tvly-", 8},
		{"jina_", 8},
		{"e2b_", 8},
		{"vck_", 8},
		{"lsv2_", 8},
		{"aiza", 8},
		{"aq.", 24},
		{"ya29.", 8},
		{"gocspx-", 8},
		{"akia", 12},
		{"asia", 12},
		{"absk", 16},
		{"bedrock-api-key-", 8},
		{"dapi", 16},
		{"ghp_", 8},
		{"gho_", 8},
		{"ghu_", 8},
		{"ghs_", 8},
		{"ghr_", 8},
		{"github_pat_", 8},
		{"glpat-", 8},
		{"xoxb-", 8},
		{"xoxp-", 8},
		{"xapp-", 8},
		{"npm_", 16},
		{"pypi-", 16},
		{"eyj", 16},
	}
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

// A sort is what a word says of the value that follows it.
type sort uint8

const (
	sayNothing  sort = iota
	sayScheme        // Bearer
	sayName          // api_key, with a colon or an equals sign
	sayQuery         // key, with an equals sign
	sayPassword      // password, with a colon or an equals sign
	sayCookie        // Cookie
	sayProvided      // "provided" keeps what was said
)

// names say what follows them. One that is an end also says it at the end of a longer name, behind "_", "-" or ".".
var names = []struct {
	text string // in lower case
	said sort
	end  bool
}{
	{"bearer", sayScheme, false},
	{"basic", sayScheme, false},
	{"apikey", sayName, true},
	{"accesskey", sayName, true},
	{"secretkey", sayName, true},
	{"accesstoken", sayName, true},
	{"authtoken", sayName, true},
	{"refreshtoken", sayName, true},
	{"authorization", sayName, true},
	{"key", sayQuery, true},
	{"token", sayQuery, true},
	{"signature", sayQuery, true},
	{"credential", sayQuery, true},
	{"sig", sayQuery, false},
	{"password", sayPassword, true},
	{"passwd", sayPassword, true},
	{"pwd", sayPassword, false},
	{"secret", sayPassword, true},
	{"clientsecret", sayPassword, true},
	{"cookie", sayCookie, false},
	{"set-cookie", sayCookie, false},
	{"provided", sayProvided, false},
}

// plain words follow Bearer and Basic in sentences.
var plain = []string{
	"authentication", "authorization", "authenticated", "credential", "credentials", "realm", "security", "required", "expected",
	"provided", "supported",
}

// announced is what w says of the value that follows it. A longer name that ends in key or token is a name by itself.
func announced(w []byte) sort {
	for _, i := range namesBy[w[len(w)-1]|0x20] {
		n := &names[i]
		at := len(w) - len(n.text)
		if at < 0 || !equalFold(w[at:], n.text) {
			continue
		}
		switch {
		case at == 0:
			return n.said
		case !n.end || bytes.IndexByte([]byte("_-."), w[at-1]) < 0:
		case n.said == sayQuery:
			return sayName
		default:
			return n.said
		}
	}
	return sayNothing
}

// gap reports what stands between a word that says said and its value: a colon or an equals sign, or, for a scheme,
// the space that it wants.
func gap(g []byte, said sort) (colon, equals bool) {
	switch {
	case len(g) == 0:
		return false, false
	case said == sayScheme:
		return false, string(g) == "+" || string(g) == "%20" || len(bytes.Trim(g, " \t")) == 0
	}
	const quotes = "\"'\\"
	if bytes.IndexByte([]byte(quotes), g[0]) >= 0 && bytes.IndexByte([]byte(quotes+"/"), g[len(g)-1]) < 0 {
		return false, false // a number or null, and JSON that must stay JSON
	}
	switch string(bytes.Trim(g, quotes+"/ ")) {
	case ":":
		return said != sayQuery, false
	case "=", "%3D", "%3d":
		return false, true
	}
	return false, false
}

// cookieFollows reports whether what follows the word cookie makes it the name of a header.
func cookieFollows(after []byte) bool {
	after = bytes.TrimLeft(after[:min(len(after), maxGap)], "\"'\\ ")
	return len(after) > 0 && after[0] == ':'
}

// isPlain reports whether v is a word of a sentence.
func isPlain(v []byte) bool {
	v = bytes.TrimRight(v, ".")
	return slices.ContainsFunc(plain, func(p string) bool { return equalFold(v, p) })
}

// prefixOf is how long the prefix of the key or the id in w is; 0 if w is none.
func prefixOf(w []byte) (n int, id bool) {
	for _, i := range prefixesBy[w[0]|0x20] {
		if p := prefixAt(i); p.begins(w) {
			return len(p.text), i >= len(keyPrefixes)
		}
	}
	return 0, false
}

// prefixAt is the prefix i of those of keys and then of ids.
func prefixAt(i int) *prefix {
	if i < len(keyPrefixes) {
		return &keyPrefixes[i]
	}
	return &idPrefixes[i-len(keyPrefixes)]
}

// Most words share no letter with those that are known: prefixes by their first byte, names by their last one.
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

// begins reports whether w is a secret that begins with p: asia-northeast1 is none.
func (p *prefix) begins(w []byte) bool {
	n := len(p.text)
	return len(w) >= n+p.min && equalFold(w[:n], p.text) && w[n] != '-' && looksRandom(w[n:])
}

// looksRandom reports whether w is no English words joined by hyphens, dots or underscores.
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

// isMail reports whether w is a mail address; openai@4.2.1 is none.
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

// equalFold reports whether w is lower, which is in lower case, but for the case of its letters.
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
