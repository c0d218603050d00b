package show

import (
	"crypto/rand"
	"strings"
	"sync"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A Withholder replaces the texts of stored bodies by their shapes, for a reader who must not see content. It is safe for
// concurrent use. A nil Withholder leaves bodies unchanged.
type Withholder struct {
	mu     sync.Mutex // guards shaper
	shaper *shape.Shaper
}

// maxShape is the maximum size of a shape.
const maxShape = 8 << 20

// NewWithholder returns a Withholder with a key of its own.
func NewWithholder() *Withholder { return &Withholder{shaper: shape.New([]byte(rand.Text()))} }

// applies reports whether w changes bodies of e. Those of a hook that captures shapes have no texts.
func (w *Withholder) applies(e *Exchange) bool { return w != nil && e.Capture != event.CaptureShape }

// message returns the shape of a message of e.
func (w *Withholder) message(e *Exchange, body string) string {
	if !w.applies(e) || body == "" {
		return body
	}
	start, end := `{"`+wire.Dialect(e.Dialect).Descriptor().Messages+`":[`, `]}`
	shaped := w.request(e, start+body+end)
	if inner, ok := strings.CutPrefix(shaped, start); ok {
		return strings.TrimSuffix(inner, end)
	}
	return shaped // its length and hash: the message is not JSON
}

// request returns the shape of a request of e.
func (w *Withholder) request(e *Exchange, body string) string {
	if !w.applies(e) || body == "" {
		return body
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.shaper.Request(wire.Dialect(e.Dialect), []byte(body), maxShape))
}

// answer returns the shape of an answer of e.
func (w *Withholder) answer(e *Exchange, body string) string {
	if !w.applies(e) || body == "" {
		return body
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.shaper.Response(wire.Dialect(e.Dialect), []byte(body), maxShape))
}

// apply replaces the bodies of e.
func (w *Withholder) apply(e *Exchange) {
	if !w.applies(e) {
		return
	}
	e.withheld = true
	for i, body := range e.Messages {
		e.Messages[i] = w.message(e, body)
	}
	e.Parameters, e.Answer = w.request(e, e.Parameters), w.answer(e, e.Answer)
}
