package ledger

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/limit"
)

// Kinds of a Key.
const (
	KindDefect  = "defect"  // a rule (Name) in a service and stage, with a root cause
	KindFailure = "failure" // a cause of failures (Name) in a service and stage, with a root cause
	KindVersion = "version" // a service version (Name) with judged calls, in a service and stage
	KindVerdict = "verdict" // the answers of a model at a host to violations of a rule (Name) with the same Detail
	KindModel   = "model"   // a model (Name) that answers requests for Model, in a service and stage; Host is the provider
)

// A Key identifies an entry.
type Key struct {
	Kind      string `json:"kind"`
	Service   string `json:"service,omitempty"`
	Stage     string `json:"stage,omitempty"`
	Host      string `json:"host,omitempty"` // the provider for KindModel
	Model     string `json:"model,omitempty"`
	Name      string `json:"name"`
	Detail    string `json:"detail,omitempty"`
	RootCause string `json:"root_cause,omitempty"`
}

// String returns a unique name of k that fits any store: 32 hex digits.
func (k *Key) String() string {
	sum := identity.Of(k.Kind, k.Service, k.Stage, k.Host, k.Model, k.Name, k.Detail, k.RootCause)
	return sum.ID()
}

func (k *Key) compare(o *Key) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), cmp.Compare(k.Service, o.Service), cmp.Compare(k.Stage, o.Stage),
		cmp.Compare(k.Host, o.Host), cmp.Compare(k.Model, o.Model), cmp.Compare(k.Name, o.Name),
		cmp.Compare(k.Detail, o.Detail), cmp.Compare(k.RootCause, o.RootCause))
}

// A Position orders the completed exchanges of a partition. It is the stream sequence of the newest event and the
// number of exchanges completed since that event. An exchange that times out has its own position, whether the next
// event or Advance triggers the timeout.
type Position struct {
	Seq uint64 `json:"seq"`
	Nth uint32 `json:"nth,omitempty"`
}

// Compare returns -1, 0 or 1 if p is before, at or after o.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Seq, o.Seq), cmp.Compare(p.Nth, o.Nth))
}

// A Sighting is an occurrence of what an entry is about, in one exchange.
type Sighting struct {
	Position           // zero if another reader read the exchange, see Ledger.Add
	At       time.Time `json:"at"` // stream time
	Exchange string    `json:"exchange"`
	Version  string    `json:"version,omitempty"`  // service version
	Instance string    `json:"instance,omitempty"` // process
}

// compare orders sightings by time first, because the positions of another reader are unknown.
func (s *Sighting) compare(o *Sighting) int {
	return cmp.Or(s.At.Compare(o.At), s.Compare(o.Position), cmp.Compare(s.Exchange, o.Exchange),
		cmp.Compare(s.Version, o.Version), cmp.Compare(s.Instance, o.Instance))
}

// An Entry is the long-term memory of a defect, a cause of failures, a version, a verdict or a model in one partition.
type Entry struct {
	Key
	First Sighting `json:"first"`
	// LastClean is the newest other version of the stage that had judged calls before First and had not shown the
	// defect. It is "" if there was none, and for versions and verdicts. For a model, it is the one that answered before.
	LastClean string `json:"last_clean,omitempty"`
	// CleanCalls is a lower bound of the accepted calls of LastClean before First, at most maxCleanCalls; 0 if it is unknown.
	CleanCalls uint64 `json:"clean_calls,omitempty"`
	// Replaced is the exchange with which it was clear that a model replaces LastClean; zero if it is not clear.
	Replaced Position `json:"replaced,omitzero"`

	Last    Position  `json:"last"`
	LastAt  time.Time `json:"last_at"`           // stream time; for a version or a model, the hour, so that not every call changes the entry
	Count   uint64    `json:"count"`             // exchanges with a new occurrence; for a verdict, all exchanges; for a version or a model, accepted calls up to maxCleanCalls
	Verdict *Verdict  `json:"verdict,omitempty"` // only for KindVerdict
}

// Merge joins two entries of the same partition and key, from two readers or from one reader at two times. Each is a
// function of the stream up to its Last, so the later entry includes the other, except for a First whose entry was
// evicted and added again. Merge is commutative, associative and idempotent.
func (e *Entry) Merge(o *Entry) Entry {
	m := *e
	if cmp.Or(o.Last.Compare(e.Last), o.LastAt.Compare(e.LastAt), cmp.Compare(o.Count, e.Count)) > 0 {
		m = *o
	}
	m.First, m.LastClean, m.CleanCalls = first(e, o)
	return m
}

// first returns First, LastClean and CleanCalls of the entry with the earlier First.
func first(e, o *Entry) (Sighting, string, uint64) {
	if cmp.Or(o.First.compare(&e.First), cmp.Compare(e.LastClean, o.LastClean), cmp.Compare(e.CleanCalls, o.CleanCalls)) < 0 {
		e = o
	}
	return e.First, e.LastClean, e.CleanCalls
}

// join adds to e the entry of a reader of another partitioning or of another stream. It keeps the larger of the two
// counts, so that nothing is counted twice and the count is a lower bound.
func (e *Entry) join(o *Entry) {
	e.First, e.LastClean, e.CleanCalls = first(e, o)
	if o.LastAt.After(e.LastAt) {
		e.LastAt = o.LastAt
	}
	e.Count = max(e.Count, o.Count)
	if e.Verdict != nil && o.Verdict != nil {
		e.Verdict.join(o.Verdict)
	}
}

// clearPositions clears the positions of e, which belong to another reader and have no meaning here.
func (e *Entry) clearPositions() {
	e.First.Position, e.Last, e.Replaced = Position{}, Position{}, Position{}
	if e.Verdict != nil {
		e.Verdict.clearPositions()
	}
}

// clone returns a copy of e that shares no memory with e.
func (e *Entry) clone() Entry {
	c := *e
	if e.Verdict != nil {
		c.Verdict = e.Verdict.clone()
	}
	return c
}

// Decode decodes the JSON of an entry that was stored under key, the result of Key.String.
func Decode(key string, value []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(value, &e); err != nil {
		return e, fmt.Errorf("decode ledger entry %s: %w", key, err)
	}
	if err := e.check(key); err != nil {
		return e, fmt.Errorf("check ledger entry %s: %w", key, err)
	}
	return e, nil
}

func (e *Entry) check(key string) error {
	switch e.Kind {
	case KindDefect, KindFailure, KindVersion, KindVerdict, KindModel:
	default:
		return fmt.Errorf("unknown kind %q", limit.Text(e.Kind, 32))
	}
	switch {
	case e.String() != key:
		return errors.New("entry has another key")
	case e.Last.Compare(e.First.Position) < 0:
		return fmt.Errorf("last sequence %d is before first sequence %d", e.Last.Seq, e.First.Seq)
	case (e.Verdict != nil) != (e.Kind == KindVerdict):
		return errors.New("entries of kind verdict, and no others, have a verdict")
	case e.Verdict != nil && (len(e.Verdict.Clients) > maxClients || len(e.Verdict.Accepted.Recent) > maxRecent || len(e.Verdict.Run.Recent) > maxRecent ||
		len(e.Verdict.Tolerance.Talks) > minTalks):
		return errors.New("verdict has too many clients or conversations")
	}
	return nil
}
