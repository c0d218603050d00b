package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer/session"
)

const (
	// maxEntries limits the entries of the ledgers of all partitions, which share it equally. The least recently seen
	// entry is evicted first.
	maxEntries = 100_000
	// maxVersions limits the versions of one stage: only the newest ones can be the last clean version.
	maxVersions = 64
	// maxCleanCalls limits the counted calls of a version, because each of them changes its entry. So many calls without a
	// failure tell that a failure of 3 in 1,000 calls is new.
	maxCleanCalls = 1000
)

// A Ledger contains the entries of one partition. It is not safe for concurrent use.
type Ledger struct {
	limit    int
	entries  map[Key]*Record
	versions map[[2]string][]*Record // keyed by service and stage, ordered by First, at most maxVersions each
	order    Record                  // head of the ring of all records, least recently seen first
	unsorted bool                    // Add was called since the last sort
	changed  []*Record
	gone     []Key // keys of stored entries that were deleted
	evicted  int
}

// A Record is an entry in a Ledger.
type Record struct {
	Entry
	// VerdictAt is the position of the exchange for which a KindVerdict record was last looked up. Violations of one
	// exchange that share an entry count once.
	VerdictAt Position

	before, after *Record
	changed       bool // the entry has changed since the last Take
	stored        bool // Take returned the entry, or an earlier process stored it
}

// New returns the empty ledger of one of n partitions.
func New(n int) *Ledger {
	l := &Ledger{
		limit: max(maxEntries/max(n, 1), 1), entries: make(map[Key]*Record), versions: make(map[[2]string][]*Record),
	}
	l.order.before, l.order.after = &l.order, &l.order
	return l
}

// Len returns the number of entries.
func (l *Ledger) Len() int { return len(l.entries) }

// Get returns the record of k, or nil.
func (l *Ledger) Get(k Key) *Record { return l.entries[k] }

// Add adds a stored entry. If own, this partition stored it; otherwise, a partition of another partitioning or stream
// did. Add must be called before the first See.
func (l *Ledger) Add(e *Entry, own bool) {
	if !own {
		e.clearPositions()
	}
	l.unsorted = true
	r := l.entries[e.Key]
	switch {
	case r == nil:
		r = &Record{Entry: *e, stored: own}
		l.entries[e.Key] = r
	case own && r.stored:
		r.Entry = r.Merge(e)
	case own:
		r.Entry, *e = *e, r.Entry
		r.join(e)
		r.stored = true
	default:
		r.join(e)
	}
}

func (l *Ledger) insert(r *Record) {
	l.entries[r.Key] = r
	r.link(&l.order)
	if r.Kind != KindVersion {
		return
	}
	k := [2]string{r.Service, r.Stage}
	i, _ := slices.BinarySearchFunc(l.versions[k], r, byFirst)
	l.versions[k] = slices.Insert(l.versions[k], i, r)
	if len(l.versions[k]) > maxVersions {
		l.forget(l.versions[k][0])
	}
}

func byFirst(a, b *Record) int { return a.First.compare(&b.First) }

// link inserts r before end.
func (r *Record) link(end *Record) {
	r.before, r.after = end.before, end
	r.before.after, end.before = r, r
}

func (r *Record) unlink() { r.before.after, r.after.before = r.after, r.before }

// sort orders the added records and evicts records beyond the limit.
func (l *Ledger) sort() {
	if !l.unsorted {
		return
	}
	l.unsorted = false
	all := make([]*Record, 0, len(l.entries))
	for _, r := range l.entries {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *Record) int {
		return cmp.Or(a.Last.Compare(b.Last), a.LastAt.Compare(b.LastAt), a.First.compare(&b.First), a.compare(&b.Key))
	})
	l.order.before, l.order.after = &l.order, &l.order
	clear(l.versions)
	for _, r := range all {
		l.insert(r)
	}
	l.evict()
}

// Has reports whether the entry of k includes the exchange at p.
func (l *Ledger) Has(k *Key, p Position) bool {
	r := l.entries[*k]
	return r != nil && r.Includes(p)
}

