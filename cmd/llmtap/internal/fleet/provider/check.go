package provider

import (
	"encoding/json"
	"slices"
)

// A request is the part of a chat completions request that is checked. What may have the wrong type stays raw.
type request struct {
	Model         string            `json:"model"`
	Messages      []json.RawMessage `json:"messages"`
	Tools         []tool            `json:"tools"`
	Parallel      *bool             `json:"parallel_tool_calls"`
	Stream        bool              `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`

	body    []byte
	history []message
}

type tool struct {
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

// A message is one of a request's messages.
type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  *[]call         `json:"tool_calls"`
	ToolCallID *string         `json:"tool_call_id"`
	Reasoning  *string         `json:"reasoning_content"`
}

type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
	Extra struct {
		Google struct {
			Signature string `json:"thought_signature"`
		} `json:"google"`
	} `json:"extra_content"`
}

// calls are the tool calls of m.
func (m *message) calls() []call {
	if m.ToolCalls == nil {
		return nil
	}
	return *m.ToolCalls
}

// text is m's content if that is a string.
func (m *message) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) != nil {
		return ""
	}
	return s
}

// An apiError is a 400 in a provider's words; its JSON is the "error" object of the answer.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// kind is the JSON type of raw, as OpenAI's errors name it; "" when the key is absent.
func kind(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case '"':
		return "string"
	case '[':
		return "array"
	case '{':
		return "object"
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	}
	return "number"
}

// A wording is one provider's shape rules, and the words in which it rejects. i is the index of the message at fault.
type wording interface {
	noJSON(err error) *apiError
	noModel(r *request) *apiError
	noMessages() *apiError
	malformed(r *request, i int, err error) *apiError
	shape(r *request, i int) *apiError // the first fault of a message alone; nil if it has none
	noID(r *request, i int) *apiError
	orphan(i int) *apiError
	unknownID(i int, id string) *apiError
	duplicate(first, i int, id string) *apiError
	sameID(i int, id string) *apiError // two calls of one message
	// missing is for calls without a reply; i is the message after the group, n if there is none.
	missing(i, n int, ids []string) *apiError
}

// check decodes body and reports its first fault, as providers do: types first, then pairing, in the order of messages.
// The request is nil where it cannot be decoded.
func check(w wording, body []byte) (*request, *apiError) {
	r := &request{body: body}
	if err := json.Unmarshal(body, r); err != nil {
		return nil, w.noJSON(err)
	}
	if r.Model == "" {
		return nil, w.noModel(r)
	}
	if len(r.Messages) == 0 {
		return nil, w.noMessages()
	}
	r.history = make([]message, len(r.Messages))
	for i := range r.Messages {
		if err := json.Unmarshal(r.Messages[i], &r.history[i]); err != nil {
			return nil, w.malformed(r, i, err)
		}
		if e := w.shape(r, i); e != nil {
			return r, e
		}
		if m := &r.history[i]; m.Role == "tool" && (m.ToolCallID == nil || *m.ToolCallID == "") {
			return r, w.noID(r, i)
		}
	}
	return r, pairs(w, r.history)
}

// pairs walks the history once. A call group is an assistant message with calls and the tool messages right after it.
func pairs(w wording, history []message) *apiError {
	for i := 0; i < len(history); {
		m := &history[i]
		if m.Role == "tool" {
			return w.orphan(i)
		}
		i++
		calls := m.calls()
		for j, c := range calls {
			if slices.ContainsFunc(calls[:j], func(d call) bool { return d.ID == c.ID }) {
				return w.sameID(i-1, c.ID)
			}
		}
		if m.Role != "assistant" || len(calls) == 0 {
			continue
		}
		answered := make(map[string]int) // call id -> index of its reply
		for ; i < len(history) && history[i].Role == "tool"; i++ {
			id := *history[i].ToolCallID
			if !slices.ContainsFunc(calls, func(c call) bool { return c.ID == id }) {
				return w.unknownID(i, id)
			}
			if first, ok := answered[id]; ok {
				return w.duplicate(first, i, id)
			}
			answered[id] = i
		}
		var open []string
		for _, c := range calls {
			if _, ok := answered[c.ID]; !ok {
				open = append(open, c.ID)
			}
		}
		if len(open) > 0 {
			return w.missing(i, len(history), open)
		}
	}
	return nil
}
