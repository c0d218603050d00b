// Package judge finds the violations in requests and determines their identity and root cause in a conversation.
//
//	request ─> session: Turn ──────────────────┐
//	              └─> check: violations ───────┴─> identity, root cause ─> []Finding
//	answer  ─> session: what the next request is compared with
//
// The stream analyzer and lint share this package, so both report the same ids and root causes for the same
// conversation.
//
// # What identifies a finding
//
// A caller sends its whole history each turn, so each defect is seen repeatedly. Finding.ID is the first half of the
// SHA-256 of service, conversation, branch, rule, and call id or message hash. A conversation reports a defect once,
// and again only if its severity or root cause becomes stronger. Conversation ids are scoped by service, because two
// services may both count 1, 2, 3.
package judge

import (
	"strings"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/session"
)

// maxExplained limits the findings of one request that get a root cause, because each search walks the whole history.
const maxExplained = 100

// A Judge finds the violations of requests in their conversations. It reuses its memory between requests and is not
// safe for concurrent use.
type Judge struct {
	Sessions *session.Store

	checker *check.Checker
	before  check.Before
	chain   check.Chain
}

// New returns a Judge without conversations that applies rules in the given order.
func New(rules []*check.Rule, cfg session.Config) *Judge {
	return &Judge{Sessions: session.New(cfg), checker: check.NewChecker(rules)}
}

// A Request is a request in its conversation.
type Request struct {
	session.Request        // Service is the namespace of the conversation
	Sender          string // service that sent the request; scopes the ids of findings
	Version         string // version of Sender
}

// A Finding is a violation with an identity in its conversation.
type Finding struct {
	check.Violation
	ID       [16]byte
	Instance *session.Instance // shared by all requests with the defect
	Call     *session.Call     // call of an answer that the defect is about; nil if it is unknown

	// Tolerated is the number of earlier requests with the violation that this model at this host accepted, if they
	// lowered Predicted from Reject to Lenient; otherwise 0.
	Tolerated uint64
	// Refused reports that the answer raised Predicted from Lenient to Reject, see Explain.
	Refused bool
}

// Tolerate lowers Predicted because the target accepted n earlier requests with the violation.
func (f *Finding) Tolerate(n uint64) {
	if f.Predicted == check.Reject {
		f.Predicted, f.Tolerated = check.Lenient, n
	}
}

// Request adds a request to its conversation and returns its findings, in rule order.
func (j *Judge) Request(r *Request) (*session.Turn, []Finding) {
	t := j.Sessions.Request(r.Request)
	j.before.Chain = nil
	if calls, known := t.Chained(); known {
		j.chain.Calls, j.chain.Earlier = calls, t
		j.before.Chain = &j.chain
	}
	j.before.Signed, j.before.Copy = t.Signed()
	violations := j.checker.Check(r.Facts, r.Target, &j.before)
	if len(violations) == 0 {
		return t, nil
	}
	findings := make([]Finding, len(violations))
	explained := 0
	for i := range violations {
		f := &findings[i]
		f.Violation = violations[i]
		d := session.Defect{Rule: f.Rule.ID, Detail: f.Detail, Message: f.Message, Part: f.Part, ToolCallID: f.ToolCallID}
		if fresh := j.identify(f, t, r, &d); (fresh || f.Instance.Root.Rank() == 0) && explained < maxExplained {
			explained++
			// Keep the first root cause, because later turns only repeat the defect.
			root := t.RootCause(d)
			if fresh || root.Rank() > 0 {
				f.Instance.Root = root
			}
		} else {
			f.Instance.Root = t.Confirm(f.Instance.Root)
		}
		if f.ToolName = limit.Name(f.ToolName); len(f.ToolCallID) > limit.CallIDBytes {
			f.ToolCallID = strings.Clone(f.ToolCallID[:limit.CallIDBytes])
		}
	}
	return t, findings
}

// identify sets the id, the call and the instance of f, which is defect d, and reports whether the defect is new.
func (j *Judge) identify(f *Finding, t *session.Turn, r *Request, d *session.Defect) (fresh bool) {
	what, call := t.Subject(d)
	if f.Call = call; f.ToolName == "" && call != nil {
		f.ToolName = call.Name
	}
	sum := identity.Of(r.Sender, t.Root, t.Branch, f.Rule.ID, what)
	f.ID = sum.Key()
	if f.Instance, fresh = j.Sessions.Instance(t, f.ID); fresh {
		f.Instance.Version, f.Instance.Process, f.Instance.Messages = r.Version, r.Instance, len(r.Facts.Messages)
	}
	return fresh
}

// Pairing returns the calls and replies of the last request. The result is valid until the next request.
func (j *Judge) Pairing() *check.Pairing { return j.checker.Pairing() }

// Usable reports whether an agent can continue its conversation with the answer r.
func Usable(status int, r *facts.Response) bool {
	return status < 400 && len(r.Error) == 0 && (r.Content != facts.Absent || len(r.Calls) > 0)
}

// Answer adds a usable answer to the conversation and returns its tool calls, or none if the agent did not read the
// answer to the end. It shortens the names of the calls and removes ids that are too long to store.
func (j *Judge) Answer(t *session.Turn, a session.Answer) []*session.Call {
	for i := range a.Facts.Calls {
		c := &a.Facts.Calls[i]
		if c.Name = limit.Name(c.Name); len(c.ID) > limit.CallIDBytes {
			c.ID = ""
		}
	}
	return j.Sessions.Answer(t, a)
}

// Severity returns the severity of a violation once the outcome is known: if the request was accepted, Reject becomes
// Lenient.
func Severity(predicted check.Severity, accepted bool) check.Severity {
	if accepted && predicted == check.Reject {
		return check.Lenient
	}
	return predicted
}

// A Report is the result of comparing a finding with the earlier reports of its defect.
type Report struct {
	Known    bool // the defect was reported before, with the same or a stronger severity and root cause
	First    bool // the defect was never reported before
	New      bool // the defect or its root cause was never reported before
	Severity check.Severity
}

// Report records that an exchange reports f and returns what is new about it. The severity of the result is the
// strongest so far.
func (f *Finding) Report(accepted bool) Report {
	in, severity, root := f.Instance, Severity(f.Predicted, accepted).Rank(), f.Instance.Root.Rank()
	r := Report{Known: severity <= in.Severity && root <= in.Rank, First: in.Severity == 0, New: in.Severity == 0 || root > in.Rank}
	in.Severity, in.Rank = max(in.Severity, severity), root
	r.Severity = check.Severities[in.Severity-1]
	return r
}

// Fix returns what to change in the agent: the fix of the root cause, or else of the rule.
func (f *Finding) Fix() string {
	if f.Instance.Root.Fix != "" {
		return f.Instance.Root.Fix
	}
	return f.Rule.Fix
}
