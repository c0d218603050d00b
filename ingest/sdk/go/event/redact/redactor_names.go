package redact

import (
	"bytes"
	"strings"
)

// A valueKind is the kind of secret that follows a name.
type valueKind uint8

const (
	valueNone     valueKind = iota
	valuePassword           // quoted, or contains a digit
	valueKey                // letters and digits, at least minKeyValue bytes
	valueToken              // like valueKey, but at least minToken bytes and containing a long word (see dense)
	valueHeader             // value of Authorization; may start with a scheme
	valueCookie             // cookies; end with the line
)

// secretNames are suffixes of the names of secrets, in lower case, without "_" and "-". If whole is set, the suffix
// must be the whole name, because next_page_token and max_tokens are not secrets.
var secretNames = []struct {
	kind  valueKind
	whole bool
	texts string
}{
	{valueKey, false, "apikey accesskey secretkey accountkey privatekey signingkey encryptionkey " +
		"subscriptionkey servicerolekey accesstoken authtoken refreshtoken sessiontoken " +
		"securitytoken bearertoken privatetoken apitoken openaikey azurekey storagekey bottoken " +
		"idtoken githubtoken"},
	{valueToken, true, "token sig"},
	{valueToken, false, "amzsignature"},
	{valuePassword, false, "password passwd passphrase pwd dbpass pgpass smtppass userpass secret"},
	{valueHeader, false, "authorization"},
	{valueCookie, false, "cookie"},
}

// A secretName is one name of secretNames.
type secretName struct {
	text  string
	kind  valueKind
	whole bool
}

// Indexes of secretNames by their last letter, in upper and lower case. secretNamesBefore contains the second to last
// and third to last letters as bit sets of their low 5 bits, which are the same in upper and lower case. Either
// letter may be "_" or "-" instead.
var secretNamesBy, secretNamesBefore = func() (by [256][]secretName, before [256][2]uint32) {
	for _, group := range secretNames {
		for text := range strings.FieldsSeq(group.texts) {
			n := len(text)
			for _, last := range []byte{text[n-1], text[n-1] - 'a' + 'A'} {
				by[last] = append(by[last], secretName{text, group.kind, group.whole})
				for at := range before[last] {
					before[last][at] |= 1<<(text[n-2-at]&31) | 1<<('_'&31) | 1<<('-'&31)
				}
			}
		}
	}
	return by, before
}()

const (
	maxName     = 40 // maximum number of bytes of a name that are examined
	maxQuotes   = 8  // maximum number of escaped quotes and spaces between a name and its value
	minKeyValue = 12
	minToken    = 20
	maxURL      = 512
)

// named matches the value after the separator at the current byte if the name before it announces a secret.
func (s *scan) named() (start, end int) {
	if bytes.HasPrefix(s.text[s.i:], []byte("://")) {
		return 0, 0
	}
	last := s.i - 1
	for last >= s.done && s.i-last <= maxQuotes && hasClass(s.text[last], isGap) {
		last--
	}
	if last-2 < s.done {
		return 0, 0
	}
	if before := &secretNamesBefore[s.text[last]]; before[0]>>(s.text[last-1]&31)&1 == 0 || before[1]>>(s.text[last-2]&31)&1 == 0 {
		return 0, 0
	}
	kind := s.nameKind(last + 1)
	if kind == valueNone {
		return 0, 0
	}
	bare := len(bytes.Trim(s.text[last+1:s.i], " ")) == 0
	return s.value(kind, bare, s.text[s.i] == ':')
}

