// Package recordedtest reads the recorded traffic and error texts that tests share. The files are not part of the
// repository; tests that need them are skipped in a plain clone.
package recordedtest

import (
	"bufio"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The files, one JSON object per line.
const (
	Exchanges     = "exchanges.jsonl.gz"
	Conversations = "conversations.jsonl.gz"
	Errors        = "errors.jsonl"
)

// maxLine is the maximum length of a line in bytes.
const maxLine = 64 << 20

// Path returns the path of a file of recorded traffic and skips the test if the file is missing.
func Path(tb testing.TB, name string) string {
	tb.Helper()
	return Shared(tb, "data", name)
}

// Shared returns the path of a file in the folder shared, which is next to the repository, and skips the test if it is missing.
func Shared(tb testing.TB, folder, name string) string {
	tb.Helper()
	root := must.Get(os.Getwd())(tb)
	for !exists(filepath.Join(root, "cmd", "llmtap")) {
		if root == filepath.Dir(root) {
			tb.Fatal("the test does not run inside the repository")
		}
		root = filepath.Dir(root)
	}
	path := filepath.Join(root, "..", "shared", folder, name)
	if !exists(path) {
		tb.Skipf("SKIPPED: there is no ../shared/%s/%s, next to the repository", folder, name)
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Lines calls f with each line of a file and the line's number, starting at 1. It skips the test if the file is
// missing. f must not retain line.
func Lines(tb testing.TB, name string, f func(n int, line []byte)) {
	tb.Helper()
	file := must.Get(os.Open(Path(tb, name)))(tb)
	defer func() { _ = file.Close() }() // opened for reading only
	var r io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		r = must.Get(gzip.NewReader(file))(tb)
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		f(n, lines.Bytes())
	}
	must.Do(tb, lines.Err(), "read", name)
}
