package analyzer

import (
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// contents stores what is new in bodies and emits it as rows.
type contents struct {
	store   *content.Store
	strings interner

	// The output of the store: the exchange whose request or answer it stores.
	step *step
	row  *Exchange
	at   Position
}

// KeepContents emits the contents of bodies of the services for which enabled returns true, each content as redact appends
// it to dst; nil changes nothing. It is called before the first event.
func (a *Analyzer) KeepContents(enabled func(service string) bool, redact func(dst, body []byte) []byte) {
	a.contents.store.Enable(enabled, redact)
}

// ShapeContents emits fully captured contents of the services for which shaped returns true as their shapes: as shape
// returns them, which may reuse its memory. They are judged in full all the same. It is called before the first event.
func (a *Analyzer) ShapeContents(shaped func(service string) bool, shape func(dialect string, answer bool, body []byte) []byte) {
	a.contents.store.Shape(shaped, shape)
}

// ForgetContents forgets which contents are stored, because some of them are deleted: from now on all are emitted again,
// each conversation on a new branch.
func (a *Analyzer) ForgetContents() { a.contents.store.Forget() }

func (c *contents) begin(s *step, e *Exchange, at Position) {
	c.step, c.row, c.at = s, e, at
	if s.emit {
		c.store.Begin(s.now, c)
	} else {
		c.store.Begin(s.now, nil)
	}
}

// request stores what is new in the request of p.
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

// answer stores the body of the answer to p. A failed call has its error text in its row instead.
func (c *contents) answer(s *step, p *pending, body []byte, at Position) {
	e := &p.row
	if p.turn == nil || e.Status >= 400 {
		return
	}
	c.begin(s, e, at)
	e.Answer = c.store.Answer(p.contents, &content.Body{Service: e.Labels.Service, Capture: e.Capture, Dialect: p.target.Dialect, Bytes: body})
}

// Content emits a content.
func (c *contents) Content(id, kind string, captured int, body []byte) {
	s := c.step
	s.metrics.contents.Inc()
	s.out.Contents = append(s.out.Contents, Content{ID: id, Kind: kind, SeenAt: s.now, Bytes: captured, Body: string(body)})
}

// Position emits a position of the conversation's history.
func (c *contents) Position(p content.Position) {
	s, e := c.step, c.row
	s.metrics.positions.Inc()
	s.out.History = append(s.out.History, HistoryEntry{
		Service: e.Labels.Service, Conversation: e.Conversation, Branch: p.Branch, Position: p.Index, Parent: p.Parent, Shared: p.Shared,
		Exchange: e.ID, Seq: c.at.Seq, SeenAt: c.at.Time, Role: c.strings.name(p.Role), Content: p.Content,
	})
}

// Dropped counts a content that is too large.
func (c *contents) Dropped() { c.step.drop(dropContent) }
