package analyzer

import (
	"cmp"
	"slices"
	"time"

	"github.com/llmtap/llmtap/ingest/event"
)

// A ledger holds the entries of a partition. Of what it saw before it takes nothing twice: an entry that is ahead of
// the stream, because it was kept and the checkpoint was not, stays as it is until the stream has caught up.
type ledger struct {
	max      int
	entries  map[LedgerKey]*record
	versions map[[2]string][]*record // by service and stage, in order of First
	order    record                  // ends of the list of all, the longest unseen first
	unsorted bool                    // after add
	changed  []*record
	gone     []LedgerKey
	evicted  int
}

type record struct {
	LedgerEntry
	before, after *record
	changed       bool // in ledger.changed
}

func newLedger() *ledger {
	l := &ledger{max: maxLedger, entries: make(map[LedgerKey]*record), versions: make(map[[2]string][]*record)}
	l.order.before, l.order.after = &l.order, &l.order
	return l
}

// add makes an entry known that was kept.
func (l *ledger) add(e *LedgerEntry) {
	l.unsorted = true
	if r := l.entries[e.LedgerKey]; r != nil {
		r.LedgerEntry = r.Merge(e)
		return
	}
	l.insert(&record{LedgerEntry: *e})
}

func (l *ledger) insert(r *record) {
	l.entries[r.LedgerKey] = r
	r.link(&l.order)
	if r.Kind == LedgerVersion {
		k := [2]string{r.Service, r.Stage}
		list := l.versions[k]
		i, _ := slices.BinarySearchFunc(list, r, byFirst)
		l.versions[k] = slices.Insert(list, i, r)
	}
}

func byFirst(a, b *record) int { return a.First.compare(&b.First) }

// link puts r before end.
func (r *record) link(end *record) {
	r.before, r.after = end.before, end
	r.before.after, end.before = r, r
}

func (r *record) unlink() { r.before.after, r.after.before = r.after, r.before }

// sort puts what was added in order.
func (l *ledger) sort() {
	if !l.unsorted {
		return
	}
	l.unsorted = false
	all := make([]*record, 0, len(l.entries))
	for _, r := range l.entries {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *record) int {
		return cmp.Or(a.Last.compare(b.Last), a.LastAt.Compare(b.LastAt), a.First.compare(&b.First), a.compare(&b.LedgerKey))
	})
	l.order.before, l.order.after = &l.order, &l.order
	for _, r := range all {
		r.link(&l.order)
	}
	for _, list := range l.versions {
		slices.SortFunc(list, byFirst)
	}
}

// see remembers that s showed k, and returns its entry.
func (l *ledger) see(k *LedgerKey, s *Sighting) *record {
	l.sort()
	r, version, at := l.entries[*k], k.Kind == LedgerVersion, s.At
	if version {
		at = at.Truncate(time.Hour)
	}
	switch {
	case r == nil:
		r = &record{LedgerEntry: LedgerEntry{LedgerKey: *k, First: *s}}
		if !version {
			r.LastClean = l.newest(k.Service, k.Stage, s)
		}
		l.insert(r)
		l.evict()
	case s.Place.compare(r.Last) <= 0: // it is in there
		return r
	case version && !at.After(r.LastAt):
		return r
	}
	r.Last, r.LastAt = s.Place, at
	if !version {
		r.Count++
	}
	r.unlink()
	r.link(&l.order)
	if !r.changed {
		r.changed = true
		l.changed = append(l.changed, r)
	}
	return r
}

// newest is the newest version of a stage that was seen before s and is not that of s.
func (l *ledger) newest(service, stage string, s *Sighting) string {
	for _, v := range slices.Backward(l.versions[[2]string{service, stage}]) {
		if v.Name != "" && v.Name != s.Version && v.First.Place.compare(s.Place) < 0 {
			return v.Name
		}
	}
	return ""
}

