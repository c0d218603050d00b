package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/session"
)

const (
	maxClients = 8  // clients per verdict; beyond them, the client with the oldest last acceptance is removed
	maxRecent  = 16 // hashes of recent conversations, to distinguish new conversations from known ones

	// proofLasts is how long an acceptance proves that a request rejected now would previously have been accepted.
	proofLasts = 4 * 7 * 24 * time.Hour
)

// A Verdict describes how a model at a host answers requests that violate one rule in one way.
type Verdict struct {
	Accepted Answers  `json:"accepted"`
	Rejected Answers  `json:"rejected,omitzero"`
	Run      Answers  `json:"run,omitzero"`     // rejections of clients in Clients since the newest acceptance
	Flapped  uint64   `json:"flapped,omitzero"` // conversations of earlier runs, which ended with an acceptance
	Clients  []Client `json:"clients,omitempty"`
	Report   *Report  `json:"report,omitempty"` // newest report; nil if none

	Tolerance Tolerance `json:"tolerance,omitzero"`
}

// Answers summarizes the exchanges with one answer: accepted or rejected.
type Answers struct {
	First Sighting `json:"first"`
	Last  Sighting `json:"last"`
	Count uint64   `json:"count"`
	// Conversations is the approximate number of conversations. An accepted conversation counts once per hour:
	// consecutive requests of a conversation often have the same outcome, because gateways route them to the same
	// server, but not forever.
	Conversations uint64   `json:"conversations,omitzero"`
	Recent        []uint32 `json:"recent,omitempty"` // hashes of the newest conversations, in chronological order
}

// A Client is a version of a service that sent the violation and was accepted. The code of a version does not change,
// so its requests are not the reason if the answers change.
type Client struct {
	Service  string    `json:"service"`
	Version  string    `json:"version,omitempty"`
	Accepted uint64    `json:"accepted"`
	LastAt   time.Time `json:"last_at"`           // time of the last acceptance
	Rejected time.Time `json:"rejected,omitzero"` // time of the first rejection in Run; zero if none
}

// A Report is the emitted finding that a provider became stricter. The same finding is emitted if its events are read
// again.
type Report struct {
	Counted    Position `json:"counted"` // position of the exchange that was counted in the tallies
	Last       Position `json:"last"`    // position of the exchange that last emitted the report
	First      Sighting `json:"first"`   // first rejection
	Confidence string   `json:"confidence"`
	Summary    string   `json:"summary"`
	Evidence   string   `json:"evidence"`
	Open       bool     `json:"open,omitempty"` // the report is about Run
	Clients    int      `json:"clients"`        // rejected clients when the report was last emitted
	Next       uint64   `json:"next"`           // number of rejections at which the report is emitted again
}

// Accept adds an accepted exchange of a conversation and reports whether Report changed because a run ended.
func (v *Verdict) Accept(s *Sighting, service, conversation string) (report bool) {
	v.Accepted.add(s, hash32(conversation, s.At.Unix()/3600))
	v.Tolerance.accept(s, conversation)
	c := v.Client(service, s.Version)
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
	if v.Report == nil || !v.Report.Open {
		return false
	}
	v.Report.Open, v.Report.Confidence, v.Report.Last = false, session.Low, s.Position
	v.Report.Evidence += "; accepted again at " + clock(s.At)
	return true
}

// Reject adds a rejected exchange of a conversation and reports whether Report is new or has changed enough to be
// emitted again. what describes the rejection in the summary.
func (v *Verdict) Reject(s *Sighting, service, conversation, what string) (report bool) {
	hash := hash32(conversation, 0)
	v.Rejected.add(s, hash)
	v.Tolerance.Refuse(s)
	c := v.Client(service, s.Version)
	if c == nil || s.At.Sub(c.LastAt) > proofLasts {
		return false
	}
	v.Run.add(s, hash)
	if c.Rejected.IsZero() {
		c.Rejected = s.At
	}
	confidence, clients := v.confidence(), v.rejectedClients()
	switch r := v.Report; {
	case confidence == "":
		return false
	case r == nil || !r.Open:
		v.Report = &Report{Counted: s.Position, First: v.Run.First, Open: true}
	case r.Confidence == confidence && r.Clients == clients && v.Run.Count < r.Next:
		return false
	}
	r := v.Report
	r.Last, r.Confidence, r.Clients, r.Next = s.Position, confidence, clients, 2*v.Run.Count
	r.Summary = fmt.Sprintf("%s, which it accepted %d times until %s", what, v.Accepted.Count, clock(v.Accepted.Last.At))
	r.Evidence = v.evidence()
	return true
}

// RefusedAt reports whether, when the exchange at p completed, an error text had named the violation and no request with it had
// been accepted.
func (v *Verdict) RefusedAt(p Position) bool {
	return v.Rejected.Count > 0 && v.Rejected.First.Compare(p) < 0 && (v.Accepted.Count == 0 || v.Accepted.First.Compare(p) >= 0)
}

// Client returns the client with this service and version, or nil.
func (v *Verdict) Client(service, version string) *Client {
	for i := range v.Clients {
		if c := &v.Clients[i]; c.Service == service && c.Version == version {
			return c
		}
	}
	return nil
}

