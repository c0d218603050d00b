package redact

import "bytes"

// A want is what the value behind a name must look like to be a secret.
type want uint8

const (
	wantNothing  want = iota
	wantPassword      // a quoted one, or one with a digit
	wantKey           // letters and digits, not short
	wantToken         // the same, longer and with a long word: many things are called a token
	wantHeader        // Authorization: a scheme may come first
	wantCookie        // the whole line
)

// secretNames are ends of names, without "_" and "-", in lower case. A plain token must be the whole name: next_page_token
// and max_tokens are none.
var secretNames = []struct {
	text  string
	want  want
	whole bool
}{
	{"apikey", wantKey, false},
	{"accesskey", wantKey, false},
	{"secretkey", wantKey, false},
	{"accountkey", wantKey, false},
	{"privatekey", wantKey, false},
	{"signingkey", wantKey, false},
	{"encryptionkey", wantKey, false},
	{"subscriptionkey", wantKey, false},
	{"servicerolekey", wantKey, false},
	{"accesstoken", wantKey, false},
	{"authtoken", wantKey, false},
	{"refreshtoken", wantKey, false},
	{"sessiontoken", wantKey, false},
	{"securitytoken", wantKey, false},
	{"bearertoken", wantKey, false},
	{"privatetoken", wantKey, false},
	{"apitoken", wantKey, false},
	{"openaikey", wantKey, false},
	{"azurekey", wantKey, false},
	{"storagekey", wantKey, false},
	{"bottoken", wantKey, false},
	{"idtoken", wantKey, false},
	{"githubtoken", wantKey, false},
	{"token", wantToken, true},
	{"amzsignature", wantToken, false},
	{"sig", wantToken, true},
	{"password", wantPassword, false},
	{"passwd", wantPassword, false},
	{"passphrase", wantPassword, false},
	{"pwd", wantPassword, false},
	{"dbpass", wantPassword, false},
	{"pgpass", wantPassword, false},
	{"smtppass", wantPassword, false},
	{"userpass", wantPassword, false},
	{"secret", wantPassword, false},
	{"authorization", wantHeader, false},
	{"cookie", wantCookie, false},
}

// secretNamesBy are the indexes of secretNames by their last letter.
var secretNamesBy = func() (by [256][]int) {
	for i, n := range secretNames {
		last := n.text[len(n.text)-1]
		by[last] = append(by[last], i)
		by[last-'a'+'A'] = by[last]
	}
	return by
}()

// secretNamesBefore are, by their last letter, the second and the third last one as bits of 5, which letters of both cases
// share. There may be a joint.
var secretNamesBefore = func() (before [256][2]uint32) {
	for _, n := range secretNames {
		for at := range 2 {
			b := &before[n.text[len(n.text)-1]][at]
			*b |= 1<<(n.text[len(n.text)-2-at]&31) | 1<<('_'&31) | 1<<('-'&31)
		}
	}
	for c := 'a'; c <= 'z'; c++ {
		before[c-'a'+'A'] = before[c]
	}
	return before
}()

const (
	maxName     = 40 // bytes that are looked at
	maxQuotes   = 8  // escaped ones, and spaces, between a name and its value
	minKeyValue = 12
	minToken    = 20
	maxURL      = 512
)

// named finds the secret value behind the separator at hand.
func (s *scan) named() (start, end int) {
	if bytes.HasPrefix(s.text[s.i:], []byte("://")) {
		return 0, 0
	}
	last := s.i - 1
	for last >= s.done && s.i-last <= maxQuotes && of(s.text[last], isGap) {
		last--
	}
	if last-2 < s.done {
		return 0, 0
	}
	if before := &secretNamesBefore[s.text[last]]; before[0]>>(s.text[last-1]&31)&1 == 0 || before[1]>>(s.text[last-2]&31)&1 == 0 {
		return 0, 0
	}
	want := s.name(last + 1)
	if want == wantNothing {
		return 0, 0
	}
	bare := len(bytes.Trim(s.text[last+1:s.i], " ")) == 0
	return s.value(want, bare, s.text[s.i] == ':')
}