// evict forgets what was not seen for longest while there is too much.
func (l *ledger) evict() {
	for ; len(l.entries) > l.max; l.evicted++ {
		r := l.order.after
		r.unlink()
		delete(l.entries, r.LedgerKey)
		if r.Kind == LedgerVersion {
			k := [2]string{r.Service, r.Stage}
			list := slices.DeleteFunc(l.versions[k], func(v *record) bool { return v == r })
			if l.versions[k] = list; len(list) == 0 {
				delete(l.versions, k)
			}
		}
		r.changed = false // take leaves it out
		l.gone = append(l.gone, r.LedgerKey)
	}
}

// take returns what changed since it was called last.
func (l *ledger) take() (changed []LedgerEntry, gone []LedgerKey) {
	for _, r := range l.changed {
		if r.changed {
			r.changed = false
			changed = append(changed, r.LedgerEntry)
		}
	}
	clear(l.changed)
	gone, l.changed, l.gone = l.gone, l.changed[:0], nil
	// What was forgotten and came again is there.
	gone = slices.DeleteFunc(gone, func(k LedgerKey) bool { return l.entries[k] != nil })
	return changed, gone
}

// Remember makes an entry of the ledger known that TakeLedger gave to this partition before or, if not own, to another
// one, of another cut or another stream, whose sequences mean nothing here. It is called before the first event. An
// entry that cannot be read is counted, and its error returned; nothing else comes of it.
func (a *Analyzer) Remember(key string, value []byte, own bool) error {
	e, err := DecodeLedgerEntry(key, value)
	if err != nil {
		a.metrics.dropped.WithLabelValues(dropLedgerEntry).Inc()
		return err
	}
	if !own {
		e.First.Place, e.Last, e.Count = Place{}, Place{}, 0
	}
	a.ledger.add(&e)
	return nil
}

// TakeLedger returns the entries of the ledger that changed since it was called last, each as it is now, and the keys
// of those that were forgotten. What it returned must be kept before a checkpoint moves beyond the events that were
// processed by then: entries may be ahead of the checkpoint, never behind it.
func (a *Analyzer) TakeLedger() (changed []LedgerEntry, gone []LedgerKey) {
	a.metrics.dropped.WithLabelValues(dropLedger).Add(float64(a.ledger.evicted))
	a.ledger.evicted = 0
	a.metrics.ledger.Set(float64(len(a.ledger.entries)))
	return a.ledger.take()
}

// note remembers the exchange of o, its version and why it failed. Its place is taken in a silent replay too; what it
// shows is in the ledger then.
func (a *Analyzer) note(o *open) {
	e := &o.row
	a.sighting = Sighting{Place{a.seq, a.nth}, e.StoredAt.UTC(), e.ID, e.Labels.ServiceVersion, e.Instance}
	a.nth++
	if !a.emit || !ledgered(e) {
		return
	}
	if o.turn != nil {
		a.ledger.see(&LedgerKey{Kind: LedgerVersion, Service: e.Labels.Service, Stage: e.Labels.Stage, Name: e.Labels.ServiceVersion}, &a.sighting)
	}
	if e.Failed && e.Retry == 0 {
		a.ledger.see(&LedgerKey{LedgerFailure, e.Labels.Service, e.Labels.Stage, e.Cause, e.RootCause}, &a.sighting)
	}
}

// noteDefect remembers the defect of row, if e shows it newly, and says in row what is known of it.
func (a *Analyzer) noteDefect(e *Exchange, row *Finding, newly bool) {
	if !a.emit || !ledgered(e) {
		return
	}
	k := LedgerKey{LedgerDefect, e.Labels.Service, e.Labels.Stage, row.Rule, row.RootCause}
	r := a.ledger.entries[k]
	if newly || r == nil {
		r = a.ledger.see(&k, &a.sighting)
	}
	row.FirstVersion, row.LastClean = r.First.Version, r.LastClean
}

// ledgered reports whether the ledger takes e: neither what was recorded elsewhere, nor what may be incomplete.
func ledgered(e *Exchange) bool { return e.Origin != event.OriginImport && !e.Degraded }
