package provider

import (
	"encoding/json"
	"math/rand/v2"
)

// A Model replaces the scripted model in tests. It is called concurrently, for requests that passed the checks.
type Model func(Request) Answer

// A Request is a request to a Model.
type Request struct {
	Model    string
	Messages []json.RawMessage
}

// An Answer is an answer of a Model.
type Answer struct {
	Text      string
	Reasoning *string // reasoning_content or a thinking block; nil: absent
	Calls     []Call
	Finish    string // finish_reason; default: "stop" or "tool_calls"

	// Stream defects.
	Cut      int  // the stream ends after this many events; 0: complete
	OneIndex bool // all calls have the index 0
	LateID   bool // the id of a call arrives in an event after its name
}

// A Call is a tool call.
type Call struct {
	ID, Name, Arguments string
	Signature           string // Gemini's thought_signature; empty: absent
}

// newReply converts the answer of a Model to a reply.
func newReply(s *Answer, r *request, rng *rand.Rand) *reply {
	a := &reply{id: newID(rng), model: r.Model, in: len(r.body) / 4, text: s.Text, reasoning: s.Reasoning, reason: s.Finish, defects: *s}
	a.out = len(s.Text)/4 + 20*len(s.Calls)
	for _, c := range s.Calls {
		w := wireCall{ID: c.ID, Type: "function", Function: wireFunction{Name: c.Name, Arguments: c.Arguments}}
		if c.Signature != "" {
			w.Extra = &wireExtra{}
			w.Extra.Google.Signature = c.Signature
		}
		a.calls = append(a.calls, w)
	}
	return a
}
