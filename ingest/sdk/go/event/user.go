package event

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// HashUser returns the hash of a user's name that hooks publish as the user label: 16 hex digits of HMAC-SHA256 with the key
// LLMTAP_SHAPE_KEY. That is enough to distinguish users, but not worth reversing without the key.
func HashUser(key []byte, name string) string {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(name))
	return hex.EncodeToString(m.Sum(nil)[:8])
}
