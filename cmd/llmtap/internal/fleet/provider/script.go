package provider

import (
	"encoding/json"
	"math/rand/v2"
)

// A Model answers in place of the scripted one, so that a test can let it say what it needs. It is called for requests
// that passed the checks, each on a goroutine of its own.
type Model func(Asked) Said

// Asked is a request as a Model sees it.
type Asked struct {
	Model    string
	Messages []json.RawMessage
}

// Said is an answer of a Model.
type Said struct {
	Text      string
	Reasoning *string // reasoning_content or a thinking block; nil leaves it out
	Calls     []Called
	Finish    string // finish_reason; by default what fits, "stop" or "tool_calls"

	// Faults of a stream.
	Cut      int  // it ends after so many events without a word; 0 is a whole one
	OneIndex bool // all calls have the index 0
	LateID   bool // a call's id comes in an event after its name
}

// Called is one tool call.
type Called struct {
	ID, Name, Arguments string
	Signature           string // Gemini's thought_signature; empty leaves it out
}

// said is the reply that a Model gave.
func said(s *Said, r *request, rng *rand.Rand) *reply {
	a := &reply{id: newID(rng), model: r.Model, in: len(r.body) / 4, text: s.Text, reasoning: s.Reasoning, reason: s.Finish, fault: *s}
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
