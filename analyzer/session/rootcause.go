package session

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// Values of RootCause.Confidence.
const (
	High   = "high"
	Medium = "medium"
	Low    = "low"
)

// A RootCause is what the agent did to make a request defective. The zero value means that the history is known and no
// root cause fits.
type RootCause struct {
	ID         string // one of RootCauses
	Detail     string // see the constants of the ids; may be ""
	Confidence string
	Evidence   string // facts from answer N and request N+1; quotes only ids, names and roles
	Fix        string
	AnswerCode string // where in the agent's code the call was made whose answer Evidence is about; "" if unknown

	// first is the number of answered calls if these are the first ones of an answer, and more conversations could show that the
	// agent never runs more; otherwise 0.
	first int
}

// Rank returns 1 if a root cause was found, 2 if other conversations confirm it, else 0.
func (r *RootCause) Rank() int {
	switch {
	case r.ID == "" || r.ID == NoHistory:
		return 0
	case r.ID == CallsTruncated && r.Confidence == High:
		return 2
	}
	return 1
}

// A Defect is a violation in a request, as input to Turn.RootCause.
type Defect struct {
	Rule       string
	Detail     string // detail that the rule reported
	Message    int    // 0-based index in messages as sent; -1 for none
	Part       int    // index of the call or reply in the message
	ToolCallID string // call id that replies use; "" for none
}

// An Instance is a defect of a conversation, remembered so that it is reported only once.
type Instance struct {
	Exchange string // first exchange with the defect
	Code     string // where in the agent's code it was made
	Since    time.Time
	Root     RootCause

	// The sender of that request and its number of messages, set by the caller.
	Version, Process string
	Messages         int

	// Severity and Rank are the values that the caller reported, on its own scales; 0 if it reported none.
	Severity, Rank int

	// RejectedBy lists the targets that reject the defect. Latent reports whether the caller reported them.
	RejectedBy []string
	Latent     bool
}

// Instance returns the instance of the defect with this id, creating it if necessary, and whether it is new.
func (s *Store) Instance(t *Turn, id [16]byte) (in *Instance, fresh bool) {
	c := t.conv
	if in = c.instances[id]; in != nil {
		return in, false
	}
	in = &Instance{Exchange: t.exchange, Code: t.code, Since: t.at}
	if len(c.instances) < maxInstances {
		if c.instances == nil {
			c.instances = make(map[[16]byte]*Instance)
		}
		c.instances[id] = in
		s.account(c)
	}
	return in, true
}

// An explainer finds the root cause of one defect of a request.
type explainer struct {
	*Turn
	Defect
	id       uint64 // internal id (a hash) of the call or reply; 0 for none
	call     *Call  // call with this id; nil if no answer of the conversation has it
	original *Call  // call of an answer that a call of the request copies; nil if there is none
	declared int    // message of the previous request with the call; -1 for none
}

// RootCause finds the root cause of a defect in the request of t by comparing it with the previous request and the earlier
// answers. It never guesses: if they are unknown, it returns NoHistory unless the request alone is evidence enough.
func (t *Turn) RootCause(d Defect) RootCause {
	explain := explanations[d.Rule]
	if explain == nil || d.Message >= len(t.q.messages) {
		return RootCause{}
	}
	x := explainer{Turn: t, Defect: d, declared: -1}
	if pairs := d.Rule == "missing_tool_reply" || d.Rule == "unknown_tool_call_id"; pairs && !t.aligned.known && t.continuesNamed() {
		x.Turn = t.afterNamed()
	}
	if !x.aligned.known && (t.named == nil || d.Rule != "previous_response_unresolved") {
		explain = withoutHistory
	} else if d.ToolCallID != "" {
		x.about(t.idOf(&d))
		if x.Turn != t && x.call != nil && x.call.answer.seq != t.before.seq { // the provider stores that call
			explain = withoutHistory
		}
	}
	r := explain(&x)
	r.Fix = fixes[r.ID]
	if a := x.answer(&r); a != nil {
		r.AnswerCode = a.code
	}
	return r
}

// answer returns the answer that the evidence of r is about, or nil.
func (x *explainer) answer(r *RootCause) *answer {
	switch {
	case r.ID == "" || r.ID == NoHistory:
	case x.call != nil:
		return x.call.answer
	case x.original != nil:
		return x.original.answer
	case x.before != nil && strings.HasPrefix(r.Evidence, "answer of LLM call "+x.before.exchange):
		return x.before
	}
	return nil
}

// afterNamed returns t as a turn whose previous request has no messages, because the request has only what follows the answer
// that it names: the provider stores the rest.
func (t *Turn) afterNamed() *Turn {
	after := *t
	after.p, after.aligned = &skeleton{}, alignment{whole: true, known: true}
	before := *t.before
	before.after = 0
	after.before = &before
	return &after
}

// Confirm returns the root cause r of a defect that the request of t repeats, which the conversations since may have confirmed.
func (t *Turn) Confirm(r RootCause) RootCause {
	if r.first == 0 || t.store.limited(t.conv, r.first) != High {
		return r
	}
	r.Evidence += limitedEvidence
	r.ID, r.Confidence, r.Fix, r.first = CallsTruncated, High, fixes[CallsTruncated], 0
	return r
}

