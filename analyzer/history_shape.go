package analyzer

import (
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/event"
)

// shaping is what makes shapes of bodies.
type shaping struct {
	of    func(service string) bool
	shape func(dialect string, answer bool, body []byte) []byte
}

// ShapeContents makes the analyzer put out, of the services that of names, what was captured in full as its shape: as shape
// returns it, which may reuse its memory. It is judged in full all the same. It is called before the first event.
func (a *Analyzer) ShapeContents(of func(service string) bool, shape func(dialect string, answer bool, body []byte) []byte) {
	a.shaping = shaping{of, shape}
}

func (a *Analyzer) shapes(e *Exchange) bool {
	return a.shaping.of != nil && e.Capture == event.CaptureFull && a.shaping.of(e.Labels.Service)
}

// captured returns the request whose facts are in a.req as it is stored, and its messages there; none if they are not those
// of a.req.
func (a *Analyzer) captured(o *open, body []byte) ([]byte, []facts.Message) {
	if !a.shapes(&o.row) {
		return body, a.req.Messages
	}
	body = a.shaping.shape(string(o.target.Dialect), false, body)
	if err := facts.ScanRequest(o.target.Dialect, body, &a.shape); err != nil || a.shape.Dropped > 0 || len(a.shape.Messages) != len(a.req.Messages) {
		return body, nil
	}
	return body, a.shape.Messages
}

// capturedAnswer is the same for an answer.
func (a *Analyzer) capturedAnswer(o *open, body []byte) []byte {
	if !a.shapes(&o.row) {
		return body
	}
	return a.shaping.shape(string(o.target.Dialect), true, body)
}

// ForgetContents makes the analyzer forget what is stored of bodies, because somebody deletes some of it: what comes from
// now on is put out again, each conversation on a new branch.
func (a *Analyzer) ForgetContents() {
	a.contents = contents{}
	a.era++
}
