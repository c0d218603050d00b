package agents

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// A message is a message of a history in OpenAI's format.
type message struct {
	Role       string     `json:"role"`
	Content    *string    `json:"content"` // nil: null
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func text(role, content string) message { return message{Role: role, Content: &content} }

func reply(id, content string) message {
	return message{Role: "tool", Content: &content, ToolCallID: id}
}

// A client calls chat completions at base.
type client struct {
	base string
	http *http.Client
}

// A statusError is the error of an answer.
type statusError struct {
	status int
	body   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }

// complete returns the answer to a history.
func (c *client) complete(ctx context.Context, model string, history []message, tools []string, stream bool) (message, error) {
	params := map[string]any{"model": model, "messages": history}
	if len(tools) > 0 {
		params["tools"] = functions(tools)
	}
	if stream {
		params["stream"], params["stream_options"] = true, map[string]bool{"include_usage": true}
	}
	body, err := json.Marshal(params)
	if err != nil {
		return message{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return message{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer demo")
	resp, err := c.http.Do(req)
	if err != nil {
		return message{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(resp.Body)
		return message{}, errors.Join(&statusError{resp.StatusCode, string(text)}, err)
	}
	if stream {
		return accumulate(resp.Body)
	}
	var answer struct {
		Choices []struct{ Message message }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return message{}, err
	}
	if len(answer.Choices) == 0 {
		return message{}, errors.New("answer has no choices")
	}
	return answer.Choices[0].Message, nil
}

// accumulate returns the message of a streamed answer.
func accumulate(r io.Reader) (message, error) {
	type delta struct {
		message
		ToolCalls []struct {
			Index int
			toolCall
		} `json:"tool_calls"`
	}
	m, content := message{Role: "assistant"}, ""
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			if content != "" {
				m.Content = &content
			}
			return m, nil
		}
		var chunk struct{ Choices []struct{ Delta delta } }
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return message{}, err
		}
		for _, choice := range chunk.Choices {
			if choice.Delta.Content != nil {
				content += *choice.Delta.Content
			}
			for _, c := range choice.Delta.ToolCalls {
				if c.Index == len(m.ToolCalls) {
					m.ToolCalls = append(m.ToolCalls, c.toolCall)
				} else if c.Index < len(m.ToolCalls) {
					m.ToolCalls[c.Index].Function.Arguments += c.Function.Arguments
				}
			}
		}
	}
	return message{}, errors.Join(io.ErrUnexpectedEOF, lines.Err())
}

// functions declares tools with one string parameter.
func functions(names []string) []any {
	var fs []any
	for _, name := range names {
		fs = append(fs, map[string]any{"type": "function", "function": map[string]any{
			"name": name, "parameters": map[string]any{
				"type": "object", "properties": map[string]any{"step": map[string]string{"type": "string"}}, "required": []string{"step"},
			},
		}})
	}
	return fs
}