// about sets the call or reply to explain.
func (x *explainer) about(id uint64) {
	if x.id, x.call = id, x.Turn.call(id); x.p != nil {
		x.declared = x.p.lastCall(id)
	}
	if a := x.aligned; x.declared >= 0 && x.call != nil && a.whole && x.call.answer.after == len(x.p.body()) && x.Message-x.q.lead >= x.call.answer.after {
		x.declared = -1 // an older call with the id that the newest answer uses again
	}
	if x.names && x.call != nil && x.call.CallID != "" {
		x.ToolCallID = x.call.CallID
	}
}

// idOf returns the internal id (a hash) of the call or reply with the defect.
func (t *Turn) idOf(d *Defect) uint64 {
	if t.names && d.Message >= 0 && d.Message < len(t.q.messages) {
		m := &t.q.messages[d.Message]
		switch {
		case d.Part < int(m.replies):
			return t.q.repliesOf(m)[d.Part]
		case m.replies == 0 && d.Part < int(m.calls):
			return t.q.callsOf(m)[d.Part].id
		}
	}
	return hashName(d.ToolCallID)
}

// Subject returns what the defect is about, as an identity in the conversation, and the call of an answer; nil if it is
// unknown.
func (t *Turn) Subject(d *Defect) (string, *Call) {
	switch {
	case d.ToolCallID == "" && d.Message >= 0 && d.Message < len(t.q.messages):
		return strconv.FormatUint(t.Identity(d.Message), 16), nil
	case d.ToolCallID == "":
		return "", nil
	}
	id := t.idOf(d)
	if t.names {
		return strconv.FormatUint(id, 16), t.call(id)
	}
	return d.ToolCallID, t.call(id)
}

// withoutHistory explains a defect in a request without a known predecessor from the request alone, or returns NoHistory.
func withoutHistory(x *explainer) RootCause {
	switch {
	case x.facts.Stored:
		return because(NoHistory, Low, "", "the provider stores a part of the history")
	case x.Rule == "unexpected_message_field":
		if r := explainField(x); r.ID != "" {
			return r
		}
	case x.Rule == "orphan_tool_reply" && x.fresh && len(x.q.calls) == 0 && x.endsWithUser() && x.Message+1 < len(x.q.messages):
		return because(ReplayedUnbound, Medium, "", "the request is the first of its process, so its history is from storage; message %d answers %s, and no message makes a call",
			x.Message, quote(x.ToolCallID))
	}
	return because(NoHistory, Low, "", "no earlier request or answer of this conversation is known")
}

// endsWithUser reports whether the last message is a user message without tool replies.
func (t *Turn) endsWithUser() bool {
	n := len(t.q.messages)
	return n > 0 && t.q.messages[n-1].role == facts.RoleUser && t.q.messages[n-1].replies == 0
}

// moved reports whether this request was sent by a process other than the one in from, which received an answer. known is
// false if the processes are unknown or the conversation moves between processes regularly.
func (t *Turn) moved(from *source) (moved, known bool) {
	if from == nil || from.instance == "" || t.source.instance == "" {
		return false, false
	}
	return from.instance != t.source.instance, t.conv.moves <= 1
}

// newRun reports whether the request and the previous one come from different runs or processes of the agent.
func (t *Turn) newRun() bool {
	p := t.pSource
	if p == nil {
		return false
	}
	return p.run != "" && t.source.run != "" && p.run != t.source.run || p.instance != "" && t.source.instance != "" && p.instance != t.source.instance
}

// loose reports whether the texts of the request and of the previous one cannot be compared.
func (t *Turn) loose() bool { return loose(t.pSource, t.source) }

// bytesOf returns body[start:end], or nil if the range is invalid.
func (t *Turn) bytesOf(start, end int) []byte {
	if start < 0 || end > len(t.body) || start >= end {
		return nil
	}
	return t.body[start:end]
}

func because(id, confidence, detail, format string, args ...any) RootCause {
	return RootCause{ID: id, Confidence: confidence, Detail: detail, Evidence: fmt.Sprintf(format, args...)}
}

// item returns the term for an element of the history in evidence.
func (t *Turn) item() string { return t.source.target.Dialect.Descriptor().Words.Message }

// callName returns the call id of the defect, with the name of the tool if it is known.
func (x *explainer) callName() string { return callName(x.ToolCallID, x.call) }

// callName returns a call id with the name of the tool if it is known.
func callName(id string, c *Call) string {
	switch {
	case c == nil || c.Name == "" || c.Name == id:
		return quote(id)
	case id == "":
		return quote(c.Name)
	}
	return quote(id) + " (" + quote(c.Name) + ")"
}

// maxQuoted bounds the quoted bytes of an id or a name in evidence.
const maxQuoted = 80

// quote makes an id or a name safe to print.
func quote(s string) string {
	cut := ""
	if len(s) > maxQuoted {
		s, cut = s[:maxQuoted], "…"
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == '"' {
			return fmt.Sprintf("%q", s) + cut
		}
	}
	return s + cut
}

func roleName(r facts.Role) string { return cmp.Or(r.Word(), "other") }
