package agenttest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A Run is what an agent and a model said, in no dialect. All calls except those of the last answer have one reply.
type Run struct {
	Source string // id of the recording
	System string
	Steps  []Step
}

// A Step is one exchange: what the agent adds to its history before it asks the model, and the model's answer.
type Step struct {
	Before []Message
	Answer Message
}

// A Message is an element of a history. A message of the role tool has the replies to all calls of an answer.
type Message struct {
	Role      string // system, user, assistant or tool
	Text      string
	Content   content // how the text is written
	Files     []string
	Thinking  string
	Blank     bool   // the reasoning is an empty text
	Signature string // of Thinking
	ItemIDs   [2]string
	Calls     []Call
	Replies   []Reply
	Server    []string       // ids of the calls of a tool that the provider ran, each with its result
	NoUse     bool           // the calls are left out, and the results stay
	Paused    bool           // the results are left out, because the next answer has them
	Extra     map[string]any // members that the API does not have
	Cache     bool           // marked as the end of a cached prefix
}

// content is how a text is written in a dialect that has several ways to do so.
type content uint8

const (
	plain  content = iota // as most agents of the dialect write it
	null                  // null for a missing text
	absent                // no member for a missing text
	blocks                // a list with one part of text
)

// A Call is a tool call.
type Call struct {
	ID, ItemID string
	Name       string
	Args       json.RawMessage // an object
	Raw        string          // text sent instead of Args; "" if it is Args
	OtherKind  bool            // an object instead of a string, or a string instead of an object
	Signature  string
	Tool       string // kind of tool in the Responses API; "" for a function
}

// A Reply is the reply to a call.
type Reply struct {
	ID, Name, Text string
	NoID           bool
	Tool           string // see Call.Tool
}

// clone returns a copy of m whose calls and replies can be changed.
func (m Message) clone() Message {
	m.Calls, m.Replies = slices.Clone(m.Calls), slices.Clone(m.Replies)
	return m
}

func userSays(text string) Message { return Message{Role: "user", Text: text} }

// element is an element of a recorded history, in any of the three recorded formats.
type element struct {
	Role, Type string
	Content    json.RawMessage
	ToolCalls  []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
	ToolCallID      string `json:"tool_call_id"`
	CallID          string `json:"call_id"`
	Name, Arguments string
	Output          json.RawMessage
}

// block is a part of the content of an element.
type block struct {
	Type, Text, ID, Name string
	Input                json.RawMessage
	ToolUseID            string `json:"tool_use_id"`
	Content              json.RawMessage
}

// Parse reads a line of recorded conversations. It returns false for conversations without a tool call that has a reply, and
// for those that a neutral run cannot represent.
func Parse(line []byte) (*Run, bool) {
	var c struct {
		ID, Format string
		System     json.RawMessage
		Messages   []element
	}
	if json.Unmarshal(line, &c) != nil {
		return nil, false
	}
	b := builder{run: &Run{Source: c.ID}}
	b.run.System, _ = textOf(c.System)
	for i := range c.Messages {
		e := &c.Messages[i]
		switch {
		case c.Format == "openai.responses" && e.Type != "" && e.Type != "message":
			b.item(e)
		case c.Format == "anthropic.messages":
			b.blocks(e)
		default:
			b.message(e)
		}
	}
	return b.done()
}

// builder collects a run.
type builder struct {
	run    *Run
	before []Message
	answer *Message
	bad    bool
}

func (b *builder) message(e *element) {
	text, ok := textOf(e.Content)
	b.bad = b.bad || !ok
	switch e.Role {
	case "system", "developer":
		if len(b.run.Steps) > 0 || b.answer != nil || len(b.before) > 0 {
			b.bad = true
		}
		b.run.System += text
	case "user":
		b.add(userSays(text))
	case "assistant":
		m := Message{Role: "assistant", Text: text}
		for _, call := range e.ToolCalls {
			m.Calls = append(m.Calls, Call{ID: call.ID, Name: call.Function.Name, Args: json.RawMessage(call.Function.Arguments)})
		}
		b.say(m)
	case "tool":
		b.reply(Reply{ID: e.ToolCallID, Text: text})
	default:
		b.bad = true
	}
}

func (b *builder) item(e *element) {
	switch e.Type {
	case "function_call":
		b.say(Message{Role: "assistant", Calls: []Call{{ID: e.CallID, Name: e.Name, Args: json.RawMessage(e.Arguments)}}})
	case "function_call_output":
		text, ok := textOf(e.Output)
		b.bad = b.bad || !ok
		b.reply(Reply{ID: e.CallID, Text: text})
	case "reasoning":
	default:
		b.bad = true
	}
}

func (b *builder) blocks(e *element) {
	if len(e.Content) == 0 || e.Content[0] == '"' {
		b.message(e)
		return
	}
	var parts []block
	if json.Unmarshal(e.Content, &parts) != nil {
		b.bad = true
		return
	}
	m := Message{Role: e.Role}
	for _, p := range parts {
		switch p.Type {
		case "text":
			m.Text += p.Text
		case "tool_use":
			m.Calls = append(m.Calls, Call{ID: p.ID, Name: p.Name, Args: p.Input})
		case "tool_result":
			text, ok := textOf(p.Content)
			b.bad = b.bad || !ok
			b.reply(Reply{ID: p.ToolUseID, Text: text})
		case "thinking", "redacted_thinking":
		default:
			m.Files = append(m.Files, p.Type)
		}
	}
	switch {
	case m.Role == "assistant":
		b.say(m)
	case m.Text != "" || len(m.Files) > 0:
		b.add(userSays(m.Text))
	}
}

