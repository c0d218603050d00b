// Package limit defines size limits for the data from bodies that is stored in rows and in memory.
package limit

import "strings"

// Limits in bytes.
const (
	NameBytes   = 256      // names of models and tools, response ids and finish reasons
	CallIDBytes = 8 << 10  // call ids: gateways put whole signatures into them
	BodyBytes   = 64 << 20 // joined and decompressed bodies
)

// Text returns at most the first n bytes of s, without splitting a character.
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// Name returns s as stored in rows: at most NameBytes of valid UTF-8. A shortened name does not share memory with s.
func Name(s string) string {
	if len(s) > NameBytes {
		s = strings.Clone(Text(s, NameBytes))
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