// add adds one exchange; conversation is a hash.
func (n *Answers) add(s *Sighting, conversation uint32) {
	if n.Count == 0 {
		n.First = *s
	}
	n.Last = *s
	n.Count++
	if slices.Contains(n.Recent, conversation) {
		return
	}
	n.Conversations++
	if n.Recent == nil {
		n.Recent = make([]uint32, 0, maxRecent)
	}
	if len(n.Recent) == maxRecent {
		n.Recent = slices.Delete(n.Recent, 0, 1)
	}
	n.Recent = append(n.Recent, conversation)
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

func (n *Answers) clearPositions() { n.First.Position, n.Last.Position = Position{}, Position{} }

// bound removes the clients with the oldest last acceptance beyond the limit.
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

// rejectedClients returns the number of clients rejected in Run.
func (v *Verdict) rejectedClients() (n int) {
	for i := range v.Clients {
		if !v.Clients[i].Rejected.IsZero() {
			n++
		}
	}
	return n
}

// together reports whether the first rejections of two services are at most a day apart.
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

// versioned reports whether any client with rejections in v.Run has a known version.
func (v *Verdict) versioned() bool {
	return slices.ContainsFunc(v.Clients, func(c Client) bool { return !c.Rejected.IsZero() && c.Version != "" })
}

// confidence returns the confidence that the provider rejects what it accepted before; "" without sufficient evidence.
//
// Run may be chance even if the provider is as strict as ever, because the answer may also depend on other properties
// of the request or on the server behind a gateway. If F of A+F earlier conversations were rejected, the estimated
// probability of a rejection is (F+1)/(A+F+2), which is never 0 or 1. The probability of k rejected conversations in a
// row is the k-th power of that.
func (v *Verdict) confidence() string {
	if v.Accepted.Conversations < 3 {
		return ""
	}
	bound, rank := 1e-4, 2
	if v.Flapped > 0 { // the provider has both accepted and rejected before
		bound, rank = 1e-6, 1
	}
	one, all := float64(v.Flapped+1)/float64(v.Accepted.Conversations+v.Flapped+2), 1.0
	for range v.Run.Conversations {
		if all *= one; all <= bound {
			break
		}
	}
	switch k := v.Run.Conversations; {
	case k >= 2 && all <= bound:
	case v.Flapped == 0 && v.Run.Count >= 3 && one <= 0.02: // repeated rejections, possibly all in one conversation
		rank = 1
	default:
		return ""
	}
	if !v.versioned() { // without a version, a deploy is possible
		rank = 1
	}
	if v.together() {
		rank++
	}
	return [...]string{"", session.Low, session.Medium, session.High}[rank]
}

// evidence describes what was accepted, from whom and until when, and what has been rejected since.
func (v *Verdict) evidence() string {
	var b strings.Builder
	n := &v.Accepted
	fmt.Fprintf(&b, "accepted %d times from %s to %s, by ", n.Count, clock(n.First.At), clock(n.Last.At))
	for i := range v.Clients {
		if i > 0 {
			b.WriteString(", ")
		}
		v.Clients[i].write(&b)
	}
	in := "one conversation"
	if v.Run.Conversations > 1 {
		in = fmt.Sprintf("%d conversations", v.Run.Conversations)
	}
	fmt.Fprintf(&b, "; rejected since %s, %d times in %s, and not accepted since", clock(v.Run.First.At), v.Run.Count, in)
	if v.Flapped > 0 {
		fmt.Fprintf(&b, "; %d conversations were rejected earlier, so it may change again", v.Flapped)
	}
	return b.String()
}

func (c *Client) write(b *strings.Builder) {
	b.WriteString(c.Service)
	if c.Version != "" {
		b.WriteString(" " + limit.Text(c.Version, 64))
	}
	fmt.Fprintf(b, " (%d times", c.Accepted)
	if !c.Rejected.IsZero() {
		b.WriteString(", rejected since " + clock(c.Rejected))
	}
	b.WriteString(")")
}

func (v *Verdict) join(o *Verdict) {
	v.Accepted.join(&o.Accepted)
	v.Rejected.join(&o.Rejected)
	v.Flapped = max(v.Flapped, o.Flapped)
	v.Tolerance = Tolerance{} // the order of the acceptances and refusals of two readers is unknown
	for i := range o.Clients {
		other := &o.Clients[i]
		c := v.Client(other.Service, other.Version)
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

func (v *Verdict) clearPositions() {
	v.Accepted.clearPositions()
	v.Rejected.clearPositions()
	v.Run, v.Report = Answers{}, nil
	v.Tolerance.clearPositions()
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
	c.Tolerance.Talks = slices.Clone(v.Tolerance.Talks)
	if v.Report != nil {
		report := *v.Report
		c.Report = &report
	}
	return &c
}

// clock formats stream time for humans.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// hash32 returns the FNV-1a hash of s and n.
func hash32(s string, n int64) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	for range 8 {
		h = (h ^ uint32(n&0xff)) * 16777619
		n >>= 8
	}
	return h
}
