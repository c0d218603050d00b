package analyzer

import (
	"cmp"
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer/session"
)

// Bounds of a Verdict.
const (
	maxClients = 8  // the longest silent is forgotten
	maxRecent  = 16 // conversations remembered by hash, to tell another one from the same
)

// A Verdict is what a model at a host said to requests that violate one rule in one way.
type Verdict struct {
	Accepted Answers  `json:"accepted"`
	Rejected Answers  `json:"rejected,omitzero"`
	Run      Answers  `json:"run,omitzero"`     // rejections of Clients since the newest acceptance
	Flapped  uint64   `json:"flapped,omitzero"` // conversations of the runs that an acceptance ended
	Clients  []Client `json:"clients,omitempty"`
	Told     *Told    `json:"told,omitempty"` // of the newest ProviderTightened; nil when there was none
}

// Answers are exchanges that were answered alike.
type Answers struct {
	First Sighting `json:"first"`
	Last  Sighting `json:"last"`
	Count uint64   `json:"count"`
	// Conversations is about how many there were. One that is accepted is counted once an hour: what happens to its next
	// request hangs together with the last one, because gateways keep a conversation at one server, but not for ever.
	Conversations uint64   `json:"conversations,omitzero"`
	Recent        []uint32 `json:"recent,omitempty"` // hashes of the newest of them, the newest last
}

// A Client is a version of a service that sent the violation and was accepted: the same code, so what its requests look
// like did not change when its luck did.
type Client struct {
	Service  string    `json:"service"`
	Version  string    `json:"version,omitempty"`
	Accepted uint64    `json:"accepted"`
	LastAt   time.Time `json:"last_at"`           // when it was accepted last
	Rejected time.Time `json:"rejected,omitzero"` // when first in Run; zero when not
}

// Told is what was put out of a verdict, so that it is put out the same again when its events are read again.
type Told struct {
	Counted    Place    `json:"counted"` // of the exchange at which it was counted
	Place      Place    `json:"place"`   // of the exchange at which it was put out last
	First      Sighting `json:"first"`   // the first rejection
	Confidence string   `json:"confidence"`
	Summary    string   `json:"summary"`
	Evidence   string   `json:"evidence"`
	Open       bool     `json:"open,omitempty"` // it is of Run
	Clients    int      `json:"clients"`        // of Run, when it was put out last
	Next       uint64   `json:"next"`           // with so many rejections it is put out again
}

// add takes one more; talk is the hash of its conversation.
func (n *Answers) add(s *Sighting, talk uint32) {
	if n.Count == 0 {
		n.First = *s
	}
	n.Last = *s
	n.Count++
	if slices.Contains(n.Recent, talk) {
		return
	}
	n.Conversations++
	if n.Recent == nil {
		n.Recent = make([]uint32, 0, maxRecent)
	}
	if len(n.Recent) == maxRecent {
		n.Recent = slices.Delete(n.Recent, 0, 1)
	}
	n.Recent = append(n.Recent, talk)
}

func (n *Answers) join(o *Answers) {
	switch {
	case o.Count == 0:
		return
	case n.Count == 0:
		*n = *o
		n.Recent = slices.Clone(o.Recent)
		return
	}
	if o.First.compare(&n.First) < 0 {
		n.First = o.First
	}
	if o.Last.compare(&n.Last) > 0 {
		n.Last = o.Last
	}
	n.Count, n.Conversations = max(n.Count, o.Count), max(n.Conversations, o.Conversations)
}

func (n *Answers) foreign() { n.First.Place, n.Last.Place = Place{}, Place{} }

// accept takes an accepted exchange; it reports whether that ended a run of rejections.
func (v *Verdict) accept(s *Sighting, service string, talk uint32) (ended bool) {
	v.Accepted.add(s, talk)
	c := v.client(service, s.Version)
	if c == nil {
		v.Clients = append(v.Clients, Client{Service: service, Version: s.Version})
		c = &v.Clients[len(v.Clients)-1]
	}
	c.Accepted++
	c.LastAt = s.At
	v.bound()
	if v.Run.Count == 0 {
		return false
	}
	v.Flapped += v.Run.Conversations
	v.Run = Answers{}
	for i := range v.Clients {
		v.Clients[i].Rejected = time.Time{}
	}
	return true
}

