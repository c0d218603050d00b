package secret

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// hashPrefix begins a token of which the configuration contains only the hash.
const hashPrefix = "sha256:"

// Tokens are the tokens that a listener accepts. The zero value has none.
type Tokens struct {
	sums  [][sha256.Size]byte
	plain string // the first that is not given as a hash
}

// ReadTokens returns the tokens in value, separated by spaces, or, if file is set, those in its lines; a line that begins with # is a
// comment. A token is a text, or sha256: and the SHA-256 of one in hex, for a configuration that others may read. Several are
// accepted, so that a token can be replaced while clients still send the old one. A file without tokens is an error. key is the
// configuration key of file.
func ReadTokens(value, key, file string) (Tokens, error) {
	texts := strings.Fields(value)
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return Tokens{}, fmt.Errorf("read %s: %w", key, err)
		}
		texts = nil
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				texts = append(texts, line)
			}
		}
		if len(texts) == 0 {
			return Tokens{}, fmt.Errorf("%s %s is empty", key, file)
		}
	}
	var t Tokens
	for _, text := range texts {
		sum := sha256.Sum256([]byte(text))
		if hash, ok := strings.CutPrefix(text, hashPrefix); ok {
			decoded, err := hex.DecodeString(hash)
			if err != nil || copy(sum[:], decoded) != len(decoded) || len(decoded) != len(sum) {
				return Tokens{}, fmt.Errorf("%s: a token begins with %s, but 64 hex digits do not follow; llmtap token new prints a token and its hash",
					strings.TrimSuffix(key, "_file"), hashPrefix)
			}
		} else if t.plain == "" {
			t.plain = text
		}
		t.sums = append(t.sums, sum)
	}
	return t, nil
}

// Required reports whether there are tokens.
func (t Tokens) Required() bool { return len(t.sums) > 0 }

// Accept reports whether sent is one of the tokens. The time it takes does not depend on sent.
func (t Tokens) Accept(sent string) bool {
	sum := sha256.Sum256([]byte(sent))
	found := 0
	for i := range t.sums {
		found |= subtle.ConstantTimeCompare(sum[:], t.sums[i][:])
	}
	return found == 1
}

// Plain returns the first token that is not given as a hash, for a client that sends it, or "".
func (t Tokens) Plain() string { return t.plain }

// Key returns a key that only those who know the tokens can compute, the same in all processes, or nil if the configuration
// contains only hashes. It changes with the tokens.
func (t Tokens) Key(purpose string) []byte {
	if t.plain == "" {
		return nil
	}
	h := hmac.New(sha256.New, []byte(t.plain))
	h.Write([]byte(purpose))
	for _, sum := range t.sums {
		h.Write(sum[:])
	}
	return h.Sum(nil)
}

// NewToken returns a random token and its hash, as ReadTokens reads them.
func NewToken() (token, hash string) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	token = base64.RawURLEncoding.EncodeToString(random[:])
	return token, Hash(token)
}

// Hash returns the hash of a token, as ReadTokens reads it.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(sum[:])
}
