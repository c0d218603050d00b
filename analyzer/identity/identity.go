// Package identity derives the ids of rows from their subject, so that a row keeps its id if its event is read again.
package identity

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// A Sum is the SHA-256 hash of a list of strings.
type Sum [sha256.Size]byte

// Of returns the hash of parts. Each part is hashed with its length, so no two lists have the same input.
func Of(parts ...string) Sum {
	n := 0
	for _, p := range parts {
		n += 8 + len(p)
	}
	b := make([]byte, 0, n)
	for _, p := range parts {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	return sha256.Sum256(b)
}

// Key returns the first 128 bits of s, for use in maps.
func (s *Sum) Key() [16]byte { return [16]byte(s[:16]) }

// ID returns the first 128 bits of s as 32 hex digits.
func (s *Sum) ID() string { return hex.EncodeToString(s[:16]) }

// Fingerprint returns the first 64 bits of s as 16 hex digits.
func (s *Sum) Fingerprint() string { return hex.EncodeToString(s[:8]) }
