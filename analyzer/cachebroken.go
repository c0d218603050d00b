package analyzer

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// cacheLoss returns what the tokens that p did not read from the cache cost, in microdollars; 0 if the price is unknown.
func (p *pending) cacheLoss(prices *price.Lookup) uint64 {
	e := &p.row
	if price := prices.Of(e.Provider, e.Model); price != nil {
		return uint64(max(0, float64(e.Cache.Missed)*(price.Input-price.CachedInput)+0.5))
	}
	return 0
}

// cacheExample returns the example of p, which did not read the cache for an avoidable reason, for alerts.
func cacheExample(p *pending, about *signals.Failure) Example {
	e, v := &p.row, &p.row.Cache
	return findingExample(&Finding{
		Exchange: e.ID, Conversation: e.Conversation, Status: e.Status, Message: v.Message(), Summary: v.Summary(), Evidence: v.Evidence(e.InputTokens), Fix: v.Fix(),
	}, about, e.StoredAt)
}

// cache records that the cache was not read in p for an avoidable reason. It returns what the ledger knows of it; nil if the reason is
// not avoidable.
func (m *memory) cache(s *step, p *pending) *signals.Failure {
	e, v := &p.row, &p.row.Cache
	if !promptcache.Avoidable(v.Reason) {
		return nil
	}
	about := &signals.Failure{Full: e.Capture == event.CaptureFull}
	if !remembered(e) {
		return about
	}
	k := ledger.Key{Kind: ledger.KindDefect, Service: e.Labels.Service, Stage: e.Labels.Stage, Name: signals.CacheBroken, RootCause: v.Reason}
	r := m.Get(k)
	if s.emit && r == nil {
		r = m.See(&k, &m.sighting)
	}
	if r != nil {
		know(about, r)
	}
	return about
}

// cacheBroken emits the signal that p did not read the cache for an avoidable reason, once per history and reason. about is what the ledger
// knows of it.
func (p *pending) cacheBroken(s *step, about *signals.Failure, minSeq uint64) {
	e, v := &p.row, &p.row.Cache
	if about == nil || !p.turn.Prompt().Tell(v.Reason) {
		return
	}
	x := p.subject()
	id := identity.Of(x.Labels.Service, x.Root, x.Branch, signals.CacheBroken, v.Reason)
	fingerprint := identity.Of(x.Labels.Service, x.Labels.Stage, signals.CacheBroken, v.Reason, "", "")
	f := Finding{
		ID: id.ID(), Fingerprint: fingerprint.Fingerprint(), Seq: e.Seq, FirstSeen: x.SeenAt,
		Exchange: x.Exchange, ExchangeVersion: x.Labels.ServiceVersion, ExchangeInstance: x.Instance, ExchangeMessages: x.Messages, Code: x.Code,
		Labels: x.Labels, Attrs: x.Attrs, Conversation: x.Conversation, Provider: x.Provider, Model: x.Model, Dialect: x.Dialect, Variant: x.Variant,
		Rule: signals.CacheBroken, RootCause: v.Reason, Detail: v.Reason, Predicted: check.Signal, Severity: check.Signal, Status: x.Status, Message: v.Message(),
		Summary: v.Summary(), Evidence: v.Evidence(e.InputTokens), Fix: v.Fix(),
	}
	f.FirstVersion, f.LastClean, f.CleanCalls = about.FirstVersion, about.LastClean, about.CleanCalls
	s.emitFinding(&f, about, e.Origin != event.OriginImport, minSeq)
}