// name is what the name that ends at end says of its value.
func (s *scan) name(end int) want {
	at := end
	for at > s.done && end-at < maxName && of(s.text[at-1], isNameByte) {
		at--
	}
	if at < end && at > s.done && s.text[at-1] == '\\' { // the n of \n
		at++
	}
	var buf [maxName]byte
	w := buf[:0]
	for _, c := range s.text[at:end] {
		switch {
		case c == '_' || c == '-':
		case 'A' <= c && c <= 'Z':
			w = append(w, c|0x20)
		default:
			w = append(w, c)
		}
	}
	for _, i := range secretNamesBy[s.text[end-1]] {
		if n := &secretNames[i]; string(w) == n.text || !n.whole && bytes.HasSuffix(w, []byte(n.text)) {
			return n.want
		}
	}
	return wantNothing
}

// value finds the secret behind the separator at hand. bare: no quote ends the name, so that it is none of JSON and its value
// may come without quotes.
func (s *scan) value(w want, bare, colon bool) (start, end int) {
	i := s.i + 1
	for i < len(s.text) && i-s.i < 3 && (s.text[i] == '=' || s.text[i] == '>') {
		i++
	}
	quote, slashes := byte(0), 0
	for n := i + maxQuotes; i < len(s.text) && i < n; i++ {
		c := s.text[i]
		if c == '\\' {
			slashes++
			continue
		}
		if of(c, isQuote) {
			quote = c
			i++
			break
		}
		if slashes > 0 || c != ' ' && c != '\t' {
			break
		}
	}
	if slashes > 0 && quote == 0 || quote == 0 && !bare || i >= len(s.text) {
		return 0, 0
	}
	if bytes.HasPrefix(s.text[i:], []byte(mask)) {
		return 0, 0
	}
	switch s.text[i] { // of a template; or the quote ended a string
	case '$', '{', '<', '%', ',', '}', ']', ':', ')', '[', '(':
		return 0, 0
	}
	switch w {
	case wantCookie:
		return s.cookieValue(i, colon)
	case wantHeader:
		return s.header(i, quote)
	case wantKey, wantToken:
		least := minKeyValue
		if w == wantToken {
			least = minToken
		}
		if !mixed(s.text[i:]) {
			return 0, 0
		}
		if end = s.valueEnd(i, quote, slashes); end-i < least || !mixed(s.text[i:end]) || w == wantToken && !dense(s.text[i:end]) || bytes.Contains(s.text[i:min(end, i+64)], []byte(mask)) {
			return 0, 0
		}
	default:
		if end = s.valueEnd(i, quote, slashes); end-i < minPassword || quote == 0 && !mixed(s.text[i:end]) || isType(s.text[i:end]) {
			return 0, 0
		}
	}
	return i, end
}

// valueEnd is where the value that begins at i, behind quote with so many backslashes before it, ends; i if it is code, or
// prose.
func (s *scan) valueEnd(i int, quote byte, slashes int) int {
	end := i
	if quote == 0 {
		if end = s.run(i, isBare); end < len(s.text) && bytes.IndexByte([]byte(".([{"), s.text[end]) >= 0 {
			return i
		}
		for n := end; end < len(s.text) && s.text[end] == '=' && end-n < 2; end++ { // the end of base64
		}
		return end
	}
	for {
		if end = s.run(end, isOpaque); end == len(s.text) {
			return end
		}
		c := s.text[end]
		switch {
		case of(c, isQuote):
			return end
		case c != '\\':
			return i
		}
		next := s.behindSlashes(end)
		switch {
		case next == len(s.text), of(s.text[next], isQuote) && next-end != 2*slashes+1:
			return end // the quote behind the value, escaped as the one before it
		case bytes.IndexByte([]byte("nrt"), s.text[next]) >= 0 || s.text[next] <= ' ':
			return i
		}
		end = next + 1
	}
}

