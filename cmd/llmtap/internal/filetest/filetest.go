// Package filetest reads and writes the files of tests.
package filetest

import (
	"os"
	"path/filepath"
	"testing"
)

// Write writes a file, in a directory that it makes.
func Write[T ~string | ~[]byte](t testing.TB, path string, text T) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
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
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
