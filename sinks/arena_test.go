package sinks

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Append copies the bodies of contents, because the analyzer reuses their memory, and reset keeps the memory of the copies.
func TestBatchCopiesBodies(t *testing.T) {
	var b Batch
	fill := func() {
		for _, size := range []int{0, 1, minChunk, maxChunk - 1, 3 * maxChunk, 10} {
			body := []byte(strings.Repeat("x", size))
			b.Append(&Batch{Contents: []analyzer.Content{{Body: unsafe.String(unsafe.SliceData(body), size)}}})
			for i := range body {
				body[i] = 'y'
			}
		}
		for i, c := range b.Contents {
			must.Equal(t, strings.Trim(c.Body, "x"), "", "body %d of %d bytes was not copied", i, len(c.Body))
		}
	}
	fill()
	b.reset()
	for _, c := range b.texts.chunks {
		if cap(c) > maxChunk {
			t.Errorf("a chunk of %d bytes is kept", cap(c))
		}
	}
	kept := len(b.texts.chunks)
	fill()
	if n := len(b.texts.chunks); kept == 0 || n > kept+2 { // for the body that is larger than a chunk, and after it
		t.Errorf("%d chunks, %d of them reused", n, kept)
	}
}