// behindSlashes is where the backslashes that begin at i end.
func (s *scan) behindSlashes(i int) int {
	for i < len(s.text) && s.text[i] == '\\' {
		i++
	}
	return i
}

// types are what a schema says of a password.
var types = []string{"string", "number", "integer", "boolean", "object", "optional", "required", "password", "secret", "undefined", "hidden"}

func isType(v []byte) bool {
	for _, t := range types {
		if equalFold(v, t) {
			return true
		}
	}
	return bytes.Contains(v[:min(len(v), 64)], []byte(mask))
}

// header finds what a header Authorization says, behind its scheme.
func (s *scan) header(i int, quote byte) (start, end int) {
	start, least := i, 16
	for start < len(s.text) && start-i < 16 && of(s.text[start], isAlnum) {
		start++
	}
	if start > i && start+1 < len(s.text) && s.text[start] == ' ' && !isPlain(s.text[i:start]) {
		start, least = start+1, minSecret
	} else {
		start = i
	}
	if end = s.head(start, isBearer); end-start < least || !mixed(s.text[start:end]) && end-start < 16 || quote == 0 && end < len(s.text) && s.text[end] == '(' {
		return 0, 0
	}
	return start, s.run(end, isBearer)
}

// cookieValue finds all cookies up to the end of the line or the quote.
func (s *scan) cookieValue(i int, colon bool) (start, end int) {
	if !colon || bytes.IndexByte(s.text[i:min(len(s.text), i+64)], '=') < 1 {
		return 0, 0
	}
	for end = i; end < len(s.text) && (of(s.text[end], isOpaque) || s.text[end] == ' '); end++ {
	}
	if bytes.IndexByte(s.text[i:min(end, i+64)], '=') < 1 {
		return 0, 0
	}
	return i, end
}

// behindColon finds what is secret behind a colon, which the byte at hand follows.
func (s *scan) behindColon() (start, end int) {
	switch {
	case s.i == s.done || s.text[s.i-1] != ':':
		return 0, 0
	case s.text[s.i] == 'A':
		return s.telegram()
	default:
		return s.url()
	}
}

// url finds the password in the URL whose slashes begin here, or a path that is a secret.
func (s *scan) url() (start, end int) {
	rest := s.text[s.i:]
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		start = s.i + 2
	case bytes.HasPrefix(rest, []byte(`\/\/`)):
		start = s.i + 4
	default:
		return 0, 0
	}
	for _, host := range []string{"hooks.slack.com/services/", "hooks.slack.com/workflows/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/"} {
		if bytes.HasPrefix(s.text[start:], []byte(host)) {
			start += len(host)
			for end = start; end < len(s.text) && (of(s.text[end], isKey) || s.text[end] == '/'); end++ {
			}
			if end-start < 24 {
				return 0, 0
			}
			return start, end
		}
	}
	colon := 0
	for end = start; end < len(s.text) && end-start < maxURL && is(s.text[end], inUser); end++ {
		if s.text[end] == ':' && colon == 0 {
			colon = end + 1
		}
	}
	if end == len(s.text) || s.text[end] != '@' {
		return 0, 0
	}
	if colon > 0 {
		start = colon
	} else if !dense(s.text[start:end]) {
		return 0, 0
	}
	if start == end || bytes.IndexByte([]byte("${<*%"), s.text[start]) >= 0 {
		return 0, 0
	}
	return start, end
}

// telegram finds the token of a bot: its number, a colon, and the 35 bytes that begin here.
func (s *scan) telegram() (start, end int) {
	start = s.i
	if start-2 < s.done || s.text[start-2] < '0' || s.text[start-2] > '9' || !bytes.HasPrefix(s.text[start:], []byte("AA")) {
		return 0, 0
	}
	if end = s.run(start, isKey); end-start != 35 {
		return 0, 0
	}
	return start, end
}
