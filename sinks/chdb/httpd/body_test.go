package httpd

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A request that ends after the last frame of its body, but before its length, is not complete.
func TestIncompleteBody(t *testing.T) {
	var b bytes.Buffer
	w := must.Get(zstd.NewWriter(&b))(t)
	must.Get(w.Write([]byte("1\n2\n")))(t)
	must.Do(t, w.Close())
	early := io.MultiReader(&b, iotest.ErrReader(io.ErrUnexpectedEOF))
	once := false
	raw := readerFunc(func(p []byte) (int, error) {
		if once {
			return 0, io.EOF
		}
		n, err := early.Read(p)
		once = errors.Is(err, io.ErrUnexpectedEOF)
		return n, err
	})
	q := &request{http: &http.Request{Header: http.Header{"Content-Encoding": {"zstd"}}, Body: io.NopCloser(raw)}}
	body := must.Get(q.body())(t)
	data, err := io.ReadAll(body)
	must.Is(t, err, io.ErrUnexpectedEOF, string(data))
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
