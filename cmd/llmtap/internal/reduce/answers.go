package reduce

import (
	"slices"

	"github.com/llmtap/llmtap/ingest/dialect"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Makes reports whether an answer, or a message of the model in the last request, makes the call of f. A fault without a call
// needs no answer.
func (c *Case) Makes(f *Fault) bool {
	return f.ToolCallID == "" || c.answers(f.ToolCallID) || slices.ContainsFunc(c.said(), func(m any) bool { return slices.Contains(callIDs(m), f.ToolCallID) })
}

// Answers returns the answers that an agent needs to send the last request, in order. If no answer is stored that makes the call of
// f, or none at all, they are the messages of the model in that request.
func (c *Case) Answers(f *Fault) (all [][]any) {
	for i := range c.Steps {
		if a := c.Steps[i].Answer; len(a) > 0 && i < len(c.Steps)-1 {
			all = append(all, a)
		}
	}
	if len(all) > 0 && (f.ToolCallID == "" || c.answers(f.ToolCallID)) {
		return all
	}
	all = nil
	for _, m := range c.said() {
		all = append(all, []any{m})
	}
	return all
}

// said returns the messages of the model in the last request.
func (c *Case) said() (all []any) {
	for _, message := range c.history(&c.Steps[len(c.Steps)-1]) {
		m, _ := message.(map[string]any)
		switch role := text(m["role"]); {
		case role == "assistant", role == "model", role == "" && text(m["type"]) == "function_call":
			all = append(all, m)
		}
	}
	return all
}

// Chunk returns the only event of the stream of an answer with these messages, in a dialect that has such streams.
func Chunk(d wire.Dialect, messages []any) []byte {
	body, err := Decode[dialect.Object](Response(d, messages))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	dialect.Of(d).Chunk(body)
	return Encode(body)
}
