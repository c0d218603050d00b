// Package limit bounds what bodies contribute to rows and to memory.
package limit

import "strings"

// Bounds in bytes.
const (
	NameBytes   = 256      // of models, tools, response ids and finish reasons
	CallIDBytes = 8 << 10  // gateways put whole signatures into call ids
	BodyBytes   = 64 << 20 // of a body, joined and decompressed
)

// Text shortens s to n bytes without splitting a character.
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// Name returns s as a row stores it: at most NameBytes of valid UTF-8. A shortened name does not share memory with s.
func Name(s string) string {
	if len(s) > NameBytes {
		s = strings.Clone(Text(s, NameBytes))
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
