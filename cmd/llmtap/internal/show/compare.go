package show

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
)

const (
	maxPlaces = 8  // maximum messages on one side of a comparison
	maxPairs  = 40 // maximum calls and other messages of a comparison
)

// A Comparison compares what the model said with the messages in its place in the request with the finding.
type Comparison struct {
	Said  []Place `json:"said"`            // the answer or, if it is not stored, the message of the request before
	Sent  []Place `json:"sent"`            // its copy in the request; empty if there is none
	Calls []Pair  `json:"calls,omitempty"` // for a finding about calls and replies

	// Indexes of messages between calls and replies, or of the message that follows a call without a reply.
	Between []int `json:"between,omitempty"`

	request []records.Message
	fault   int  // index of the message with the finding; -1 for none
	twice   bool // the request contains the same call more than once
}

// A Place is a message of an answer or of a request.
type Place struct {
	Exchange string          `json:"exchange_id"`
	Message  int             `json:"message_index"` // -1: the answer of the exchange
	Body     json.RawMessage `json:"message"`
}

// A Pair is a call with its replies in the request, or a reply to a call that the answer does not make.
type Pair struct {
	ToolCallID string `json:"tool_call_id,omitempty"`
	ToolName   string `json:"tool_name,omitempty"`
	Called     bool   `json:"called"`  // the answer makes the call
	Sent       bool   `json:"sent"`    // the request contains the call
	Replies    []int  `json:"replies"` // indexes of the messages that reply to it
}

// aboutPairs contains the rules about calls and their replies.
var aboutPairs = map[string]bool{
	"orphan_tool_reply": true, "tool_reply_before_call": true, "late_tool_reply": true, "unknown_tool_call_id": true, "missing_tool_reply": true,
	"duplicate_tool_reply": true, "duplicate_call_id_in_message": true, "duplicate_call_id_in_history": true, "missing_tool_call_id": true,
	unresolved: true,
}

// unresolved is the rule about calls in an answer that the provider stores; the request only names it.
const unresolved = "previous_response_unresolved"

// removed contains the root causes that explain why the request contains no copy of the answer.
var removed = map[string]bool{session.Truncated: true, session.SanitizerDropped: true, session.ReplayedUnbound: true}

// compare returns the comparison for a finding in a request; said is what the model said.
func compare(f *Finding, exchange string, said []Place, request []records.Message, bodies []string) *Comparison {
	c := &Comparison{Said: said, Sent: []Place{}, request: request, fault: f.Message, twice: strings.HasPrefix(f.Rule, "duplicate_call_id_")}
	if f.Message >= len(request) {
		return nil
	}
	parsed := make([]records.Message, len(said))
	for i := range said {
		parsed[i], _ = records.ParseMessage(said[i].Body)
	}
	var at []int
	if f.Rule != unresolved {
		at = copies(f, parsed, request)
	}
	for _, i := range at {
		c.Sent = append(c.Sent, Place{exchange, i, value(bodies[i])})
	}
	if aboutPairs[f.Rule] {
		c.pair(f, parsed, at)
	}
	return c
}

// changes returns the diff of the two sides. If the request contains a call twice, only the best copy is compared, and the other
// is added.
func (c *Comparison) changes() []change {
	if len(c.Said) != 1 || len(c.Sent) < 2 || !c.twice {
		return diff(fields(c.Said), fields(c.Sent))
	}
	var best []change
	at := 0
	count := func(all []change) (n int) {
		for i := range all {
			if all[i].mark != ' ' {
				n++
			}
		}
		return n
	}
	sides := make([][]field, len(c.Sent))
	from := 0
	all := fields(c.Sent)
	for i := range c.Sent { // each side begins with the index of its message
		prefix := fmt.Sprintf("[%d]", c.Sent[i].Message)
		to := from
		for to < len(all) && strings.HasPrefix(all[to].path, prefix) {
			to++
		}
		sides[i], from = all[from:to], to
		if d := diff(fields(c.Said), sides[i]); best == nil || count(d) < count(best) {
			best, at = d, i
		}
	}
	var out []change
	for i := range sides {
		if i == at {
			out = append(out, best...)
			continue
		}
		for j := range sides[i] {
			out = append(out, change{mark: '+', sent: &sides[i][j]})
		}
	}
	return out
}

// name identifies a call or reply of a message. Some dialects have no ids, so a call is identified by its function name.
func name(p *records.Part) string {
	if p.ID != "" {
		return p.ID
	}
	return p.Name
}

