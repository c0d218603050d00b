package analyzer

import (
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/ingest/event"
)

// memory is what the analyzer remembers for weeks.
type memory struct {
	*ledger.Ledger
	sighting ledger.Sighting // the exchange that is reported
}

// Remember adds an entry that TakeLedger returned to an earlier analyzer of this partition or, if not own, of another
// partitioning or stream, whose sequences have no meaning here. It is called before the first event. An entry that cannot
// be read is counted, its error is returned, and nothing else happens.
//
// Entries of other partitions of the same partitioning are not remembered: what a partition emits is a function of its own
// events, and the others continue while it reads.
func (a *Analyzer) Remember(key string, value []byte, own bool) error {
	e, err := ledger.Decode(key, value)
	if err != nil {
		a.step.metrics.dropped.WithLabelValues(dropLedgerEntry).Inc()
		return err
	}
	a.memory.Add(&e, own)
	return nil
}

// TakeLedger returns the entries of the ledger that changed since the last call, as they are now, and the keys of those
// that were forgotten. They must be stored after the rows that were emitted by then, because what is in the ledger is not
// emitted again, and before a checkpoint moves beyond the events that were processed by then. So stored entries may be
// ahead of the checkpoint, never behind it.
func (a *Analyzer) TakeLedger() (changed []ledger.Entry, gone []ledger.Key) {
	changed, gone, evicted := a.memory.Take()
	m := a.step.metrics
	m.dropped.WithLabelValues(dropLedger).Add(float64(evicted))
	m.ledger.Set(float64(a.memory.Len()))
	return changed, gone
}

// exchange remembers the exchange p, its version and why it failed. It returns the ledger's record of the failure, or nil,
// and whether the failure was first seen in this exchange. A silent replay counts the exchange too, because its position
// depends on that; the ledger then includes the exchange already, because it is never behind the checkpoint.
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
		m.See(&k, &m.sighting)
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

// defect remembers the defect of row, if it is new in e, and adds the versions from the ledger to row.
func (m *memory) defect(s *step, e *Exchange, row *Finding, isNew bool) {
	if !s.emit || !remembered(e) {
		return
	}
	k := ledger.Key{Kind: ledger.KindDefect, Service: e.Labels.Service, Stage: e.Labels.Stage, Name: row.Rule, RootCause: row.RootCause}
	r := m.Get(k)
	if isNew || r == nil {
		r = m.See(&k, &m.sighting)
	}
	row.FirstVersion, row.LastClean = r.First.Version, r.LastClean
}

// remembered reports whether the ledger takes e: not imports, nor exchanges that may be incomplete.
func remembered(e *Exchange) bool { return e.Origin != event.OriginImport && !e.Degraded }
