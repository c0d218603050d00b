// Package filetest reads and writes the files of tests.
package filetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Write writes a file, in a directory that it makes.
func Write[T ~string | ~[]byte](t testing.TB, path string, text T) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

// Temp writes a file that exists until the test ends, and returns its path.
func Temp[T ~string | ~[]byte](t testing.TB, name string, text T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	Write(t, path, text)
	return path
}

// Read returns the content of a file.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(path))(t)
}