// reject takes a rejected exchange; it reports whether it is one of Run.
func (v *Verdict) reject(s *Sighting, service string, talk uint32) bool {
	v.Rejected.add(s, talk)
	c := v.client(service, s.Version)
	if c == nil || s.At.Sub(c.LastAt) > proofLasts {
		return false
	}
	v.Run.add(s, talk)
	if c.Rejected.IsZero() {
		c.Rejected = s.At
	}
	return true
}

func (v *Verdict) client(service, version string) *Client {
	for i := range v.Clients {
		if c := &v.Clients[i]; c.Service == service && c.Version == version {
			return c
		}
	}
	return nil
}

// bound forgets the clients that were not accepted for longest.
func (v *Verdict) bound() {
	for len(v.Clients) > maxClients {
		oldest := 0
		for i := range v.Clients {
			if v.Clients[i].compare(&v.Clients[oldest]) < 0 {
				oldest = i
			}
		}
		v.Clients = slices.Delete(v.Clients, oldest, oldest+1)
	}
}

func (c *Client) compare(o *Client) int {
	return cmp.Or(c.LastAt.Compare(o.LastAt), cmp.Compare(c.Service, o.Service), cmp.Compare(c.Version, o.Version))
}

// flipped is how many clients Run is of.
func (v *Verdict) flipped() (n int) {
	for i := range v.Clients {
		if !v.Clients[i].Rejected.IsZero() {
			n++
		}
	}
	return n
}

// together reports whether clients of two services were rejected first within a day.
func (v *Verdict) together() bool {
	for i := range v.Clients {
		for j := range v.Clients[:i] {
			a, b := &v.Clients[i], &v.Clients[j]
			if a.Service != b.Service && !a.Rejected.IsZero() && !b.Rejected.IsZero() && a.Rejected.Sub(b.Rejected).Abs() <= 24*time.Hour {
				return true
			}
		}
	}
	return false
}

// confidence says how sure it is that the provider rejects what it accepted; "" is not at all.
//
// The question is whether Run may be chance at a provider that is as strict as ever, because what it says hangs on more
// than the violation, or on the server behind the gateway. Of A+F conversations before, F were rejected; one more of each
// keeps the estimate from certainty. k conversations in a row are rejected with the k-th power of that.
func (v *Verdict) confidence() string {
	if v.Accepted.Conversations < 3 {
		return ""
	}
	limit, rank := 1e-4, 2
	if v.Flapped > 0 { // it was both before
		limit, rank = 1e-6, 1
	}
	one, all := float64(v.Flapped+1)/float64(v.Accepted.Conversations+v.Flapped+2), 1.0
	for range v.Run.Conversations {
		if all *= one; all <= limit {
			break
		}
	}
	switch k := v.Run.Conversations; {
	case k >= 2 && all <= limit:
	case v.Flapped == 0 && v.Run.Count >= 3 && one <= 0.02: // of one conversation, or few
		rank = 1
	default:
		return ""
	}
	if !v.versioned() { // a deploy cannot be told from it
		rank = 1
	}
	if v.together() {
		rank++
	}
	return [...]string{"", session.Low, session.Medium, session.High}[rank]
}

// versioned reports whether a client of Run has a version.
func (v *Verdict) versioned() bool {
	return slices.ContainsFunc(v.Clients, func(c Client) bool { return !c.Rejected.IsZero() && c.Version != "" })
}

func (v *Verdict) join(o *Verdict) {
	v.Accepted.join(&o.Accepted)
	v.Rejected.join(&o.Rejected)
	v.Flapped = max(v.Flapped, o.Flapped)
	for i := range o.Clients {
		other := &o.Clients[i]
		c := v.client(other.Service, other.Version)
		if c == nil {
			v.Clients = append(v.Clients, *other)
			continue
		}
		c.Accepted = max(c.Accepted, other.Accepted)
		if other.LastAt.After(c.LastAt) {
			c.LastAt = other.LastAt
		}
	}
	slices.SortFunc(v.Clients, func(a, b Client) int { return a.compare(&b) })
	v.bound()
}

func (v *Verdict) foreign() {
	v.Accepted.foreign()
	v.Rejected.foreign()
	v.Run, v.Told = Answers{}, nil
	for i := range v.Clients {
		v.Clients[i].Rejected = time.Time{}
	}
}

func (v *Verdict) clone() *Verdict {
	c := *v
	for _, n := range []*Answers{&c.Accepted, &c.Rejected, &c.Run} {
		n.Recent = slices.Clone(n.Recent)
	}
	c.Clients = slices.Clone(v.Clients)
	if v.Told != nil {
		told := *v.Told
		c.Told = &told
	}
	return &c
}
