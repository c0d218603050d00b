package analyzer

import (
	"cmp"
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/event"
)

// maxVersions bounds the versions of one stage: only the newest ones can be the last clean one.
const maxVersions = 64

// A ledger holds the entries of a partition. Of what it saw before it takes nothing twice: an entry that is ahead of
// the stream, because it was kept and the checkpoint was not, stays as it is until the stream has caught up.
type ledger struct {
	max      int
	entries  map[LedgerKey]*record
	versions map[[2]string][]*record // by service and stage, in order of First, at most maxVersions
	order    record                  // ends of the list of all, the longest unseen first
	unsorted bool                    // after add
	changed  []*record
	gone     []LedgerKey // at most as many as were kept
	evicted  int
}

type record struct {
	LedgerEntry
	before, after *record
	changed       bool // in ledger.changed
	kept          bool // take has returned it, or it was kept by a process before

	at Place // of a verdict: the exchange that was looked at last; its violations that are alike are one
}

func newLedger(partitions int) *ledger {
	l := &ledger{
		max: max(maxLedger/max(partitions, 1), 1), entries: make(map[LedgerKey]*record), versions: make(map[[2]string][]*record),
	}
	l.order.before, l.order.after = &l.order, &l.order
	return l
}

// add makes an entry known that this partition kept, or another reader.
func (l *ledger) add(e *LedgerEntry, own bool) {
	l.unsorted = true
	r := l.entries[e.LedgerKey]
	switch {
	case r == nil:
		r = &record{LedgerEntry: *e, kept: own}
		l.entries[e.LedgerKey] = r
	case own && r.kept:
		r.LedgerEntry = r.Merge(e)
	case own:
		r.LedgerEntry, *e = *e, r.LedgerEntry
		r.join(e)
		r.kept = true
	default:
		r.join(e)
	}
}

func (l *ledger) insert(r *record) {
	l.entries[r.LedgerKey] = r
	r.link(&l.order)
	if r.Kind != LedgerVersion {
		return
	}
	k := [2]string{r.Service, r.Stage}
	i, _ := slices.BinarySearchFunc(l.versions[k], r, byFirst)
	l.versions[k] = slices.Insert(l.versions[k], i, r)
	if len(l.versions[k]) > maxVersions {
		l.forget(l.versions[k][0])
	}
}

func byFirst(a, b *record) int { return a.First.compare(&b.First) }

// link puts r before end.
func (r *record) link(end *record) {
	r.before, r.after = end.before, end
	r.before.after, end.before = r, r
}

func (r *record) unlink() { r.before.after, r.after.before = r.after, r.before }

// sort puts what was added in order, and forgets what is too much.
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
	clear(l.versions)
	for _, r := range all {
		l.insert(r)
	}
	l.evict()
}

