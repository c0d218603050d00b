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
	caches    *Caches
	p         pending
	alone     promptcache.Verdict // as the requests alone show it
	lost      int                 // bytes
	estimated bool                // the tokens of the request before are not known
}

// Request compares a recorded request with the ones before it. It must be called before the next request of the conversation.
func (c *Caches) Request(service, server string, t wire.Target, turn *session.Turn, q *facts.Request, body []byte) *RecordedCall {
	x := &RecordedCall{caches: c, p: pending{target: t, turn: turn}}
	e, call := &x.p.row, &c.prompts.call
	e.Labels.Service, e.Server, e.Model, e.Capture = service, server, t.Model, event.CaptureFull
	c.prompts.request(&step{}, &x.p, q, body, 1)
	if x.Known() {
		x.alone, x.lost = call.Lost()
		x.estimated = call.Earlier.Prompt.Flags&promptcache.Estimated != 0
	}
	return x
}

// Known reports whether the provider documents its cache.
func (x *RecordedCall) Known() bool { return x.p.cache.Policy != nil }

// Answered returns what became of the cache: as r reports it, if r and the answer before report it, else as the requests show it.
// r is nil if there is no answer. lost is the size of what could have been read, if only the requests show it.
func (x *RecordedCall) Answered(status int, r *facts.Response) (v promptcache.Verdict, lost int) {
	e := &x.p.row
	if e.Status = status; e.Status == 0 {
		e.Status = 200 // a request alone
	}
	if r != nil {
		e.InputTokens, e.CachedTokens, e.CacheWritten, e.CacheReported = r.InputTokens, r.CachedTokens, r.CacheWritten, r.CacheReported
	}
	switch reported := e.CacheReported && e.InputTokens > 0; {
	case !x.Known() || !accepted(e):
		return v, 0
	case !reported:
		x.p.cache.Flags |= promptcache.Estimated
		x.p.turn.Prompt().Answer(&x.p.cache, promptcache.Estimate(x.p.cache.Bytes), 0, 0)
		return x.alone, x.lost
	}
	x.caches.prompts.answered(&x.p)
	if x.estimated {
		return x.alone, x.lost
	}
	return e.Cache, 0
}
