package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/promptcaching"
)

// anthropic is Anthropic's messages endpoint.
type anthropic struct{ cfg Config }

// The checked parts of a messages request.
type (
	blocksRequest struct {
		Model    string            `json:"model"`
		Messages []json.RawMessage `json:"messages"`
		Stream   bool              `json:"stream"`
		Tools    []struct {
			Name string `json:"name"`
		} `json:"tools"`
		ToolChoice struct {
			OneCall *bool `json:"disable_parallel_tool_use"`
		} `json:"tool_choice"`

		history []blocksMessage
	}
	blocksMessage struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`

		blocks []block
	}
	block struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		ID        string          `json:"id"`
		Input     json.RawMessage `json:"input"`
		ToolUseID string          `json:"tool_use_id"`
	}
)

// ServeHTTP implements http.Handler.
func (s *anthropic) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxRequest))
	if err != nil {
		http.Error(w, "request body: "+err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	rng := s.cfg.source(body)
	id := fmt.Sprintf("req_011%016x", rng.Uint64())
	w.Header().Set("Request-Id", id)
	r, fault := checkBlocks(body)
	if fault != "" && (r == nil || s.cfg.Lenient == nil || !s.cfg.Lenient()) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"type": "error", "request_id": id, "error": map[string]string{"type": "invalid_request_error", "message": fault},
		})
		return
	}
	usage := map[string]any{"input_tokens": 100, "output_tokens": 20}
	var cached *promptcaching.Call
	if s.cfg.Cache != nil {
		// The SDK for JavaScript 1.12 sends the key as a bearer token.
		key := cmp.Or(hr.Header.Get("X-Api-Key"), hr.Header.Get("Authorization"))
		cached = s.cfg.Cache.Anthropic(promptcaching.Request{Key: key, Model: r.Model, Body: body})
		usage = blocksUsage(cached.Usage)
	}
	answer := Answer{Text: sentences[rng.IntN(len(sentences))]}
	if s.cfg.Model != nil {
		answer = s.cfg.Model(Request{Model: r.Model, Messages: r.Messages})
	} else if calls := r.scripted(rng); len(calls) > 0 {
		answer = Answer{Calls: calls}
	}
	if cached != nil {
		cached.Answered(nil)
	}
	if r.Stream {
		answer.streamBlocks(hr.Context(), w, answer.envelope(r.Model, usage, rng))
		return
	}
	m := answer.envelope(r.Model, usage, rng)
	m["content"], m["stop_reason"] = answer.blocks(), answer.stopReason()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(m) // fails only if the client disconnected
}

// scripted returns the calls of the scripted model for the next steps of the task, see script.
func (r *blocksRequest) scripted(rng *rand.Rand) (calls []Call) {
	tools := make([]tool, len(r.Tools))
	for i, t := range r.Tools {
		tools[i].Function.Name = t.Name
	}
	history := make([]message, len(r.history))
	for i, m := range r.history {
		var text []string
		var called []call
		for _, b := range m.blocks {
			switch b.Type {
			case "text":
				text = append(text, b.Text)
			case "tool_use":
				called = append(called, call{})
			}
		}
		history[i].ToolCalls = &called
		if len(text) > 0 { // a message of results alone is no task
			history[i].Role = m.Role
			history[i].Content, _ = json.Marshal(strings.Join(text, "\n")) // a string can always be encoded
		}
	}
	steps := remainingSteps(history)
	if len(steps) == 0 || len(tools) == 0 {
		return nil
	}
	parallel := r.ToolChoice.OneCall
	if parallel != nil {
		parallel = new(!*parallel)
	}
	for _, step := range nextSteps(steps, parallel, rng) {
		calls = append(calls, Call{ID: newCallID("toolu_01", rng), Name: toolFor(step, tools, rng), Arguments: argumentsFor(step)})
	}
	return calls
}

// checkBlocks decodes body and returns Anthropic's error text for the first violation, or "". The request is nil if it cannot
// be decoded.
func checkBlocks(body []byte) (*blocksRequest, string) {
	r := new(blocksRequest)
	if err := json.Unmarshal(body, r); err != nil {
		return nil, "The request body is not valid JSON: " + err.Error()
	}
	if len(r.Messages) == 0 {
		return nil, "messages: at least one message is required"
	}
	r.history = make([]blocksMessage, len(r.Messages))
	for i := range r.Messages {
		m := &r.history[i]
		if err := json.Unmarshal(r.Messages[i], m); err != nil {
			return nil, fmt.Sprintf("messages.%d: Input should be a valid dictionary", i)
		}
		if kind(m.Content) == "string" {
			m.blocks = []block{{Type: "text"}}
			_ = json.Unmarshal(m.Content, &m.blocks[0].Text) // the content is a string
		} else if err := json.Unmarshal(m.Content, &m.blocks); err != nil {
			return nil, fmt.Sprintf("messages.%d.content: Input should be a valid list", i)
		}
		if fault := m.check(i, len(r.Messages)); fault != "" {
			return r, fault
		}
	}
	for i := range r.history {
		if fault := r.checkPairs(i); fault != "" {
			return r, fault
		}
	}
	return r, ""
}

var toolUseID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// check returns the first violation in message i of n, regardless of other messages.
func (m *blocksMessage) check(i, n int) string {
	if m.Role != "user" && m.Role != "assistant" {
		return fmt.Sprintf("messages.%d.role: Input should be 'user' or 'assistant'", i)
	}
	if len(m.blocks) == 0 && i < n-1 {
		return fmt.Sprintf("messages.%d: all messages must have non-empty content except for the optional final assistant message", i)
	}
	for j, b := range m.blocks {
		switch {
		case b.Type == "text" && b.Text == "":
			return "messages: text content blocks must be non-empty"
		case b.Type == "tool_use" && !toolUseID.MatchString(b.ID):
			return fmt.Sprintf("messages.%d.content.%d.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", i, j)
		case b.Type == "tool_use" && kind(b.Input) != "object":
			return fmt.Sprintf("messages.%d.content.%d.tool_use.input: Input should be a valid dictionary", i, j)
		}
	}
	return ""
}

// checkPairs returns the first violation of the pairing rules by the calls and results in message i.
func (r *blocksRequest) checkPairs(i int) string {
	m := &r.history[i]
	called := map[string]bool{}
	if i > 0 && r.history[i-1].Role == "assistant" {
		for _, b := range r.history[i-1].blocks {
			called[b.ID] = b.Type == "tool_use"
		}
	}
	answered := map[string]bool{}
	for j, b := range m.blocks {
		if b.Type != "tool_result" {
			continue
		}
		if m.Role != "user" || !called[b.ToolUseID] {
			return fmt.Sprintf("messages.%d.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. "+
				"Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", i, j, b.ToolUseID)
		}
		if answered[b.ToolUseID] {
			return fmt.Sprintf("messages.%d.content.%d: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s",
				i, j, b.ToolUseID)
		}
		answered[b.ToolUseID] = true
	}
	seen, unanswered := map[string]bool{}, []string{}
	for j, b := range m.blocks {
		if b.Type != "tool_use" {
			continue
		}
		if seen[b.ID] {
			return fmt.Sprintf("messages.%d.content.%d: `tool_use` ids must be unique", i, j)
		}
		seen[b.ID] = true
		if !r.hasResult(i+1, b.ID) {
			unanswered = append(unanswered, b.ID)
		}
	}
	if len(unanswered) > 0 {
		return fmt.Sprintf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. "+
			"Each `tool_use` block must have a corresponding `tool_result` block in the next message.", i, strings.Join(unanswered, ", "))
	}
	return ""
}

// hasResult reports whether message i is a user message with a result for the call.
func (r *blocksRequest) hasResult(i int, id string) bool {
	if i >= len(r.history) || r.history[i].Role != "user" {
		return false
	}
	for _, b := range r.history[i].blocks {
		if b.Type == "tool_result" && b.ToolUseID == id {
			return true
		}
	}
	return false
}

// blocksUsage returns the usage of an answer of 20 tokens.
func blocksUsage(u promptcaching.Usage) map[string]any {
	return map[string]any{
		"input_tokens": u.Prompt - u.Read - u.Written, "cache_creation_input_tokens": u.Written, "cache_read_input_tokens": u.Read,
		"cache_creation": map[string]int{"ephemeral_5m_input_tokens": u.Written - u.Hour, "ephemeral_1h_input_tokens": u.Hour}, "output_tokens": 20,
	}
}

// envelope returns an answer without its content.
func (s *Answer) envelope(model string, usage map[string]any, rng *rand.Rand) map[string]any {
	return map[string]any{
		"id": fmt.Sprintf("msg_01%016x", rng.Uint64()), "type": "message", "role": "assistant", "model": model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": usage,
	}
}

func (s *Answer) stopReason() string {
	switch {
	case s.Finish != "":
		return s.Finish
	case len(s.Calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}

// blocks returns the content of an answer.
func (s *Answer) blocks() (list []map[string]any) {
	if s.Reasoning != nil {
		list = append(list, map[string]any{"type": "thinking", "thinking": *s.Reasoning, "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h"})
	}
	if s.Text != "" {
		list = append(list, map[string]any{"type": "text", "text": s.Text})
	}
	for _, c := range s.Calls {
		list = append(list, map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": json.RawMessage(c.Arguments)})
	}
	return list
}

// streamBlocks writes the answer as server-sent events.
func (s *Answer) streamBlocks(ctx context.Context, w http.ResponseWriter, start map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	sent := 0
	send := func(kind string, fields map[string]any) {
		if sent++; s.Cut > 0 && sent > s.Cut || ctx.Err() != nil {
			return
		}
		fields["type"] = kind
		var b bytes.Buffer
		if json.NewEncoder(&b).Encode(fields) == nil {
			fmt.Fprintf(w, "event: %s\ndata: %s\n", kind, b.Bytes())
			_ = http.NewResponseController(w).Flush() // fails only if the client disconnected
		}
	}
	send("message_start", map[string]any{"message": start})
	for i, b := range s.blocks() {
		head, deltas := map[string]any{"type": b["type"]}, []map[string]any(nil)
		piecewise := func(kind, field, text string) {
			for _, p := range pieces(text) {
				deltas = append(deltas, map[string]any{"type": kind, field: p})
			}
		}
		switch b["type"] {
		case "thinking":
			head["thinking"], head["signature"] = "", ""
			piecewise("thinking_delta", "thinking", *s.Reasoning)
			deltas = append(deltas, map[string]any{"type": "signature_delta", "signature": b["signature"]})
		case "text":
			head["text"] = ""
			piecewise("text_delta", "text", s.Text)
		default:
			head["id"], head["name"], head["input"] = b["id"], b["name"], map[string]any{}
			piecewise("input_json_delta", "partial_json", string(b["input"].(json.RawMessage)))
		}
		send("content_block_start", map[string]any{"index": i, "content_block": head})
		for _, d := range deltas {
			send("content_block_delta", map[string]any{"index": i, "delta": d})
		}
		send("content_block_stop", map[string]any{"index": i})
	}
	send("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": s.stopReason(), "stop_sequence": nil}, "usage": map[string]int{"output_tokens": 20},
	})
	send("message_stop", map[string]any{})
}
