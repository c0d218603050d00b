package analyzer

import (
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Caches determines what became of the prompt cache in recorded exchanges, in their order. The times of the calls are not known. It is not
// safe for concurrent use.
type Caches struct{ prompts *prompts }

// NewCaches returns Caches that know no exchange.
func NewCaches() *Caches {
	return &Caches{prompts: newPrompts(&Config{SessionLookback: time.Hour}, make(interner))}
}

// A RecordedCall is a recorded request in its conversation.
type RecordedCall struct {
	caches *Caches
	step   step
	p      pending
}

// Request compares a recorded request with the ones before it. It must be called before the next request of the conversation.
func (c *Caches) Request(service, server string, t wire.Target, turn *session.Turn, q *facts.Request, body []byte) *RecordedCall {
	x := &RecordedCall{caches: c, p: pending{target: t, turn: turn}}
	e := &x.p.row
	e.Labels.Service, e.Server, e.Model, e.Capture = service, server, t.Model, event.CaptureFull
	c.prompts.request(&x.step, &x.p, q, body, 1)
	return x
}

// Known reports whether the provider documents its cache.
func (x *RecordedCall) Known() bool { return x.p.cache.Policy.Known() }

// Answered returns what became of the cache: as r reports it, if r and the answer before report it, else as the requests show it.
// r is nil if there is no answer. lost is the size of what could have been read if only the requests show it.
func (x *RecordedCall) Answered(status int, r *facts.Response) (v promptcache.Verdict, lost int) {
	e, c := &x.p.row, &x.p.cache
	if e.Status = status; e.Status == 0 {
		e.Status = 200 // a recorded request without an answer
	}
	if r != nil {
		e.InputTokens, e.CachedTokens, e.CacheWritten, e.CacheReported = r.InputTokens, r.CachedTokens, r.CacheWritten, r.CacheReported
	}
	if !x.Known() || !accepted(e) {
		return v, 0
	}
	if !e.CacheReported || e.InputTokens <= 0 {
		v, lost = c.Compare()
		c.Now.Estimate()
		x.p.turn.Cached(&c.Now)
		return v, lost
	}
	estimated := c.Earlier.Prompt.Flags&promptcache.Estimated != 0
	if estimated {
		v, lost = c.Compare()
	}
	if x.caches.prompts.answered(&x.step, &x.p); !estimated {
		v = e.Cache
	}
	return v, lost
}
