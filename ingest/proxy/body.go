package proxy

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// bodyTimeout is the time that a client has for the next bytes of its request. A limit of the whole time would break uploads over
// slow connections.
const bodyTimeout = time.Minute

// limitBody ends r, a copy of the server's request, if its client sends no more of its body for timeout.
func limitBody(w http.ResponseWriter, r *http.Request, timeout time.Duration) {
	if r.Body != nil && r.Body != http.NoBody {
		b := &limitedBody{r.Body, http.NewResponseController(w), timeout}
		b.extend()
		r.Body = b
	}
}

type limitedBody struct {
	io.ReadCloser
	conn    *http.ResponseController
	timeout time.Duration
}

// extend sets the deadline for the next bytes. Only a test's recorder has none.
func (b *limitedBody) extend() { _ = b.conn.SetReadDeadline(time.Now().Add(b.timeout)) }

// Read implements io.Reader. At the end it removes the deadline, because the server reads on to notice a client that leaves, and an
// answer may take long.
func (b *limitedBody) Read(p []byte) (int, error) {
	b.extend()
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.conn.SetReadDeadline(time.Time{})
	}
	return n, err
}
