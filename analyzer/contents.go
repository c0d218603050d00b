package analyzer

import (
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// contents stores the new parts of bodies and emits them as rows.
type contents struct {
	store   *content.Store
	strings interner

	// The exchange whose request or answer is being stored.
	step *step
	row  *Exchange
	at   Position
}

// KeepContents emits the contents of bodies of the services for which enabled returns true. redact appends the redacted body of a
// content, or a piece of it, to dst: see content.Redactor. A nil redact leaves contents unchanged. KeepContents must be called before
// the first event.
func (a *Analyzer) KeepContents(enabled func(service string) bool, redact func(dst []byte, kind string, body []byte) []byte) {
	a.contents.store.Enable(enabled, redact)
}

// ShapeContents emits the shapes of fully captured contents, instead of the contents, for the services for which
// shaped returns true. shape may reuse the memory of its result. Requests are still judged by their full contents.
// ShapeContents must be called before the first event.
func (a *Analyzer) ShapeContents(shaped func(service string) bool, shape func(dialect string, answer bool, body []byte) []byte) {
	a.contents.store.Shape(shaped, shape)
}

// ForgetContents clears the record of stored contents, because some of them are deleted: all contents are emitted
// again, and each conversation begins a new branch.
func (a *Analyzer) ForgetContents() { a.contents.store.Forget() }

func (c *contents) begin(s *step, e *Exchange, at Position) {
	c.step, c.row, c.at = s, e, at
	if s.emit {
		c.store.Begin(s.now, c)
	} else {
		c.store.Begin(s.now, nil)
	}
}

// request stores the new parts of the request of p.
func (c *contents) request(s *step, p *pending, r *facts.Request, body []byte, at Position) {
	e := &p.row
	c.begin(s, e, at)
	l := c.store.Request(&content.Request{
		Body: content.Body{Service: e.Labels.Service, Capture: e.Capture, Dialect: p.target.Dialect, Bytes: body}, Started: e.StartedAt,
		Exchange: e.ID, Conversation: e.Conversation, Turn: p.turn, Facts: r,
	})
	p.contents = l.Time
	e.Branch, e.Lead, e.Marked, e.Parameters, e.MessagesAt = l.Branch, l.Leading, l.Marked, l.Parameters, l.MessagesAt
}

// answer stores the body of the answer to p. The row of a failed call has the error text instead.
func (c *contents) answer(s *step, p *pending, body []byte, at Position) {
	e := &p.row
	if p.contents == 0 || e.Status >= 400 {
		return
	}
	c.begin(s, e, at)
	e.Answer = c.store.Answer(p.contents, &content.Body{Service: e.Labels.Service, Capture: e.Capture, Dialect: p.target.Dialect, Bytes: body})
}

// Content emits the row of a content.
func (c *contents) Content(id, kind string, captured int, body []byte) {
	s := c.step
	s.metrics.contents.Inc()
	s.out.Contents = append(s.out.Contents, Content{ID: id, Kind: kind, SeenAt: s.now, Bytes: captured, Body: s.out.text(body)})
}

// Position emits the row of a position in the conversation's history.
func (c *contents) Position(p content.Position) {
	s, e := c.step, c.row
	s.metrics.positions.Inc()
	s.out.History = append(s.out.History, HistoryEntry{
		Service: e.Labels.Service, Conversation: e.Conversation, Branch: p.Branch, Position: p.Index, Parent: p.Parent, Shared: p.Shared,
		Exchange: e.ID, Seq: c.at.Seq, SeenAt: c.at.Time, Role: c.strings.name(p.Role), Content: p.Content,
	})
}

// Dropped counts a content that is too large to store.
func (c *contents) Dropped() { c.step.drop(dropContent) }
