package analyzer

import (
	"github.com/llmtap/llmtap/analyzer/content"
)

// contents stores what is new in bodies and emits it as rows.
type contents struct {
	*content.Store
	a   *Analyzer
	row *Exchange // whose request or answer is stored
	at  Position
}

// KeepContents emits the contents of bodies of the services for which enabled returns true, each content as redact appends
// it to dst; nil changes nothing. It is called before the first event.
func (a *Analyzer) KeepContents(enabled func(service string) bool, redact func(dst, body []byte) []byte) {
	a.contents.Enable(enabled, redact)
}

// ShapeContents emits fully captured contents of the services for which shaped returns true as their shapes: as shape
// returns them, which may reuse its memory. They are judged in full all the same. It is called before the first event.
func (a *Analyzer) ShapeContents(shaped func(service string) bool, shape func(dialect string, answer bool, body []byte) []byte) {
	a.contents.Shape(shaped, shape)
}

// ForgetContents forgets which contents are stored, because some of them are deleted: from now on all are emitted again,
// each conversation on a new branch.
func (a *Analyzer) ForgetContents() { a.contents.Forget() }

func (c *contents) begin(e *Exchange, at Position) {
	c.row, c.at = e, at
	if c.a.emit {
		c.Begin(c.a.now, c)
	} else {
		c.Begin(c.a.now, nil)
	}
}

// request stores what is new in the request whose facts are in a.req.
func (c *contents) request(o *open, body []byte, at Position) {
	e := &o.row
	c.begin(e, at)
	l := c.Store.Request(&content.Request{
		Body: content.Body{Service: e.Labels.Service, Capture: e.Capture, Dialect: o.target.Dialect, Bytes: body}, Started: e.StartedAt,
		Exchange: e.ID, Conversation: e.Conversation, Turn: o.turn, Facts: &c.a.req,
	})
	o.contents = l.Time
	e.Branch, e.Lead, e.Marked, e.Parameters, e.MessagesAt = l.Branch, l.Leading, l.Marked, l.Parameters, l.MessagesAt
}

// answer stores the body of an answer. That of a failed call is the error text of its row.
func (c *contents) answer(o *open, body []byte, at Position) {
	e := &o.row
	if o.turn == nil || e.Status >= 400 {
		return
	}
	c.begin(e, at)
	e.Answer = c.Store.Answer(o.contents, &content.Body{Service: e.Labels.Service, Capture: e.Capture, Dialect: o.target.Dialect, Bytes: body})
}

// Content emits a content.
func (c *contents) Content(id, kind string, captured int, body []byte) {
	c.a.metrics.contents.Inc()
	c.a.out.Contents = append(c.a.out.Contents, Content{ID: id, Kind: kind, SeenAt: c.a.now, Bytes: captured, Body: string(body)})
}

// Position emits a position of the conversation's history.
func (c *contents) Position(p content.Position) {
	e := c.row
	c.a.metrics.positions.Inc()
	c.a.out.History = append(c.a.out.History, HistoryEntry{
		Service: e.Labels.Service, Conversation: e.Conversation, Branch: p.Branch, Position: p.Index, Parent: p.Parent, Shared: p.Shared,
		Exchange: e.ID, Seq: c.at.Seq, SeenAt: c.at.Time, Role: c.a.strings.name(p.Role), Content: p.Content,
	})
}

// Dropped counts a content that is too large.
func (c *contents) Dropped() { c.a.drop(dropContent) }
