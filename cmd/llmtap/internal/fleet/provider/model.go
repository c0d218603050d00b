package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/promptcaching"
)

// A reply is the answer of the model: text or tool calls.
type reply struct {
	id, model string
	text      string
	calls     []wireCall
	in, out   int     // tokens
	caching   caching // nil: the answer reports no prompt cache
	read      promptcaching.Usage

	// Only a Model sets these fields.
	reasoning *string
	reason    string // finish_reason
	defects   Answer // stream defects
}

// The JSON of answers, with OpenAI's order of keys.
type (
	wireFunction struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	}
	wireCall struct {
		Index    *int         `json:"index,omitempty"` // set in streams only
		ID       string       `json:"id,omitempty"`
		Type     string       `json:"type,omitempty"`
		Function wireFunction `json:"function"`
		Extra    *wireExtra   `json:"extra_content,omitempty"` // Gemini only
	}
	wireExtra struct {
		Google struct {
			Signature string `json:"thought_signature"`
		} `json:"google"`
	}
	wireMessage struct {
		Role      string     `json:"role,omitempty"`
		Content   *string    `json:"content"`
		Reasoning *string    `json:"reasoning_content,omitempty"`
		ToolCalls []wireCall `json:"tool_calls,omitempty"`
		Refusal   *string    `json:"refusal"`
	}
	wireDelta struct {
		Role      string     `json:"role,omitempty"`
		Content   *string    `json:"content,omitempty"`
		Reasoning *string    `json:"reasoning_content,omitempty"`
		ToolCalls []wireCall `json:"tool_calls,omitempty"`
	}
	wireChoice struct {
		Index        int          `json:"index"`
		Message      *wireMessage `json:"message,omitempty"`
		Delta        *wireDelta   `json:"delta,omitempty"`
		FinishReason *string      `json:"finish_reason"`
	}
	wireUsage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`

		Details *wireDetails `json:"prompt_tokens_details,omitempty"`
		Hit     *int         `json:"prompt_cache_hit_tokens,omitempty"` // DeepSeek only
		Miss    *int         `json:"prompt_cache_miss_tokens,omitempty"`
	}
	wireDetails struct {
		Cached int `json:"cached_tokens"`
	}
	wireAnswer struct {
		ID      string       `json:"id"`
		Object  string       `json:"object"`
		Created int64        `json:"created"`
		Model   string       `json:"model"`
		Choices []wireChoice `json:"choices"`
		Usage   *wireUsage   `json:"usage,omitempty"`
	}
)

// script answers with tool calls while steps of the task remain, then with text.
func script(r *request, rng *rand.Rand, prefix string) *reply {
	a := &reply{id: newID(rng), model: r.Model, in: len(r.body) / 4}
	steps := remainingSteps(r.history)
	if len(steps) == 0 || len(r.Tools) == 0 {
		a.text = sentences[rng.IntN(len(sentences))]
		a.out = len(a.text) / 4
		return a
	}
	for _, step := range nextSteps(steps, r.Parallel, rng) {
		c := wireCall{ID: newCallID(prefix, rng), Type: "function"}
		c.Function = wireFunction{Name: toolFor(step, r.Tools, rng), Arguments: argumentsFor(step)}
		a.calls = append(a.calls, c)
		a.out += 20 + len(c.Function.Arguments)/4
	}
	return a
}

// nextSteps returns the first of the steps, those of one answer.
func nextSteps(steps []string, parallel *bool, rng *rand.Rand) []string {
	n := 1 + rng.IntN(3)
	if parallel != nil {
		if n = 1; *parallel {
			n = len(steps)
		}
	}
	return steps[:min(len(steps), n)]
}

func newCallID(prefix string, rng *rand.Rand) string {
	return fmt.Sprintf("%s%016x%04x", prefix, rng.Uint64(), rng.Uint32()>>16)
}

// argumentsFor returns the arguments at the end of a step, as in `read_file {"path": "a.go"}`. If there are none, the step
// itself is the argument.
func argumentsFor(step string) string {
	if i := strings.IndexByte(step, '{'); i >= 0 && json.Valid([]byte(step[i:])) {
		return step[i:]
	}
	args, err := json.Marshal(map[string]string{"step": step})
	if err != nil {
		return "{}" // impossible, because a string can always be encoded
	}
	return string(args)
}

func newID(rng *rand.Rand) string {
	return fmt.Sprintf("chatcmpl-%016x%08x", rng.Uint64(), rng.Uint32())
}

// remainingSteps returns the lines "- ..." of the last user message for which no call was made yet.
func remainingSteps(history []message) []string {
	var steps []string
	for i := range history {
		m := &history[i]
		if m.Role == "user" {
			steps = nil
			for line := range strings.SplitSeq(m.text(), "\n") {
				if step, ok := strings.CutPrefix(line, "- "); ok {
					steps = append(steps, step)
				}
			}
		}
		steps = steps[min(len(m.calls()), len(steps)):]
	}
	return steps
}

// toolFor returns the tool named in the step, else a random tool.
func toolFor(step string, tools []tool, rng *rand.Rand) string {
	for _, t := range tools {
		if strings.Contains(step, t.Function.Name) {
			return t.Function.Name
		}
	}
	return tools[rng.IntN(len(tools))].Function.Name
}

var sentences = []string{
	"Everything that was asked for is done; there is nothing left to look up.",
	"The steps are finished and the results agree with each other.",
	"Done. Two of the sources say the same, the third has no data for that day.",
	"The work is complete. The details are in the results above.",
}

func (a *reply) finish() *string {
	reason := "stop"
	if a.reason != "" {
		reason = a.reason
	} else if len(a.calls) > 0 {
		reason = "tool_calls"
	}
	return &reason
}

func (a *reply) usage() *wireUsage {
	u := &wireUsage{PromptTokens: a.in, CompletionTokens: a.out, TotalTokens: a.in + a.out}
	if a.caching != nil {
		a.caching.usage(u, a.read)
	}
	return u
}

// message returns the message of the answer.
func (a *reply) message() *wireMessage {
	m := &wireMessage{Role: "assistant", ToolCalls: a.calls, Reasoning: a.reasoning}
	if len(a.calls) == 0 || a.text != "" {
		m.Content = &a.text
	}
	return m
}

// completion returns the answer as a response that is not streamed.
func (a *reply) completion() *wireAnswer {
	return &wireAnswer{
		ID: a.id, Object: "chat.completion", Created: time.Now().Unix(), Model: a.model, Usage: a.usage(),
		Choices: []wireChoice{{Message: a.message(), FinishReason: a.finish()}},
	}
}

// stream writes the answer as server-sent events, each with a few words or a piece of arguments.
func (a *reply) stream(ctx context.Context, w http.ResponseWriter, usage bool) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flush := http.NewResponseController(w).Flush
	created := time.Now().Unix()
	sent := 0
	send := func(choices []wireChoice, u *wireUsage) {
		if sent++; a.cut(sent) {
			return
		}
		data, err := json.Marshal(wireAnswer{ID: a.id, Object: "chat.completion.chunk", Created: created, Model: a.model, Choices: choices, Usage: u})
		if err != nil || ctx.Err() != nil {
			return
		}
		fmt.Fprintf(w, "data: %s\n\n", data)
		_ = flush() // fails only if the client disconnected
	}
	delta := func(d wireDelta) { send([]wireChoice{{Delta: &d}}, nil) }

	empty := ""
	delta(wireDelta{Role: "assistant", Content: &empty})
	if a.reasoning != nil {
		delta(wireDelta{Reasoning: a.reasoning})
	}
	for _, piece := range pieces(a.text) {
		delta(wireDelta{Content: &piece})
	}
	for i, c := range a.calls {
		if a.defects.OneIndex {
			i = 0
		}
		head := c
		head.Index, head.Function.Arguments = &i, ""
		if a.defects.LateID {
			head.ID = ""
		}
		delta(wireDelta{ToolCalls: []wireCall{head}})
		if a.defects.LateID {
			delta(wireDelta{ToolCalls: []wireCall{{Index: &i, ID: c.ID}}})
		}
		for _, piece := range pieces(c.Function.Arguments) {
			delta(wireDelta{ToolCalls: []wireCall{{Index: &i, Function: wireFunction{Arguments: piece}}}})
		}
	}
	send([]wireChoice{{Delta: &wireDelta{}, FinishReason: a.finish()}}, nil)
	if usage {
		send([]wireChoice{}, a.usage())
	}
	if a.cut(sent) {
		return
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
	_ = flush()
}

// cut reports whether the stream ends before its n-th event.
func (a *reply) cut(n int) bool { return a.defects.Cut > 0 && n > a.defects.Cut }

// pieces splits s between runes into pieces of about 24 bytes.
func pieces(s string) []string {
	var out []string
	for len(s) > 0 {
		n := min(24, len(s))
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n++
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}