// nameKind returns the kind of value announced by the name that ends at end.
func (s *scan) nameKind(end int) valueKind {
	at := end
	for at > s.done && end-at < maxName && hasClass(s.text[at-1], isNameByte) {
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
	for _, n := range secretNamesBy[s.text[end-1]] {
		if string(w) == n.text || !n.whole && bytes.HasSuffix(w, []byte(n.text)) {
			return n.kind
		}
	}
	return valueNone
}

// value matches the secret after the separator at the current byte. bare means that the name is unquoted, and so the
// value may be unquoted too. colon means that the separator is a colon.
func (s *scan) value(kind valueKind, bare, colon bool) (start, end int) {
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
		if hasClass(c, isQuote) {
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
	switch s.text[i] { // a placeholder of a template, or the quote ended a string
	case '$', '{', '<', '%', ',', '}', ']', ':', ')', '[', '(':
		return 0, 0
	}
	switch kind {
	case valueCookie:
		return s.cookieValue(i, colon)
	case valueHeader:
		return s.header(i, quote)
	case valueKey, valueToken:
		least := minKeyValue
		if kind == valueToken {
			least = minToken
		}
		if !mixed(s.text[i:]) {
			return 0, 0
		}
		if end = s.valueEnd(i, quote, slashes); end-i < least || !mixed(s.text[i:end]) || kind == valueToken && !dense(s.text[i:end]) || bytes.Contains(s.text[i:min(end, i+64)], []byte(mask)) {
			return 0, 0
		}
	default:
		if end = s.valueEnd(i, quote, slashes); end-i < minPassword || quote == 0 && !mixed(s.text[i:end]) || isType(s.text[i:end]) {
			return 0, 0
		}
	}
	return i, end
}

// valueEnd returns the end of the value at i. The value follows quote (0: none), which was preceded by slashes
// backslashes. For code and prose, valueEnd returns i.
func (s *scan) valueEnd(i int, quote byte, slashes int) int {
	end := i
	if quote == 0 {
		if end = s.run(i, isBare); end < len(s.text) && bytes.IndexByte([]byte(".([{"), s.text[end]) >= 0 {
			return i
		}
		for n := end; end < len(s.text) && s.text[end] == '=' && end-n < 2; end++ { // base64 padding
		}
		return end
	}
	for {
		if end = s.run(end, isOpaque); end == len(s.text) {
			return end
		}
		c := s.text[end]
		switch {
		case hasClass(c, isQuote):
			return end
		case c != '\\':
			return i
		}
		next := s.skipSlashes(end)
		switch {
		case next == len(s.text), hasClass(s.text[next], isQuote) && next-end != 2*slashes+1:
			return end // the closing quote, escaped like the opening quote
		case bytes.IndexByte([]byte("nrt"), s.text[next]) >= 0 || s.text[next] <= ' ':
			return i
		}
		end = next + 1
	}
}

// skipSlashes returns the index after the backslashes at i.
func (s *scan) skipSlashes(i int) int {
	for i < len(s.text) && s.text[i] == '\\' {
		i++
	}
	return i
}

// types are values that "password" has in schemas; they are not secrets.
var types = []string{"string", "number", "integer", "boolean", "object", "optional", "required", "password", "secret", "undefined", "hidden"}

func isType(v []byte) bool {
	for _, t := range types {
		if equalFold(v, t) {
			return true
		}
	}
	return bytes.Contains(v[:min(len(v), 64)], []byte(mask))
}

// header matches the value of an Authorization header after its scheme.
func (s *scan) header(i int, quote byte) (start, end int) {
	start, least := i, 16
	for start < len(s.text) && start-i < 16 && hasClass(s.text[start], isAlnum) {
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

// cookieValue matches all cookies up to a quote or the end of the line.
func (s *scan) cookieValue(i int, colon bool) (start, end int) {
	if !colon || bytes.IndexByte(s.text[i:min(len(s.text), i+64)], '=') < 1 {
		return 0, 0
	}
	for end = i; end < len(s.text) && (hasClass(s.text[end], isOpaque) || s.text[end] == ' '); end++ {
	}
	if bytes.IndexByte(s.text[i:min(end, i+64)], '=') < 1 {
		return 0, 0
	}
	return i, end
}

// afterColon matches a secret that begins at the current byte if the byte before it is a colon.
func (s *scan) afterColon() (start, end int) {
	switch {
	case s.i == s.done || s.text[s.i-1] != ':':
		return 0, 0
	case s.text[s.i] == 'A':
		return s.telegram()
	default:
		return s.url()
	}
}

// url matches the password, or a secret path, of the URL whose slashes begin at the current byte.
func (s *scan) url() (start, end int) {
	slashes := urlSlashes(s.text[s.i:])
	if slashes == 0 {
		return 0, 0
	}
	start = s.i + slashes
	for _, host := range []string{"hooks.slack.com/services/", "hooks.slack.com/workflows/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/"} {
		if bytes.HasPrefix(s.text[start:], []byte(host)) {
			start += len(host)
			for end = start; end < len(s.text) && (hasClass(s.text[end], isKey) || s.text[end] == '/'); end++ {
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

// telegram matches a Telegram bot token: a number, a colon, and 35 bytes, the first of which is the current byte.
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
