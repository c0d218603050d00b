package analyzer

import (
	"cmp"

	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/payload"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// contents stores the new parts of bodies and emits them as rows.
type contents struct {
	store   *content.Store
	sampler *content.Sampler // nil: everything is stored
	strings interner
	epoch   int      // number of calls of ForgetContents
	maxHeld int      // bytes of withheld requests, together with the other pending requests
	free    [][]byte // memory of released ones, at most maxFree

	// Buffers of a withheld request that is released, and the answer of the call that is being completed, if it is withheld.
	inflater payload.Inflater
	facts    facts.Request
	answered []byte

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

// SampleContents emits the contents of the calls that sampler chooses, of the services that KeepContents enables. SampleContents
// must be called before the first event.
func (a *Analyzer) SampleContents(sampler *content.Sampler) { a.contents.sampler = sampler }

// ForgetContents clears the record of stored contents, because some of them are deleted: all contents are emitted
// again, and each conversation begins a new branch.
func (a *Analyzer) ForgetContents() {
	a.contents.store.Forget()
	a.contents.epoch++
}

func (c *contents) begin(s *step, e *Exchange, at Position) {
	c.step, c.row, c.at = s, e, at
	if s.emit {
		c.store.Begin(s.now, c)
	} else {
		c.store.Begin(s.now, nil)
	}
}

// A withheld request is stored if its call turns out to be one whose texts are stored.
type withheld struct {
	drops    content.Drop // why its texts are not stored otherwise
	encoding string
	body     []byte // as sent, perhaps compressed; nil if there was no memory for it
	place    content.Place
	epoch    int // see contents; what was withheld before may be something that is to be forgotten
}

// request stores the new parts of the request of p, or withholds it until its call is complete. pending is the size of the
// requests that wait.
func (c *contents) request(s *step, p *pending, r *facts.Request, body []byte, h half, pending int) {
	e, q := &p.row, c.content(p, r, body)
	if !c.store.Stores(&q.Body) {
		return
	}
	if c.sampler != nil && e.Origin != event.OriginImport { // recorded calls are imported to be read
		e.TextsLeftOut = float32(1 - c.sampler.Share(e.Labels.Service))
	}
	if drops := c.drops(s, p, len(p.findings) > 0 || len(p.signals) > 0); drops != 0 {
		w, fits := &withheld{drops: drops, epoch: c.epoch}, pending+len(h.ev.Body) <= c.maxHeld
		if fits {
			w.encoding, w.body = c.strings.string(h.ev.ContentEncoding), c.hold(h.ev.Body)
		} else { // the call may fail
			w.drops = c.drops(s, p, true)
		}
		if w.drops != 0 {
			p.withheld = w
		}
	}
	c.begin(s, e, h.at)
	q.Withhold = p.withheld != nil
	l := c.store.Request(&q)
	if c.place(e, &l); q.Withhold {
		p.withheld.place = l.Place
	}
	c.stored(s, e, h.minSeq)
}

// maxFree bounds the number of buffers that wait for the next withheld request.
const maxFree = 64

// hold returns a copy of body.
func (c *contents) hold(body []byte) []byte {
	var b []byte
	if n := len(c.free); n > 0 {
		b, c.free = c.free[n-1], c.free[:n-1]
	}
	return append(b[:0], body...)
}

// content returns the request of p as one to store.
func (c *contents) content(p *pending, r *facts.Request, body []byte) content.Request {
	return content.Request{Body: p.body(body), Exchange: p.row.ID, Conversation: p.row.Conversation, Facts: r}
}

// body returns the body of the request or the answer of p as one to store.
func (p *pending) body(b []byte) content.Body {
	e := &p.row
	return content.Body{Turn: p.turn, Started: e.StartedAt, Service: e.Labels.Service, Capture: e.Capture, Dialect: p.target.Dialect, Bytes: b}
}

// place sets where the request of e is stored.
func (c *contents) place(e *Exchange, l *content.Location) {
	e.Branch, e.Lead, e.Marked, e.Parameters, e.MessagesAt = l.Branch, l.Leading, l.Marked, l.Parameters, l.MessagesAt
}

// answer stores the body of the answer to p. The row of a failed call has the error text instead.
func (c *contents) answer(s *step, p *pending, body []byte, h half) {
	e := &p.row
	switch {
	case e.Status >= 400:
	case p.withheld != nil:
		c.answered = body
	case e.Parameters != "":
		c.begin(s, e, h.at)
		b := p.body(body)
		e.Answer = c.store.Answer(&b)
		c.stored(s, e, h.minSeq)
	}
}

// complete stores the texts of p, a completed call, if they are withheld and the call shows something: it failed, or has a finding.
func (c *contents) complete(s *step, p *pending, shows bool, minSeq uint64) {
	answered, w, e := c.answered, p.withheld, &p.row
	c.answered, p.withheld = nil, nil
	if shows && c.sampler != nil && p.turn != nil {
		c.store.StoreRest(p.turn)
	}
	if w == nil {
		return
	}
	if w.body != nil && w.epoch == c.epoch && (shows || p.turn != nil && c.store.StoresRest(p.turn)) {
		w.drops = c.drops(s, p, true)
	}
	c.begin(s, e, Position{Seq: e.Seq, Time: e.StoredAt})
	if w.body != nil && len(c.free) < maxFree && cap(w.body) <= maxTexts/maxFree {
		defer func() { c.free = append(c.free, w.body) }()
	}
	b := p.body(answered)
	if w.drops == 0 {
		c.release(p, w)
		e.Answer = c.store.Answer(&b)
		c.stored(s, e, minSeq)
		return
	}
	e.TextsDropped = w.drops
	e.Answer = c.store.WithholdAnswer(&b)
	s.tallies.textsDropped(e, minSeq, s.now)
}

// release stores the withheld request of p.
func (c *contents) release(p *pending, w *withheld) {
	body, err := c.inflater.Inflate(w.encoding, w.body)
	if err == nil {
		err = facts.ScanRequest(p.target.Dialect, body, &c.facts)
	}
	if err != nil { // it was read before
		return
	}
	q := c.content(p, &c.facts, body)
	l := c.store.Release(&q, w.place)
	c.place(&p.row, &l)
}

// drops returns why the texts of p are not stored, or 0.
func (c *contents) drops(s *step, p *pending, always bool) content.Drop {
	e := &p.row
	if c.sampler == nil || e.Origin == event.OriginImport {
		return 0
	}
	conversation := cmp.Or(e.Conversation, e.ID)
	if p.turn != nil {
		conversation = p.turn.Root
		always = always || c.store.StoresRest(p.turn)
	}
	return c.sampler.Drops(e.Labels.Service, conversation, always, s.now)
}

// stored counts the contents of e that were stored now.
func (c *contents) stored(s *step, e *Exchange, minSeq uint64) {
	size := c.store.TakeSize()
	if e.Origin != event.OriginImport {
		c.sampler.Stored(e.Labels.Service, size, minSeq, s.now)
	}
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
