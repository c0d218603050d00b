package event

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// HashUser returns the hash of a user's name that hooks publish as the user label: 16 hex digits of HMAC-SHA256 with the key
// LLMTAP_SHAPE_KEY. That is enough to distinguish users, but not worth reversing without the key.
func HashUser(key []byte, name string) string { return keyedHash(key, name, 8) }

// HashAccount returns the hash of the text of wire.Account that hooks publish: 8 hex digits of HMAC-SHA256 with the same key. That is enough
// to distinguish the accounts of a conversation, and too little to recover an API key or to recognize one for certain.
func HashAccount(key []byte, account string) string { return keyedHash(key, account, 4) }

// keyedHash returns the first bytes of a hash in hex digits.
func keyedHash(key []byte, text string, bytes int) string {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return hex.EncodeToString(m.Sum(nil)[:bytes])
}
