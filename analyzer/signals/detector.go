package signals

import (
	"fmt"
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// maxText limits provider texts in evidence, in bytes.
const maxText = 512

// A Subject is the part of an exchange that the row of a signal requires. It is small enough to be stored.
type Subject struct {
	Labels                                   event.Labels
	Attrs                                    map[string]string
	Exchange, Conversation, Instance, Origin string // Instance is "" unless the event came from the agent's own process
	Code                                     string // where in the agent's code Exchange was made; "" if unknown
	Provider, Model, Dialect, Variant        string
	Root, Branch                             string // root and branch of the conversation; "" if the request was not judged
	Status, Messages                         int
	Degraded, Full                           bool // Full: captured in full
	SeenAt                                   time.Time
	Failure                                  *Failure // nil if the exchange did not fail
}

// A Failure is why an exchange failed.
type Failure struct {
	Cause, RootCause string // as in the exchange's row
	ErrorText        string // at most 512 bytes
	Full             bool   // the call was captured in full

	// First call of the stage with this failure, and the newest other version before it, from the ledger.
	FirstVersion string
	FirstAt      time.Time // zero if the ledger has no entry
	LastClean    string
	CleanCalls   uint64 // see ledger.Entry
}

// A Signal is one occurrence of a problem that no rule finds.
type Signal struct {
	ID, Detail, Summary, Evidence, Fix string
	Message                            int      // 0-based index in messages as sent; -1 if the signal is not about a message
	CallID, Tool                       string   // call that the signal is about
	RejectedBy                         []string // targets that reject a LatentViolation, sorted
	// Key distinguishes instances in one conversation: a call id, the hash of a message, or the id of an exchange.
	// Signals with the same key have the same row.
	Key    string
	First  *session.Instance // first exchange with the signal; nil if that is the subject
	About  *Subject          // replaces the subject, if not nil
	Update bool              // the row is a newer version of one already emitted and counted

	// Defect is the violation that a LatentViolation is about: its rule as the cause, and its root cause.
	Defect *Failure
}

// An Exchange is an exchange as the detector reads it, with the signals found so far.
type Exchange struct {
	Subject
	Turn      *session.Turn // nil if the request was not judged
	Target    wire.Target
	Process   string // process that sent the event: agent, proxy or importer
	Capture   string
	StartedAt time.Time
	Findings  []judge.Finding
	Signals   []Signal
	Request   Request
	Loop      *session.Loop // of the turn, if its calls repeat others

	// Facts about the answer.
	Stream, Failed, InBand, MayBeLost  bool   // InBand: the answer has a success status but contains an error; MayBeLost: a missing answer may have been sent
	Refused                            bool   // refused for its content, so that it would be refused again
	ErrorType, ErrorText, ErrorCluster string // as in the exchange's row
	Cause, CauseKnown, Denial, Fix     string // see cause.Cause
	Rejects, ResponseBytes             int
}

// A Request is the data about a request that the detector retains until its answer arrives.
type Request struct {
	MaxTokens int64  // limit of output tokens; 0 if none
	Forced    bool   // the request forces a tool
	Hash      uint64 // hash of the model and the messages; 0 if the request was not judged
}

// accepted reports whether the provider accepted the request.
func (x *Exchange) accepted() bool { return x.Status >= 200 && x.Status < 300 && !x.Failed }

// A Detector finds signals and tracks repeated requests. It is not safe for concurrent use.
type Detector struct {
	sessions        *session.Store
	retries         *expiry.Queue[uint64, *retries]
	exchangeTimeout time.Duration
}

// NewDetector returns a detector for the conversations in sessions.
func NewDetector(sessions *session.Store, exchangeTimeout time.Duration) *Detector {
	return &Detector{sessions, expiry.NewQueue[uint64, *retries](retryWindow), exchangeTimeout}
}

// Expire drops refused requests whose window has passed.
func (d *Detector) Expire(now time.Time) {
	for _, due := d.retries.Due(now); due; _, due = d.retries.Due(now) {
		d.retries.TakeFirst()
	}
}

// MinSeq returns the oldest sequence that refused requests depend on, or 0.
func (d *Detector) MinSeq() uint64 { return d.retries.MinSeq() }

// once adds a signal if it is the first with its key. Without a key, it uses the key of the request, so that a request
// that is sent again does not repeat the signal.
func (d *Detector) once(x *Exchange, s Signal) {
	if d.times(x, &s) == 1 {
		x.Signals = append(x.Signals, s)
	}
}

// repeated adds a signal if it is the first in its conversation, and again each time the number of occurrences has
// doubled.
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

// times returns the number of occurrences of s in the conversation, including this one.
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

// doubled reports whether n is first times a power of two, which includes first itself.
func doubled(n, first int) bool {
	for n > first && n%2 == 0 {
		n /= 2
	}
	return n == first
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
