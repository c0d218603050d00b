package analyzer

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Kinds of a LedgerKey.
const (
	LedgerDefect  = "defect"  // Name is a rule
	LedgerFailure = "failure" // Name is a cause of failed exchanges
	LedgerVersion = "version" // Name is a service version that made calls which were judged
)

// maxLedger bounds the entries of a ledger; the one that was not seen for longest is forgotten.
const maxLedger = 100_000

// A LedgerKey says what an entry of the ledger is about.
type LedgerKey struct {
	Kind      string `json:"kind"`
	Service   string `json:"service"`
	Stage     string `json:"stage,omitempty"`
	Name      string `json:"name"`
	RootCause string `json:"root_cause,omitempty"`
}

// String is a name for k that fits any store: 32 hex digits, no two keys alike.
func (k *LedgerKey) String() string {
	sum := digest(k.Kind, k.Service, k.Stage, k.Name, k.RootCause)
	return hex.EncodeToString(sum[:16])
}

func (k *LedgerKey) compare(o *LedgerKey) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), cmp.Compare(k.Service, o.Service), cmp.Compare(k.Stage, o.Stage),
		cmp.Compare(k.Name, o.Name), cmp.Compare(k.RootCause, o.RootCause))
}

// A Place is a point in what a partition reports, in its order: the stream sequence of the newest event, and the how-manieth
// exchange was completed since that event came. An exchange that is timed out has one of its own this way, and the same
// whether the next event or Advance finds it due.
type Place struct {
	Seq uint64 `json:"seq"`
	Nth uint32 `json:"nth,omitempty"`
}

func (p Place) compare(o Place) int {
	return cmp.Or(cmp.Compare(p.Seq, o.Seq), cmp.Compare(p.Nth, o.Nth))
}

// A Sighting is an exchange that showed something.
type Sighting struct {
	Place
	At       time.Time `json:"at"` // stream time
	Exchange string    `json:"exchange"`
	Version  string    `json:"version,omitempty"`  // of the service
	Instance string    `json:"instance,omitempty"` // the process
}

func (s *Sighting) compare(o *Sighting) int {
	return cmp.Or(s.Place.compare(o.Place), s.At.Compare(o.At), cmp.Compare(s.Exchange, o.Exchange),
		cmp.Compare(s.Version, o.Version), cmp.Compare(s.Instance, o.Instance))
}

// A LedgerEntry is what is remembered for weeks of a defect, a cause of failures or a version, in one partition.
type LedgerEntry struct {
	LedgerKey
	First Sighting `json:"first"`
	// LastClean is the newest other version that the stage had made judged calls with before First; it had not shown the
	// defect, because nobody had. "" when there was none. A version has none.
	LastClean string    `json:"last_clean,omitempty"`
	Last      Place     `json:"last"`
	LastAt    time.Time `json:"last_at"` // stream time; of a version its hour, so that not every call changes its entry
	Count     uint64    `json:"count"`   // exchanges that showed it newly; of a version always 0
}

// Merge joins what two readers of the same stream remember under one key, or one reader at two times. Each is a
// function of the stream up to its Last, so the later one has counted all that the other has. Merge is commutative,
// associative and idempotent.
func (e *LedgerEntry) Merge(o *LedgerEntry) LedgerEntry {
	m, later := *e, o
	if c := o.First.compare(&e.First); c < 0 || c == 0 && o.LastClean > e.LastClean {
		m.First, m.LastClean = o.First, o.LastClean
	}
	if cmp.Or(o.Last.compare(e.Last), o.LastAt.Compare(e.LastAt), cmp.Compare(o.Count, e.Count)) < 0 {
		later = e
	}
	m.Last, m.LastAt, m.Count = later.Last, later.LastAt, later.Count
	return m
}

// DecodeLedgerEntry reads the JSON of an entry that was kept under k.String().
func DecodeLedgerEntry(key string, value []byte) (LedgerEntry, error) {
	var e LedgerEntry
	if err := json.Unmarshal(value, &e); err != nil {
		return e, fmt.Errorf("decode ledger entry %s: %w", key, err)
	}
	if err := e.check(key); err != nil {
		return e, fmt.Errorf("check ledger entry %s: %w", key, err)
	}
	return e, nil
}

func (e *LedgerEntry) check(key string) error {
	switch {
	case e.Kind != LedgerDefect && e.Kind != LedgerFailure && e.Kind != LedgerVersion:
		return fmt.Errorf("kind %q is none", cut(e.Kind, 32))
	case e.String() != key:
		return errors.New("it is of another key")
	case e.Last.compare(e.First.Place) < 0:
		return fmt.Errorf("last at %d, before first at %d", e.Last.Seq, e.First.Seq)
	}
	return nil
}
