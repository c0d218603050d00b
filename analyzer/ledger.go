package analyzer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/limit"
)

// Kinds of a LedgerKey.
const (
	LedgerDefect  = "defect"  // Name is a rule; of a service, a stage and a root cause
	LedgerFailure = "failure" // Name is a cause of failed exchanges; likewise
	LedgerVersion = "version" // Name is a service version that made calls which were judged; of a service and a stage
	LedgerVerdict = "verdict" // Name is a rule; of a host, a model and a detail: what they said to its violation
)

// maxLedger bounds the entries of the ledgers of all partitions; each has its share. The entry that was not seen for
// longest is forgotten.
const maxLedger = 100_000

// A LedgerKey says what an entry of the ledger is about.
type LedgerKey struct {
	Kind      string `json:"kind"`
	Service   string `json:"service,omitempty"`
	Stage     string `json:"stage,omitempty"`
	Host      string `json:"host,omitempty"`
	Model     string `json:"model,omitempty"`
	Name      string `json:"name"`
	Detail    string `json:"detail,omitempty"`
	RootCause string `json:"root_cause,omitempty"`
}

// String is a name for k that fits any store: 32 hex digits, no two keys alike.
func (k *LedgerKey) String() string {
	sum := identity.Of(k.Kind, k.Service, k.Stage, k.Host, k.Model, k.Name, k.Detail, k.RootCause)
	return sum.ID()
}

func (k *LedgerKey) compare(o *LedgerKey) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), cmp.Compare(k.Service, o.Service), cmp.Compare(k.Stage, o.Stage),
		cmp.Compare(k.Host, o.Host), cmp.Compare(k.Model, o.Model), cmp.Compare(k.Name, o.Name),
		cmp.Compare(k.Detail, o.Detail), cmp.Compare(k.RootCause, o.RootCause))
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
	Place              // zero when another reader saw it, see Analyzer.Remember
	At       time.Time `json:"at"` // stream time
	Exchange string    `json:"exchange"`
	Version  string    `json:"version,omitempty"`  // of the service
	Instance string    `json:"instance,omitempty"` // the process
}

// compare orders by time first: a place says nothing about what another reader saw.
func (s *Sighting) compare(o *Sighting) int {
	return cmp.Or(s.At.Compare(o.At), s.Place.compare(o.Place), cmp.Compare(s.Exchange, o.Exchange),
		cmp.Compare(s.Version, o.Version), cmp.Compare(s.Instance, o.Instance))
}

// A LedgerEntry is what is remembered for weeks of a defect, a cause of failures, a version or a verdict, in one
// partition.
type LedgerEntry struct {
	LedgerKey
	First Sighting `json:"first"`
	// LastClean is the newest other version that the stage had made judged calls with before First; it had not shown the
	// defect, because nobody had. "" when there was none. Versions and verdicts have none.
	LastClean string    `json:"last_clean,omitempty"`
	Last      Place     `json:"last"`
	LastAt    time.Time `json:"last_at"`           // stream time; of a version its hour, so that not every call changes its entry
	Count     uint64    `json:"count"`             // exchanges that showed it newly; of a verdict all; of a version always 0
	Verdict   *Verdict  `json:"verdict,omitempty"` // of a LedgerVerdict
}

// Merge joins what two readers of the same partition remember under one key, or one reader at two times. Each is a
// function of the stream up to its Last, so the later one knows all that the other does, but for a First that it has
// forgotten and seen anew. Merge is commutative, associative and idempotent.
func (e *LedgerEntry) Merge(o *LedgerEntry) LedgerEntry {
	m := *e
	if cmp.Or(o.Last.compare(e.Last), o.LastAt.Compare(e.LastAt), cmp.Compare(o.Count, e.Count)) > 0 {
		m = *o
	}
	m.First, m.LastClean = first(e, o)
	return m
}

// first is the earlier beginning of e and o.
func first(e, o *LedgerEntry) (Sighting, string) {
	if cmp.Or(o.First.compare(&e.First), cmp.Compare(e.LastClean, o.LastClean)) < 0 {
		e = o
	}
	return e.First, e.LastClean
}

// join adds to e what a reader of another cut of the stream, or of another stream, remembered. Nothing is counted
// twice: of each count the larger one stays, so that it is a lower bound.
func (e *LedgerEntry) join(o *LedgerEntry) {
	e.First, e.LastClean = first(e, o)
	if o.LastAt.After(e.LastAt) {
		e.LastAt = o.LastAt
	}
	e.Count = max(e.Count, o.Count)
	if e.Verdict != nil && o.Verdict != nil {
		e.Verdict.join(o.Verdict)
	}
}

// foreign makes e one that another reader remembered: its places mean nothing here.
func (e *LedgerEntry) foreign() {
	e.First.Place, e.Last = Place{}, Place{}
	if e.Verdict != nil {
		e.Verdict.foreign()
	}
}

// clone is e with memory of its own.
func (e *LedgerEntry) clone() LedgerEntry {
	c := *e
	if e.Verdict != nil {
		c.Verdict = e.Verdict.clone()
	}
	return c
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
	switch e.Kind {
	case LedgerDefect, LedgerFailure, LedgerVersion, LedgerVerdict:
	default:
		return fmt.Errorf("kind %q is none", limit.Text(e.Kind, 32))
	}
	switch {
	case e.String() != key:
		return errors.New("it is of another key")
	case e.Last.compare(e.First.Place) < 0:
		return fmt.Errorf("last at %d, before first at %d", e.Last.Seq, e.First.Seq)
	case (e.Verdict != nil) != (e.Kind == LedgerVerdict):
		return errors.New("a verdict, and no other, says what was accepted and rejected")
	case e.Verdict != nil && (len(e.Verdict.Clients) > maxClients || len(e.Verdict.Accepted.Recent) > maxRecent || len(e.Verdict.Run.Recent) > maxRecent):
		return errors.New("it has more clients or conversations than a verdict may have")
	}
	return nil
}