// copies returns the indexes of the messages of the request that are copies of said.
func copies(f *Finding, said, request []records.Message) (at []int) {
	ids, text := map[string]bool{}, ""
	for i := range said {
		for _, p := range said[i].Calls() {
			ids[name(&p)] = true
		}
		if text == "" {
			text = said[i].Said()
		}
	}
	for i := range request {
		m := &request[i]
		if m.Model() && len(at) < maxPlaces && slices.ContainsFunc(m.Calls(), func(p records.Part) bool { return name(&p) != "" && ids[name(&p)] }) {
			at = append(at, i)
		}
	}
	if f.Message >= 0 && request[f.Message].Model() && !slices.Contains(at, f.Message) && len(at) == 0 {
		at = append(at, f.Message)
	}
	if len(at) == 0 && f.Message >= 0 && !removed[f.RootCause] {
		owner := f.Message - 1
		for owner >= 0 && len(request[owner].Replies()) > 0 {
			owner--
		}
		if owner >= 0 && request[owner].Model() && (len(request[owner].Calls()) == 0 || f.RootCause == session.IDRewritten) {
			at = append(at, owner)
		}
	}
	for i := len(request) - 1; i >= 0 && len(at) == 0 && text != "" && !removed[f.RootCause]; i-- {
		if request[i].Model() && request[i].Said() == text {
			at = append(at, i)
		}
	}
	if len(at) > 0 && len(said) > 1 { // the items of an answer are next to each other
		for first := at[0] - 1; first >= 0 && request[first].Model() && len(at) < len(said); first-- {
			at = slices.Insert(at, 0, first)
		}
	}
	return at
}

// pair fills c.Calls. at contains the copies of said.
func (c *Comparison) pair(f *Finding, said []records.Message, at []int) {
	replies, sent := map[string][]int{}, map[string]bool{}
	for i := range c.request {
		for _, p := range c.request[i].Replies() {
			if id := name(&p); !slices.Contains(replies[id], i) || f.Rule == "duplicate_tool_reply" {
				replies[id] = append(replies[id], i)
			}
		}
		for _, p := range c.request[i].Calls() {
			sent[name(&p)] = true
		}
	}
	for i := range said {
		for _, p := range said[i].Calls() {
			sent[name(&p)] = sent[name(&p)] || f.Rule == unresolved
		}
	}
	known := map[string]bool{}
	add := func(m *records.Message, called bool) {
		for _, p := range m.Calls() {
			id := name(&p)
			if known[id] && id != "" && called {
				c.Calls = append(c.Calls, Pair{ToolCallID: p.ID, ToolName: p.Name, Called: true, Sent: sent[id], Replies: []int{}})
				continue
			}
			if !known[id] {
				c.Calls = append(c.Calls, Pair{ToolCallID: p.ID, ToolName: p.Name, Called: called, Sent: sent[id], Replies: append([]int{}, replies[id]...)})
			}
			known[id] = true
		}
	}
	for i := range said {
		add(&said[i], true)
	}
	for _, i := range at {
		add(&c.request[i], false)
	}
	c.others(f, at, func(id string) bool { return known[id] || sent[id] })
}

// others adds the replies without a call of the answer, and the messages between the calls and their replies. If a reply is
// missing, the message that follows instead is one of them.
func (c *Comparison) others(f *Finding, at []int, known func(id string) bool) {
	first := f.Message
	if len(at) > 0 {
		first = at[0]
	}
	if first < 0 {
		return
	}
	last, missing := f.Message, false
	for i := range c.Calls {
		last = max(last, slices.Max(append(slices.Clone(c.Calls[i].Replies), -1)))
		missing = missing || c.Calls[i].Sent && len(c.Calls[i].Replies) == 0
	}
	for i := first; i < len(c.request) && len(c.Calls)+len(c.Between) < maxPairs; i++ {
		replies := c.request[i].Replies()
		for _, p := range replies {
			if !known(name(&p)) {
				c.Calls = append(c.Calls, Pair{ToolCallID: p.ID, ToolName: p.Name, Replies: []int{i}})
			}
		}
		switch {
		case i > last && !missing:
			return
		case len(replies) > 0 || slices.Contains(at, i) || f.Rule != "missing_tool_reply" && f.Rule != "late_tool_reply":
		case i < last:
			c.Between = append(c.Between, i)
		case i > last:
			c.Between = append(c.Between, i)
			return
		}
	}
}
