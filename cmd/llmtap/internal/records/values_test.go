package records

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The line in which a truncated file ends is not a record of its own.
func TestTruncatedLines(t *testing.T) {
	f := func(lines string, want ...string) {
		t.Helper()
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.NoCompression)
		_, _ = io.WriteString(z, lines)
		_ = z.Flush() // but not closed: the end of the file is missing
		var got []string
		for v := range Values(&b) {
			got = append(got, fmt.Sprintf("%d %s %v", v.Line, v.Text, v.Err))
		}
		must.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"), "%q", lines)
	}
	f("{\"a\":1}\n{\"b\":", `1 {"a":1} <nil>`, "2  unpack gzip: unexpected EOF")
	f("{\"a\":1}\n{\"b\":2}", `1 {"a":1} <nil>`, `2 {"b":2} <nil>`, "2  unpack gzip: unexpected EOF")
	f("{\"a\":1}\n", `1 {"a":1} <nil>`, "2  unpack gzip: unexpected EOF")
}

// A file that ends between two documents is truncated all the same if its decompressor says so.
func TestTruncatedDocuments(t *testing.T) {
	truncated := fmt.Errorf("unpack gzip: %w", io.ErrUnexpectedEOF)
	w := window{r: io.MultiReader(strings.NewReader("{\n}\n{\n}\n"), iotest.ErrReader(truncated)), line: 1}
	for _, want := range []string{"1 {\n} <nil>", "3 {\n} <nil>", "5  unpack gzip: unexpected EOF"} {
		v, ok := w.next()
		if got := fmt.Sprintf("%d %s %v", v.Line, v.Text, v.Err); !ok || got != want {
			t.Errorf("%q, %v, want %q", got, ok, want)
		}
	}
}