// Includes reports whether the entry includes the exchange at p.
func (r *Record) Includes(p Position) bool { return p.Compare(r.Last) <= 0 }

// See records the occurrence s of k and returns the record of k.
func (l *Ledger) See(k *Key, s *Sighting) *Record {
	l.sort()
	return l.see(k, s, s.At, true)
}

// SeeVersion records a judged call of the version k; clean reports whether the provider accepted it.
func (l *Ledger) SeeVersion(k *Key, s *Sighting, clean bool) {
	l.sort()
	r, hour := l.entries[*k], s.At.Truncate(time.Hour)
	if r != nil {
		clean = clean && r.Count < maxCleanCalls
		if !clean && !hour.After(r.LastAt) {
			return
		}
		if hour.Before(r.LastAt) {
			hour = r.LastAt
		}
	}
	l.see(k, s, hour, clean)
}

func (l *Ledger) see(k *Key, s *Sighting, at time.Time, counted bool) *Record {
	r := l.entries[*k]
	switch {
	case r == nil:
		r = &Record{Entry: Entry{Key: *k, First: *s}}
		r.LastClean, r.CleanCalls = l.lastClean(k, s)
		l.insert(r)
		l.evict()
	case r.Includes(s.Position):
		return r
	}
	r.Last, r.LastAt = s.Position, at
	if counted {
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

// lastClean returns the newest version of the stage of k that was seen before s and differs from the version of s, and the
// number of its accepted calls. For a failure without a known root cause, a version that showed the failure with any root cause
// is not clean.
func (l *Ledger) lastClean(k *Key, s *Sighting) (version string, calls uint64) {
	if k.Kind != KindDefect && k.Kind != KindFailure {
		return "", 0
	}
	before, oldest, other := *s, (*Record)(nil), *k
	look := func(root string) {
		other.RootCause = root
		if r := l.entries[other]; r != nil && root != k.RootCause && r.First.compare(&before) < 0 {
			oldest, before = r, r.First
		}
	}
	look("")
	look(session.NoHistory)
	if k.RootCause == "" || k.RootCause == session.NoHistory {
		for _, root := range session.RootCauses {
			look(root)
		}
	}
	if oldest != nil {
		if oldest.LastClean == s.Version {
			return "", 0 // the service went back to a clean version
		}
		return oldest.LastClean, oldest.CleanCalls
	}
	for _, v := range slices.Backward(l.versions[[2]string{k.Service, k.Stage}]) {
		if v.Name != "" && v.Name != s.Version && v.First.Compare(s.Position) < 0 {
			return v.Name, v.Count
		}
	}
	return "", 0
}

// evict deletes the least recently seen records while the ledger exceeds its limit.
func (l *Ledger) evict() {
	for len(l.entries) > l.limit {
		l.forget(l.order.after)
		l.evicted++
	}
}

func (l *Ledger) forget(r *Record) {
	r.unlink()
	delete(l.entries, r.Key)
	if r.Kind == KindVersion {
		k := [2]string{r.Service, r.Stage}
		list := slices.DeleteFunc(l.versions[k], func(v *Record) bool { return v == r })
		if l.versions[k] = list; len(list) == 0 {
			delete(l.versions, k)
		}
	}
	r.changed = false // Take skips the record
	if r.stored {
		l.gone = append(l.gone, r.Key)
	}
}

// Take returns the entries that changed since the last call, the keys of stored entries that were deleted, and the
// number of entries evicted to stay within the limit.
func (l *Ledger) Take() (changed []Entry, gone []Key, evicted int) {
	l.sort()
	for _, r := range l.changed {
		if r.changed {
			r.changed, r.stored = false, true
			changed = append(changed, r.clone())
		}
	}
	clear(l.changed)
	gone, l.changed, l.gone = l.gone, l.changed[:0], nil
	// An entry that was deleted and added again exists.
	gone = slices.DeleteFunc(gone, func(k Key) bool { return l.entries[k] != nil })
	evicted, l.evicted = l.evicted, 0
	return changed, gone, evicted
}
