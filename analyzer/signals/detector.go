package signals

import (
	"fmt"
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/wire"
)

// maxText bounds texts of providers in evidence, in bytes.
const maxText = 512

// A Subject is the exchange that a signal is about, as far as its row needs it. It is small enough to be remembered.
type Subject struct {
	Labels                                   event.Labels
	Exchange, Conversation, Instance, Origin string // Instance is "" unless the event came from the agent's own process
	Provider, Model, Dialect, Variant        string
	Root, Branch                             string // of the conversation; "" when the request was not judged
	Status, Messages                         int
	Degraded                                 bool
	SeenAt                                   time.Time
}

// A Signal is one instance of a signal.
type Signal struct {
	ID, Detail, Summary, Evidence, Fix string
	Message                            int      // 0-based index in messages as sent; -1 when it is about none
	CallID, Tool                       string   // of the call it is about
	RejectedBy                         []string // of a LatentViolation: targets, sorted
	// Key distinguishes instances in one conversation: a call id, a hash of a message, the id of an exchange. The same key
	// gives the same row.
	Key    string
	First  *session.Instance // of the exchange that showed it first; nil when that is the subject
	About  *Subject          // replaces the subject; nil for none
	Update bool              // a newer version of a row that was emitted and counted
}

// An Exchange is what the detector reads of an exchange, and the signals found in it.
type Exchange struct {
	Subject
	Turn      *session.Turn // nil when the request was not judged
	Target    wire.Target
	Process   string // that sent the event: the agent, proxy or importer
	Capture   string
	StartedAt time.Time
	Findings  []judge.Finding
	Signals   []Signal
	Request   Request

	// Of the answer.
	Stream, Failed, InBand, MayBeLost  bool   // InBand: a success with an error in it; MayBeLost: an answer that is absent may have been sent
	Refused                            bool   // for its content, so that it would be refused again
	ErrorType, ErrorText, ErrorCluster string // as in the row
	Cause, CauseKnown                  string
	Rejects, ResponseBytes             int
}

// A Request is what the detector keeps of a request for its answer.
type Request struct {
	MaxTokens int64  // that it allows; 0 without a limit
	Forced    bool   // it leaves the model no choice of tools
	Hash      uint64 // 0 when it was not judged
}

// accepted reports whether the provider accepted the request.
func (x *Exchange) accepted() bool { return x.Status >= 200 && x.Status < 300 && !x.Failed }

// A Detector finds signals and remembers what was sent repeatedly. It is not safe for concurrent use.
type Detector struct {
	sessions        *session.Store
	retries         *expiry.Queue[uint64, *retries]
	exchangeTimeout time.Duration
}

// NewDetector returns a detector of the conversations in sessions.
func NewDetector(sessions *session.Store, exchangeTimeout time.Duration) *Detector {
	return &Detector{sessions, expiry.NewQueue[uint64, *retries](retryWindow), exchangeTimeout}
}

// Expire forgets refused requests whose window has passed.
func (d *Detector) Expire(now time.Time) {
	for _, due := d.retries.Due(now); due; _, due = d.retries.Due(now) {
		d.retries.TakeFirst()
	}
}

// MinSeq returns the oldest sequence that refused requests were made from, or 0.
func (d *Detector) MinSeq() uint64 { return d.retries.MinSeq() }

// once adds a signal if it is the first one under its key. Without a key, that of the request is used, so that a request
// that is sent again shows it once.
func (d *Detector) once(x *Exchange, s Signal) {
	if d.times(x, &s) == 1 {
		x.Signals = append(x.Signals, s)
	}
}

// repeated adds a signal when it is the first of its conversation, and again each time their number has doubled.
func (d *Detector) repeated(x *Exchange, s Signal) {
	if s.Key == "" {
		s.Key = s.ID
	}
	n := d.times(x, &s)
	if !doubled(n, 1) {
		return
	}
	if s.Update = n > 1; s.Update {
		s.Evidence += fmt.Sprintf("; %d times so far", n)
	}
	x.Signals = append(x.Signals, s)
}

// times returns how often the conversation has shown s, including now.
func (d *Detector) times(x *Exchange, s *Signal) int {
	t := x.Turn
	if t == nil {
		s.Key += " " + x.Exchange
		return 1
	}
	if s.Key == "" || s.ID == TruncatedToolCall {
		s.Key += " " + t.Key()
	}
	sum := identity.Of("signal", x.Labels.Service, t.Root, t.Branch, s.ID, s.Key)
	in, fresh := d.sessions.Instance(t, sum.Key())
	if fresh {
		in.Version, in.Messages, in.Process = x.Labels.ServiceVersion, x.Messages, x.Instance
	}
	s.First = in
	in.Severity++
	return in.Severity
}

// doubled reports whether n is first, or first times a power of two.
func doubled(n, first int) bool {
	for n > first && n%2 == 0 {
		n /= 2
	}
	return n == first
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
