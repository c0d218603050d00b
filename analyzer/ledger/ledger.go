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
	// maxSiblings limits the versions of one stage, and the models that answer requests for one: only the newest ones matter.
	maxSiblings = 64
	// maxCleanCalls limits the counted calls of a version, because each of them changes its entry. So many calls without a
	// failure tell that a failure of 3 in 1,000 calls is new.
	maxCleanCalls = 1000
	// A model replaces another if it gave minAnswers and the other minAnswersBefore, so that an odd answer is no change. If more than
	// maxModels answered within a week, a router chooses among them, and another one is no change either.
	minAnswers, minAnswersBefore = 10, 50
	maxModels                    = 3
	// maxRecentModels is the number of models that are recorded within a week. A gateway that makes up a name for each answer would
	// otherwise change the ledger with each call.
	maxRecentModels = 16
)

// A Ledger contains the entries of one partition. It is not safe for concurrent use.
type Ledger struct {
	limit    int
	entries  map[Key]*Record
	siblings map[Key][]*Record // versions and models, keyed by their Key without its Name, ordered by First, at most maxSiblings each
	order    Record            // head of the ring of all records, least recently seen first
	unsorted bool              // Add was called since the last sort
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
		limit: max(maxEntries/max(n, 1), 1), entries: make(map[Key]*Record), siblings: make(map[Key][]*Record),
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
	if k, ok := r.siblings(); ok {
		i, _ := slices.BinarySearchFunc(l.siblings[k], r, byFirst)
		l.siblings[k] = slices.Insert(l.siblings[k], i, r)
		if len(l.siblings[k]) > maxSiblings {
			l.forget(l.siblings[k][0])
		}
	}
}

// siblings returns the key of the versions or models to which k belongs; false if it is neither.
func (k Key) siblings() (Key, bool) {
	k.Name = ""
	return k, k.Kind == KindVersion || k.Kind == KindModel
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
	clear(l.siblings)
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
	return l.see(l.entries[*k], k, s, s.At, true)
}

// SeeModel records an answer of the model k, and returns its record.
func (l *Ledger) SeeModel(k *Key, s *Sighting) *Record {
	l.sort()
	r := l.entries[*k]
	if r == nil && l.recentModels(k, s) >= maxRecentModels {
		return &Record{}
	}
	r = l.seeHourly(r, k, s, true)
	if r.Count == minAnswers && r.Last == s.Position && r.CleanCalls >= minAnswersBefore && r.Replaced == (Position{}) {
		r.Replaced = s.Position
	}
	return r
}

// SeeVersion records a judged call of the version k; clean reports whether the provider accepted it. It returns the record of k.
func (l *Ledger) SeeVersion(k *Key, s *Sighting, clean bool) *Record {
	l.sort()
	return l.seeHourly(l.entries[*k], k, s, clean)
}

// seeHourly records the occurrence s in r, the record of k or nil, once an hour and for each of the first clean calls.
func (l *Ledger) seeHourly(r *Record, k *Key, s *Sighting, clean bool) *Record {
	hour := s.At.Truncate(time.Hour)
	if r != nil {
		clean = clean && r.Count < maxCleanCalls
		if !clean && !hour.After(r.LastAt) {
			return r
		}
		if hour.Before(r.LastAt) {
			hour = r.LastAt
		}
	}
	return l.see(r, k, s, hour, clean)
}

func (l *Ledger) see(r *Record, k *Key, s *Sighting, at time.Time, counted bool) *Record {
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
// number of its accepted calls; for a model, the model before. For a failure without a known root cause, a version that showed the failure with any root cause
// is not clean.
func (l *Ledger) lastClean(k *Key, s *Sighting) (version string, calls uint64) {
	switch k.Kind {
	case KindModel:
		return l.modelBefore(k, s)
	case KindVersion, KindVerdict:
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
	for _, v := range slices.Backward(l.siblings[Key{Kind: KindVersion, Service: k.Service, Stage: k.Stage}]) {
		if v.Name != "" && v.Name != s.Version && v.First.Compare(s.Position) < 0 {
			return v.Name, v.Count
		}
	}
	return "", 0
}

// modelBefore returns the model that gave the last answers to the same requests as k, and their number.
func (l *Ledger) modelBefore(k *Key, s *Sighting) (name string, calls uint64) {
	var last *Record
	of, _ := k.siblings()
	for _, r := range l.siblings[of] {
		if last == nil || cmp.Or(r.LastAt.Compare(last.LastAt), r.Last.Compare(last.Last)) > 0 {
			last = r
		}
	}
	if last == nil || l.recentModels(k, s) > maxModels {
		return "", 0
	}
	return last.Name, last.Count
}

// recentModels returns how many models answered the same requests as k in the week before s.
func (l *Ledger) recentModels(k *Key, s *Sighting) (n int) {
	of, _ := k.siblings()
	for _, r := range l.siblings[of] {
		if s.At.Sub(r.LastAt) < 7*24*time.Hour {
			n++
		}
	}
	return n
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
	if k, ok := r.siblings(); ok {
		list := slices.DeleteFunc(l.siblings[k], func(v *Record) bool { return v == r })
		if l.siblings[k] = list; len(list) == 0 {
			delete(l.siblings, k)
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
