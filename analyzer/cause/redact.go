package cause

import (
	"strings"
	"unicode/utf8"
)

// secretPrefixes start the tokens that providers echo in error texts and that name an account, a person or a key. What
// stands for a token in Redact is its prefix and "***", so that texts still group by what they say.
var secretPrefixes = []string{
	"sk-", "sk_", "pk-", "rk-", "gsk_", "xai-", "pplx-", "hf_", "nvapi-", "r8_", "fw_", "ghp_", "github_pat_", "aiza", "akia", "asia", "ya29.",
	"org-", "org_", "proj_", "user_", "user-", "acct_", "req_", "request_", "cus_", "eyj",
}

// minSecret is the shortest rest of a token after its prefix that is taken for a secret: words such as "user_id" and
// "org-wide" are none.
const minSecret = 8

// Redact makes an error text safe to store: keys, bearer tokens, account, user and request ids and e-mail addresses
// are replaced, and it is cut at 4 KiB. It is the text for humans; nothing else in it changes.
func Redact(text []byte) string {
	if len(text) > maxText {
		// A token that the cut would halve is dropped whole, or its rest might no longer look like a secret.
		end := maxText
		for end > 0 && maxText-end < 512 && inToken(text[end-1]) && inToken(text[end]) {
			end--
		}
		text = text[:end]
	}
	var b strings.Builder
	b.Grow(len(text))
	var next string // what must stand between the token before and a secret; "" when that token announces none
	gap := 0        // where the last token ended
	for i := 0; i < len(text); {
		if !inToken(text[i]) {
			b.WriteByte(text[i])
			i++
			continue
		}
		end := i
		for end < len(text) && inToken(text[end]) {
			end++
		}
		token := string(text[i:end])
		switch {
		case next != "" && len(token) >= minSecret && string(text[gap:i]) == next:
			b.WriteString("***")
		case isMail(token):
			b.WriteString("***@***")
		default:
			writeToken(&b, token)
		}
		next, gap, i = announces(token), end, end
	}
	s := strings.ToValidUTF8(b.String(), "?")
	if len(s) > maxText {
		end := maxText
		for !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	return s
}

// inToken reports whether c can stand in a key, an id or a mail address.
func inToken(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.' || c == '@' || c == '+' || c == '*'
}

// announces is what stands between token and the secret that follows it: "Bearer abc", "key=abc".
func announces(token string) string {
	switch strings.ToLower(token) {
	case "bearer", "basic":
		return " "
	case "key", "api_key", "api-key", "apikey", "x-api-key", "token", "access_token", "secret", "password", "sig", "signature":
		return "="
	}
	return ""
}

// isMail reports whether token is a mail address; openai@4.2.1 is none.
func isMail(token string) bool {
	name, host, ok := strings.Cut(strings.TrimRight(token, "."), "@")
	top := host[strings.LastIndexByte(host, '.')+1:]
	if !ok || name == "" || len(top) < 2 || len(top) == len(host) {
		return false
	}
	return strings.Trim(strings.ToLower(top), "abcdefghijklmnopqrstuvwxyz") == ""
}

// writeToken writes token, masked if it is a secret.
func writeToken(b *strings.Builder, token string) {
	lower := strings.ToLower(token)
	for _, p := range secretPrefixes {
		if rest, ok := strings.CutPrefix(lower, p); ok && len(rest) >= minSecret && rest[0] != '-' && looksRandom(rest) {
			b.WriteString(token[:len(p)])
			b.WriteString("***")
			return
		}
	}
	b.WriteString(token)
}

// looksRandom reports whether s is no English words joined by hyphens, dots or underscores.
func looksRandom(s string) bool {
	for i := range len(s) {
		if '0' <= s[i] && s[i] <= '9' || s[i] == '*' {
			return true
		}
	}
	return len(s) >= 16 && !strings.ContainsAny(s, "_-.")
}
