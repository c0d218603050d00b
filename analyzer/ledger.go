package analyzer

import (
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/ingest/event"
)

// Remember makes an entry of the ledger known that TakeLedger gave to this partition before or, if not own, to another
// one, of another cut or another stream, whose sequences mean nothing here. It is called before the first event. An
// entry that cannot be read is counted, and its error returned; nothing else comes of it.
//
// Other partitions of the same cut are not for Remember: what a partition puts out is a function of its own events, and
// theirs go on while it reads.
func (a *Analyzer) Remember(key string, value []byte, own bool) error {
	e, err := ledger.Decode(key, value)
	if err != nil {
		a.metrics.dropped.WithLabelValues(dropLedgerEntry).Inc()
		return err
	}
	a.ledger.Add(&e, own)
	return nil
}

// TakeLedger returns the entries of the ledger that changed since it was called last, each as it is now, and the keys
// of those that were forgotten. What it returned must be kept before a checkpoint moves beyond the events that were
// processed by then, and after the rows that were put out by then are stored: what is in the ledger is not put out again.
// So kept entries may be ahead of the checkpoint, never behind it.
func (a *Analyzer) TakeLedger() (changed []ledger.Entry, gone []ledger.Key) {
	changed, gone, evicted := a.ledger.Take()
	a.metrics.dropped.WithLabelValues(dropLedger).Add(float64(evicted))
	a.metrics.ledger.Set(float64(a.ledger.Len()))
	return changed, gone
}

// note remembers the exchange of o, its version and why it failed. Its place is taken in a silent replay too; what it
// shows is in the ledger then. It returns what the ledger knows of the reason of the failure, or nil, and whether it knows
// it from this exchange on: the same in a replay, because the ledger is never behind the checkpoint.
func (a *Analyzer) note(o *open) (known *ledger.Record, isNew bool) {
	e := &o.row
	a.sighting = ledger.Sighting{Position: ledger.Position{Seq: a.seq, Nth: a.nth}, At: e.StoredAt.UTC(), Exchange: e.ID, Version: e.Labels.ServiceVersion, Instance: e.Instance}
	a.nth++
	if !ledgered(e) {
		return nil, false
	}
	k := ledger.Key{Kind: ledger.KindVersion, Service: e.Labels.Service, Stage: e.Labels.Stage, Name: e.Labels.ServiceVersion}
	if a.emit && o.turn != nil {
		a.ledger.See(&k, &a.sighting)
	}
	if !e.Failed || e.Retry > 0 {
		return nil, false
	}
	k.Kind, k.Name, k.RootCause = ledger.KindFailure, e.Cause, e.RootCause
	r := a.ledger.Get(k)
	if a.emit {
		r = a.ledger.See(&k, &a.sighting)
	}
	return r, r != nil && r.First.Position == a.sighting.Position
}

// noteDefect remembers the defect of row, if e shows it newly, and says in row what is known of it.
func (a *Analyzer) noteDefect(e *Exchange, row *Finding, newly bool) {
	if !a.emit || !ledgered(e) {
		return
	}
	k := ledger.Key{Kind: ledger.KindDefect, Service: e.Labels.Service, Stage: e.Labels.Stage, Name: row.Rule, RootCause: row.RootCause}
	r := a.ledger.Get(k)
	if newly || r == nil {
		r = a.ledger.See(&k, &a.sighting)
	}
	row.FirstVersion, row.LastClean = r.First.Version, r.LastClean
}

// ledgered reports whether the ledger takes e: neither what was recorded elsewhere, nor what may be incomplete.
func ledgered(e *Exchange) bool { return e.Origin != event.OriginImport && !e.Degraded }