// say adds what the model said. Consecutive messages of the model are one answer.
func (b *builder) say(m Message) {
	if b.answer == nil {
		b.answer = &m
		return
	}
	if b.answer.Text != "" && m.Text != "" || len(b.answer.Calls) > 0 && m.Text != "" {
		b.bad = true // two answers without a request between them
	}
	b.answer.Text += m.Text
	b.answer.Calls = append(b.answer.Calls, m.Calls...)
}

// add adds a message of the user or a tool.
func (b *builder) add(m Message) {
	if b.answer != nil {
		b.run.Steps = append(b.run.Steps, Step{b.before, *b.answer})
		b.before, b.answer = nil, nil
	}
	b.before = append(b.before, m)
}

func (b *builder) reply(r Reply) {
	if b.answer == nil && len(b.before) > 0 {
		if last := &b.before[len(b.before)-1]; last.Role == "tool" {
			last.Replies = append(last.Replies, r)
			return
		}
	}
	b.add(Message{Role: "tool", Replies: []Reply{r}})
}

// done returns the run if its calls and replies are complete. A last answer with calls is cut off.
func (b *builder) done() (*Run, bool) {
	if b.answer != nil {
		b.run.Steps = append(b.run.Steps, Step{b.before, *b.answer})
	}
	r := b.run
	for n := len(r.Steps); n > 0 && len(r.Steps[n-1].Answer.Calls) > 0; n-- {
		r.Steps = r.Steps[:n-1]
	}
	if b.bad || len(r.Steps) < 2 || len(r.Steps[0].Before) == 0 || r.Steps[0].Before[0].Role != "user" {
		return nil, false
	}
	calls := 0
	for i := range r.Steps {
		s := &r.Steps[i]
		calls += len(s.Answer.Calls)
		if s.Answer.Text == "" && len(s.Answer.Calls) == 0 || slices.ContainsFunc(s.Answer.Calls, func(c Call) bool { return !isObject(c.Args) }) {
			return nil, false
		}
		if i == 0 {
			continue
		}
		made := r.Steps[i-1].Answer.Calls
		if (len(made) > 0) != (s.Before[0].Role == "tool") || slices.ContainsFunc(s.Before[1:], func(m Message) bool { return m.Role == "tool" }) {
			return nil, false
		}
		if len(made) == 0 {
			continue
		}
		replies := s.Before[0].Replies
		if len(replies) != len(made) {
			return nil, false
		}
		// Replies in the order of their calls; the ids are replaced when the run is played.
		for k := range made {
			j := slices.IndexFunc(replies, func(r Reply) bool { return r.ID == made[k].ID })
			if j < k {
				return nil, false
			}
			replies[k], replies[j] = replies[j], replies[k]
			replies[k].Name = made[k].Name
		}
	}
	return r, calls > 0
}

func isObject(raw json.RawMessage) bool {
	var m map[string]any
	return json.Unmarshal(raw, &m) == nil && m != nil
}

// textOf returns the text of a content; false if it has parts of another type.
func textOf(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", true
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, true
	}
	var parts []block
	if json.Unmarshal(raw, &parts) != nil {
		return "", false
	}
	for _, p := range parts {
		if !strings.HasSuffix(p.Type, "text") { // text, input_text, output_text
			return "", false
		}
		s += p.Text
	}
	return s, true
}

// join returns r with consecutive answers of calls joined to one answer of parallel calls, each with a random number of calls.
func (r *Run) join(rnd *rand.Rand) *Run {
	out := &Run{Source: r.Source + " (joined)", System: r.System}
	for i := 0; i < len(r.Steps); i++ {
		s, most := r.Steps[i], 2+rnd.IntN(3)
		if n := len(out.Steps); n > 0 && len(out.Steps[n-1].Answer.Calls) > 0 {
			replies := Message{Role: "tool", Replies: r.repliesTo(out.Steps[n-1].Answer.Calls, i)}
			s.Before = append([]Message{replies}, s.Before[1:]...)
		}
		s.Answer = s.Answer.clone()
		for n := len(s.Answer.Calls); n > 0 && n < most && i+1 < len(r.Steps); n = len(s.Answer.Calls) {
			next := &r.Steps[i+1]
			if len(next.Answer.Calls) == 0 || len(next.Before) > 1 {
				break
			}
			s.Answer.Calls = append(s.Answer.Calls, next.Answer.Calls...)
			i++
		}
		out.Steps = append(out.Steps, s)
	}
	return out
}

// repliesTo returns the replies to calls that were made before step end.
func (r *Run) repliesTo(calls []Call, end int) (list []Reply) {
	for i := 1; i <= end; i++ {
		for j, c := range r.Steps[i-1].Answer.Calls {
			if slices.ContainsFunc(calls, func(o Call) bool { return &o.Args[0] == &c.Args[0] }) {
				list = append(list, r.Steps[i].Before[0].Replies[j])
			}
		}
	}
	return list
}

// String returns the source of r.
func (r *Run) String() string { return fmt.Sprintf("%s, %d steps", r.Source, len(r.Steps)) }