// has reports whether what was seen at s is in the entry of k.
func (l *ledger) has(k *LedgerKey, s Place) bool {
	r := l.entries[*k]
	return r != nil && s.compare(r.Last) <= 0
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
		r = &record{LedgerEntry: LedgerEntry{LedgerKey: *k, First: *s, LastClean: l.lastClean(k, s)}}
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

// lastClean is the newest version of k's stage that was seen before s and is not that of s. Where the history does not
// say why something broke, it may be what broke before by any root cause, and a version that showed that is not clean.
func (l *ledger) lastClean(k *LedgerKey, s *Sighting) string {
	if k.Kind != LedgerDefect && k.Kind != LedgerFailure {
		return ""
	}
	before, oldest, other := *s, (*record)(nil), *k
	look := func(root string) {
		other.RootCause = root
		if r := l.entries[other]; r != nil && root != k.RootCause && r.First.compare(&before) < 0 {
			oldest, before = r, r.First
		}
	}
	look("")
	look(session.NoHistory)
	if unexplained(k.RootCause) {
		for _, root := range session.RootCauses {
			look(root)
		}
	}
	if oldest != nil {
		if oldest.LastClean == s.Version {
			return "" // it went back to a version that was clean
		}
		return oldest.LastClean
	}
	for _, v := range slices.Backward(l.versions[[2]string{k.Service, k.Stage}]) {
		if v.Name != "" && v.Name != s.Version && v.First.Place.compare(s.Place) < 0 {
			return v.Name
		}
	}
	return ""
}

func unexplained(root string) bool { return root == "" || root == session.NoHistory }

// evict forgets what was not seen for longest while there is too much.
func (l *ledger) evict() {
	for len(l.entries) > l.max {
		l.forget(l.order.after)
		l.evicted++
	}
}

// forget takes r out.
func (l *ledger) forget(r *record) {
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
	if r.kept {
		l.gone = append(l.gone, r.LedgerKey)
	}
}

// take returns what changed since it was called last.
func (l *ledger) take() (changed []LedgerEntry, gone []LedgerKey) {
	for _, r := range l.changed {
		if r.changed {
			r.changed, r.kept = false, true
			changed = append(changed, r.clone())
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
//
// Other partitions of the same cut are not for Remember: what a partition puts out is a function of its own events, and
// theirs go on while it reads.
func (a *Analyzer) Remember(key string, value []byte, own bool) error {
	e, err := DecodeLedgerEntry(key, value)
	if err != nil {
		a.metrics.dropped.WithLabelValues(dropLedgerEntry).Inc()
		return err
	}
	if !own {
		e.foreign()
	}
	a.ledger.add(&e, own)
	return nil
}

// TakeLedger returns the entries of the ledger that changed since it was called last, each as it is now, and the keys
// of those that were forgotten. What it returned must be kept before a checkpoint moves beyond the events that were
// processed by then, and after the rows that were put out by then are stored: what is in the ledger is not put out again.
// So kept entries may be ahead of the checkpoint, never behind it.
func (a *Analyzer) TakeLedger() (changed []LedgerEntry, gone []LedgerKey) {
	a.ledger.sort()
	a.metrics.dropped.WithLabelValues(dropLedger).Add(float64(a.ledger.evicted))
	a.ledger.evicted = 0
	a.metrics.ledger.Set(float64(len(a.ledger.entries)))
	return a.ledger.take()
}

// note remembers the exchange of o, its version and why it failed. Its place is taken in a silent replay too; what it
// shows is in the ledger then. It returns what the ledger knows of the reason of the failure, or nil, and whether it knows
// it from this exchange on: the same in a replay, because the ledger is never behind the checkpoint.
func (a *Analyzer) note(o *open) (known *record, isNew bool) {
	e := &o.row
	a.sighting = Sighting{Place{a.seq, a.nth}, e.StoredAt.UTC(), e.ID, e.Labels.ServiceVersion, e.Instance}
	a.nth++
	if !ledgered(e) {
		return nil, false
	}
	k := LedgerKey{Kind: LedgerVersion, Service: e.Labels.Service, Stage: e.Labels.Stage, Name: e.Labels.ServiceVersion}
	if a.emit && o.turn != nil {
		a.ledger.see(&k, &a.sighting)
	}
	if !e.Failed || e.Retry > 0 {
		return nil, false
	}
	k.Kind, k.Name, k.RootCause = LedgerFailure, e.Cause, e.RootCause
	r := a.ledger.entries[k]
	if a.emit {
		r = a.ledger.see(&k, &a.sighting)
	}
	return r, r != nil && r.First.Place == a.sighting.Place
}

// noteDefect remembers the defect of row, if e shows it newly, and says in row what is known of it.
func (a *Analyzer) noteDefect(e *Exchange, row *Finding, newly bool) {
	if !a.emit || !ledgered(e) {
		return
	}
	k := LedgerKey{Kind: LedgerDefect, Service: e.Labels.Service, Stage: e.Labels.Stage, Name: row.Rule, RootCause: row.RootCause}
	r := a.ledger.entries[k]
	if newly || r == nil {
		r = a.ledger.see(&k, &a.sighting)
	}
	row.FirstVersion, row.LastClean = r.First.Version, r.LastClean
}

// ledgered reports whether the ledger takes e: neither what was recorded elsewhere, nor what may be incomplete.
func ledgered(e *Exchange) bool { return e.Origin != event.OriginImport && !e.Degraded }
