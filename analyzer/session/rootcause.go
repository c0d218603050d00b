package session

import (
	"fmt"
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// Degrees of confidence.
const (
	High   = "high"
	Medium = "medium"
	Low    = "low"
)

// A RootCause is what the agent did to make a request defective. The zero value means that the history is known and no
// root cause fits.
type RootCause struct {
	ID         string // one of RootCauses
	Detail     string // as the constants of the ids describe, else ""
	Confidence string
	Evidence   string // from answer N and request N+1; quotes only ids, names and roles
	Fix        string
}

// Rank orders root causes by how much they explain: 0 nothing, 1 a root cause.
func (r *RootCause) Rank() int {
	if r.ID == "" || r.ID == NoHistory {
		return 0
	}
	return 1
}

// A Defect is a violation of a request whose root cause is searched.
type Defect struct {
	Rule       string
	Detail     string // of the rule
	Message    int    // 0-based index in messages as sent; -1 for none
	ToolCallID string // by which replies name the call; "" for none
}

// An Instance is one defect that a conversation remembers, so that it is reported once.
type Instance struct {
	Exchange string // the first that showed it
	Since    time.Time
	Root     RootCause

	// Set by the caller for that request: its sender, and its length in messages.
	Version, Process string
	Messages         int

	// Severity and Rank are what the caller reported, by its own measure; 0 for nothing.
	Severity, Rank int

	// RejectedBy are the targets that reject the defect, and Latent whether the caller reported them.
	RejectedBy []string
	Latent     bool
}

// Instance returns the memory of the defect with this id, and whether it is new.
func (s *Store) Instance(t *Turn, id [16]byte) (in *Instance, fresh bool) {
	c := t.conv
	if in = c.instances[id]; in != nil {
		return in, false
	}
	in = &Instance{Exchange: t.exchange, Since: t.at}
	if len(c.instances) < maxInstances {
		if c.instances == nil {
			c.instances = make(map[[16]byte]*Instance)
		}
		c.instances[id] = in
		s.account(c)
	}
	return in, true
}

// An explainer searches the root cause of one defect of a request.
type explainer struct {
	*Turn
	Defect
	id       uint64 // of the call or reply; 0 for none
	call     *Call  // with id; nil when no answer of the conversation made it
	declared int    // the message of the request before that makes the call; -1 for none
}

// RootCause explains a defect of the request of t by the request and the answers before it. It never guesses: without
// them it returns NoHistory.
func (t *Turn) RootCause(d Defect) RootCause {
	explain := explanations[d.Rule]
	if explain == nil || d.Message >= len(t.q.messages) {
		return RootCause{}
	}
	x := explainer{Turn: t, Defect: d, declared: -1}
	if !t.aligned.known && (t.named == nil || d.Rule != "previous_response_unresolved") {
		explain = withoutHistory
	} else if d.ToolCallID != "" {
		x.id = t.idOf(d.ToolCallID)
		x.call = t.call(x.id)
		if t.p != nil {
			x.declared = t.p.lastCall(x.id)
		}
	}
	r := explain(&x)
	r.Fix = fixes[r.ID]
	return r
}

// idOf returns the hash by which the call or reply of the request with this id is known.
func (t *Turn) idOf(callID string) uint64 {
	id := hashName(callID)
	if !t.names || t.conv.calls[id] != nil {
		return id
	}
	for i := range t.facts.Messages {
		m, k := &t.facts.Messages[i], &t.q.messages[i]
		for j := range m.Calls {
			if string(m.Calls[j].ID) == callID {
				return t.q.callsOf(k)[j].id
			}
		}
		for j := range m.Replies {
			if string(m.Replies[j].ID) == callID {
				return t.q.repliesOf(k)[j]
			}
		}
	}
	return id
}

// withoutHistory explains a defect of a request without a known predecessor: by the request itself, else as NoHistory.
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

// endsWithUser reports whether the request ends with text of the user.
func (t *Turn) endsWithUser() bool {
	n := len(t.q.messages)
	return n > 0 && t.q.messages[n-1].role == facts.RoleUser && t.q.messages[n-1].replies == 0
}

// moved reports whether another process sent this request than the one that got an answer; known is false where that
// cannot be determined: processes are not named, or the conversation moves between them freely.
func (t *Turn) moved(from *source) (moved, known bool) {
	if from == nil || from.instance == "" || t.source.instance == "" {
		return false, false
	}
	return from.instance != t.source.instance, t.conv.moves <= 1
}

// newRun reports whether the request belongs to another run of the agent, or another process, than the one before.
func (t *Turn) newRun() bool {
	p := t.pSource
	if p == nil {
		return false
	}
	return p.run != "" && t.source.run != "" && p.run != t.source.run || p.instance != "" && t.source.instance != "" && p.instance != t.source.instance
}

// loose reports whether texts of the request and of the one before cannot be compared.
func (t *Turn) loose() bool { return loose(t.pSource, t.source) }

// bytesOf returns a part of the body, or nil.
func (t *Turn) bytesOf(start, end int) []byte {
	if start < 0 || end > len(t.body) || start >= end {
		return nil
	}
	return t.body[start:end]
}

func because(id, confidence, detail, format string, args ...any) RootCause {
	return RootCause{ID: id, Confidence: confidence, Detail: detail, Evidence: fmt.Sprintf(format, args...)}
}

// item names an element of the history in evidence.
func (t *Turn) item() string {
	if t.items {
		return "item"
	}
	return "message"
}

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

// maxQuoted bounds what evidence quotes of an id or a name.
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

func roleName(r facts.Role) string {
	switch r {
	case facts.RoleSystem:
		return "system"
	case facts.RoleDeveloper:
		return "developer"
	case facts.RoleUser:
		return "user"
	case facts.RoleAssistant:
		return "assistant"
	case facts.RoleTool:
		return "tool"
	case facts.RoleFunction:
		return "function"
	case facts.RoleNone, facts.RoleOther:
	}
	return "other"
}
