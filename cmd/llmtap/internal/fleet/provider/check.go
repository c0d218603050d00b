package provider

import (
	"encoding/json"
	"slices"
)

// A request contains the checked parts of a chat completions request. Members that may have the wrong type stay raw.
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

// A message is one message of a request.
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

// calls returns the tool calls of m.
func (m *message) calls() []call {
	if m.ToolCalls == nil {
		return nil
	}
	return *m.ToolCalls
}

// text returns the content of m if it is a string.
func (m *message) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) != nil {
		return ""
	}
	return s
}

// An apiError is the "error" object of a 400 response.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// kind returns the JSON type of raw as named in OpenAI's errors; "" if the member is absent.
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

// A flavor contains one provider's rules for single messages and its error texts. i is the index of the invalid message.
type flavor interface {
	noJSON(err error) *apiError
	noModel(r *request) *apiError
	noMessages() *apiError
	malformed(r *request, i int, err error) *apiError
	checkMessage(r *request, i int) *apiError // the first violation in the message, regardless of other messages; or nil
	noID(r *request, i int) *apiError
	orphan(i int) *apiError
	unknownID(i int, id string) *apiError
	duplicate(first, i int, id string) *apiError
	sameID(i int, id string) *apiError // two calls in one message have the same id
	// missing is for calls without a reply. i is the index of the message after the call group; n is the number of
	// messages.
	missing(i, n int, ids []string) *apiError
}

// check decodes body and returns its first violation. Like providers, it checks types before pairing, in the order of
// messages. The request is nil if it cannot be decoded.
func check(w flavor, body []byte) (*request, *apiError) {
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
		if e := w.checkMessage(r, i); e != nil {
			return r, e
		}
		if m := &r.history[i]; m.Role == "tool" && (m.ToolCallID == nil || *m.ToolCallID == "") {
			return r, w.noID(r, i)
		}
	}
	return r, checkPairs(w, r.history)
}

// checkPairs walks the history once. A call group is an assistant message with calls and the tool messages right after it.
func checkPairs(w flavor, history []message) *apiError {
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
		answered := make(map[string]int) // index of the reply by call id
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
		var unanswered []string
		for _, c := range calls {
			if _, ok := answered[c.ID]; !ok {
				unanswered = append(unanswered, c.ID)
			}
		}
		if len(unanswered) > 0 {
			return w.missing(i, len(history), unanswered)
		}
	}
	return nil
}
