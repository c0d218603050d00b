package analyzer

import (
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// memory is the long-term memory of the analyzer, which spans weeks.
type memory struct {
	*ledger.Ledger
	sighting ledger.Sighting // the exchange being reported
}

// Remember adds a stored ledger entry. It must be called before the first event. If own, TakeLedger returned the entry
// to an earlier analyzer of this partition. Otherwise the entry belongs to another partitioning or stream, whose
// sequences have no meaning here. If the entry cannot be decoded, Remember counts it and returns the error; the
// analyzer stays usable.
//
// Entries of other partitions of the same partitioning must not be added: the output of a partition is a function of
// its own events, and the other partitions continue while it reads.
func (a *Analyzer) Remember(key string, value []byte, own bool) error {
	e, err := ledger.Decode(key, value)
	if err != nil {
		a.step.metrics.dropped.WithLabelValues(dropLedgerEntry).Inc()
		return err
	}
	a.memory.Add(&e, own)
	return nil
}

// TakeLedger returns the current state of the entries that changed since the last call, and the keys of entries that
// were deleted. They must be stored after the rows emitted so far, because the analyzer does not emit again what is in
// the ledger, and before the checkpoint moves past the events processed so far. Stored entries may therefore be ahead
// of the checkpoint, never behind it.
func (a *Analyzer) TakeLedger() (changed []ledger.Entry, gone []ledger.Key) {
	changed, gone, evicted := a.memory.Take()
	m := a.step.metrics
	m.dropped.WithLabelValues(dropLedger).Add(float64(evicted))
	m.ledger.Set(float64(a.memory.Len()))
	return changed, gone
}

// exchange records the exchange p, its version and the cause of its failure. It returns the ledger's record of the
// failure, or nil, and whether this exchange is the first with the failure. A silent replay also counts the exchange,
// because the positions of later exchanges depend on the count. The ledger then already includes the exchange, because
// it is never behind the checkpoint.
func (m *memory) exchange(s *step, p *pending) (known *ledger.Record, isNew bool) {
	e := &p.row
	m.sighting = ledger.Sighting{
		Position: ledger.Position{Seq: s.seq, Nth: s.completed}, At: e.StoredAt.UTC(), Exchange: e.ID, Version: e.Labels.ServiceVersion, Instance: e.Instance,
	}
	s.completed++
	if !remembered(e) {
		return nil, false
	}
	k := ledger.Key{Kind: ledger.KindVersion, Service: e.Labels.Service, Stage: e.Labels.Stage, Name: e.Labels.ServiceVersion}
	if s.emit && p.turn != nil {
		m.SeeVersion(&k, &m.sighting, accepted(e) && e.Retry == 0)
	}
	if !e.Failed || e.Retry > 0 {
		return nil, false
	}
	k.Kind, k.Name, k.RootCause = ledger.KindFailure, e.Cause, e.RootCause
	r := m.Get(k)
	if s.emit {
		r = m.See(&k, &m.sighting)
	}
	return r, r != nil && r.First.Position == m.sighting.Position
}

// defect records the defect of row in the ledger if the defect is new in e or not in the ledger yet. It sets FirstVersion,
// LastClean and CleanCalls of row from the ledger and returns them with the time of the first call. A silent replay only reads.
func (m *memory) defect(s *step, e *Exchange, row *Finding, isNew bool) (about signals.Failure) {
	if !remembered(e) {
		return about
	}
	k := ledger.Key{Kind: ledger.KindDefect, Service: e.Labels.Service, Stage: e.Labels.Stage, Name: row.Rule, RootCause: row.RootCause}
	r := m.Get(k)
	if s.emit && (isNew || r == nil) {
		r = m.See(&k, &m.sighting)
	}
	if r != nil {
		row.FirstVersion, row.LastClean, row.CleanCalls = r.First.Version, r.LastClean, r.CleanCalls
		know(&about, r)
	}
	return about
}

// know sets the versions of d, a defect of e, from the ledger.
func (m *memory) know(e *Exchange, d *signals.Failure) {
	if !remembered(e) {
		return
	}
	if r := m.Get(ledger.Key{Kind: ledger.KindDefect, Service: e.Labels.Service, Stage: e.Labels.Stage, Name: d.Cause, RootCause: d.RootCause}); r != nil {
		know(d, r)
	}
}

// know sets the versions of f from r.
func know(f *signals.Failure, r *ledger.Record) {
	f.FirstVersion, f.FirstAt, f.LastClean, f.CleanCalls = r.First.Version, r.First.At, r.LastClean, r.CleanCalls
}

// remembered reports whether e is recorded in the ledger. Imports and exchanges that may be incomplete are not.
func remembered(e *Exchange) bool { return e.Origin != event.OriginImport && !e.Degraded }
