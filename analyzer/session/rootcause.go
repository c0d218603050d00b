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

// A RootCause is what the agent did that made a request defective. The zero value says that the history is known and
// fits none.
type RootCause struct {
	ID         string // one of RootCauses
	Detail     string // what the constants above say, else ""
	Confidence string
	Evidence   string // what answer N said and what request N+1 sent; of texts only ids, names and roles
	Fix        string
}

// Rank orders root causes by how much they say: 0 nothing, 1 a root cause.
func (r *RootCause) Rank() int {
	if r.ID == "" || r.ID == NoHistory {
		return 0
	}
	return 1
}

// A Symptom is a defect of the request whose root cause is asked for.
type Symptom struct {
	Rule       string
	Detail     string // of the rule
	Message    int    // 0-based index in messages as sent; -1 for none
	ToolCallID string // by which replies name the call; "" for none

	id uint64
}

// An Instance is one defect that a conversation remembers, so that it is reported once.
type Instance struct {
	Exchange string // the first that showed it
	Since    time.Time
	Root     RootCause

	// What the caller knows of that request: who sent it, and its length in messages.
	Version, Process string
	Messages         int

	// What the caller reported of it, in its own measure; 0 nothing.
	Severity, Rank int

	// RejectedBy are the targets that reject it, as the caller says, and Latent whether it said so when it was accepted.
	RejectedBy []string
	Latent     bool
}

// Seen returns the memory of the defect with this id, and whether it is new.
func (s *Store) Seen(t *Turn, id [16]byte) (in *Instance, fresh bool) {
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

// ToolName is the name of the newest call with this id in the conversation, or "".
func (t *Turn) ToolName(callID string) string {
	if c := t.call(hashName(callID)); c != nil {
		return c.Name
	}
	return ""
}

// RootCause explains a defect of the request of t from the request and answers before it. It never guesses: without
// them it is NoHistory.
func (t *Turn) RootCause(s Symptom) RootCause {
	explain := explained[s.Rule]
	if explain == nil || s.Message >= len(t.q.messages) {
		return RootCause{}
	}
	if !t.fit.known && (t.ending == nil || s.Rule != "previous_response_unresolved") {
		r := t.unknown(&s)
		r.Fix = fixes[r.ID]
		return r
	}
	if s.ToolCallID != "" {
		s.id = t.keyOf(s.ToolCallID)
	}
	r := explain(t, &s)
	r.Fix = fixes[r.ID]
	return r
}

// keyOf is the hash by which the call or reply of the request with this id is known.
func (t *Turn) keyOf(callID string) uint64 {
	id := hashName(callID)
	if !t.names || t.conv.calls[id] != nil {
		return id
	}
	for i := range t.facts.Messages {
		m, k := &t.facts.Messages[i], &t.q.messages[i]
		for j := range m.Calls {
			if string(m.Calls[j].ID) == callID {
				return t.q.calls(k)[j].id
			}
		}
		for j := range m.Replies {
			if string(m.Replies[j].ID) == callID {
				return t.q.replyIDs(k)[j]
			}
		}
	}
	return id
}

// unknown explains a defect of a request of which no earlier one is known: what the request shows by itself, else that
// the history is not known.
func (t *Turn) unknown(s *Symptom) RootCause {
	switch {
	case t.facts.Stored:
		return because(NoHistory, Low, "", "a part of the history lies with the provider")
	case s.Rule == "unexpected_message_field":
		if r := t.leaked(s); r.ID != "" {
			return r
		}
	case s.Rule == "orphan_tool_reply" && t.fresh && len(t.q.ids) == 0 && t.asks() && s.Message+1 < len(t.q.messages):
		return because(ReplayedUnbound, Medium, "", "the request is the first of its process, so its history comes from storage; message %d answers %s, and no message makes a call",
			s.Message, quote(s.ToolCallID))
	}
	return because(NoHistory, Low, "", "no earlier request or answer of this conversation is known")
}

// asks reports whether the request ends with what the user wrote.
func (t *Turn) asks() bool {
	n := len(t.q.messages)
	return n > 0 && t.q.messages[n-1].role == facts.RoleUser && t.q.messages[n-1].replies == 0
}

func because(id, confidence, detail, format string, args ...any) RootCause {
	return RootCause{ID: id, Confidence: confidence, Detail: detail, Evidence: fmt.Sprintf(format, args...)}
}

// call is the call with id that the request means: of the answer before it, else the newest.
func (t *Turn) call(id uint64) *Call {
	if id == 0 {
		return nil
	}
	if t.before != nil {
		if c := t.before.call(id); c != nil {
			return c
		}
	}
	return t.conv.calls[id]
}

// moved reports whether another process sent this request than the one that got a; known is false where that cannot be
// told: processes are not named, or the conversation moves between them as it likes.
func (t *Turn) moved(from *source) (moved, known bool) {
	if from == nil || from.instance == "" || t.source.instance == "" {
		return false, false
	}
	return from.instance != t.source.instance, t.conv.moves <= 1
}

// newRun reports whether the request is of another run of the agent, or of another process, than the one before.
func (t *Turn) newRun() bool {
	p := t.pSource
	if p == nil {
		return false
	}
	return p.run != "" && t.source.run != "" && p.run != t.source.run || p.instance != "" && t.source.instance != "" && p.instance != t.source.instance
}

// item is what an element of the history is called.
func (t *Turn) item() string {
	if t.items {
		return "item"
	}
	return "message"
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

// named is a call id with the tool's name, if it is known.
func named(id string, c *Call) string {
	switch {
	case c == nil || c.Name == "" || c.Name == id:
		return quote(id)
	case id == "":
		return quote(c.Name)
	}
	return quote(id) + " (" + quote(c.Name) + ")"
}
