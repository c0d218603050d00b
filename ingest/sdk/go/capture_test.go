package llmtap

import (
	"bytes"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestCaptureStubsLongBodies(t *testing.T) {
	// f writes a body of n bytes in chunks; wantCut is whether it is stubbed.
	f := func(n, chunk int, wantCut bool) {
		t.Helper()
		body := make([]byte, n)
		for i := range body {
			body[i] = byte(i % 251)
		}
		q := newQueue(1 << 30)
		c := capture{queue: q, limit: maxBody}
		for p := body; len(p) > 0; {
			k := min(chunk, len(p))
			c.write(p[:k])
			p = p[k:]
		}
		want := body
		if wantCut {
			want = append(bytes.Clone(body[:stubHalf]), body[n-stubHalf:]...)
		}
		must.Equal(t, c.cut(), wantCut, "%d bytes: cut", n)
		got, reserved := c.take()
		must.Equal(t, string(got), string(want), "%d bytes in chunks of %d", n, chunk)
		must.Equal(t, q.used, reserved, "%d bytes: in use, as reserved", n)
	}
	f(100, 7, false)
	f(maxBody, 1<<20, false)
	f(maxBody+1, 1<<20, true)
	f(maxBody+1, maxBody+1, true)
	f(maxBody+3*stubHalf, 100_001, true)
}

func TestCaptureWithoutBodies(t *testing.T) {
	c := capture{queue: newQueue(1 << 20), limit: maxError}
	c.write(make([]byte, 3000))
	c.write(make([]byte, 3000))
	got, _ := c.take()
	must.Equal(t, len(got), maxError, "bytes")
}
