package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/promptcaching"
)

// deepSeek has DeepSeek's error texts: for pairing, OpenAI's texts without a position; for types, the texts of its Rust
// deserializer.
type deepSeek struct{}

var (
	_ flavor  = deepSeek{}
	_ caching = deepSeek{}
)

func (deepSeek) lookUp(c *promptcaching.Cache, r promptcaching.Request) *promptcaching.Call {
	return c.DeepSeek(r)
}

func (deepSeek) usage(u *wireUsage, c promptcaching.Usage) {
	missed := c.Prompt - c.Read
	u.Details, u.Hit, u.Miss = &wireDetails{c.Read}, &c.Read, &missed
}

// rejected returns an error. All errors have the same type, param and code.
func rejected(format string, args ...any) *apiError {
	code := "invalid_request_error"
	return &apiError{Message: fmt.Sprintf(format, args...), Type: "invalid_request_error", Code: &code}
}

// undecodable returns an error with the position of the deserializer: the end of message i, or the end of the body if i is
// negative.
func undecodable(r *request, i int, format string, args ...any) *apiError {
	end := len(r.body)
	if i >= 0 {
		if at := bytes.Index(r.body, r.Messages[i]); at >= 0 {
			end = at + len(r.Messages[i])
		}
	}
	line := bytes.Count(r.body[:end], []byte{'\n'}) + 1
	column := end - (bytes.LastIndexByte(r.body[:end], '\n') + 1)
	return rejected("Failed to deserialize the JSON body into the target type: %s at line %d column %d", fmt.Sprintf(format, args...), line, column)
}

func (deepSeek) noJSON(err error) *apiError {
	return rejected("Failed to parse the request body as JSON: %v", err)
}

func (deepSeek) noModel(r *request) *apiError { return undecodable(r, -1, "missing field `model`") }

func (deepSeek) noMessages() *apiError { return rejected("Empty input messages") }

func (deepSeek) malformed(r *request, i int, err error) *apiError {
	got, want := "unit", "a map"
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		got, want = serdeKind(te.Value), "a string"
	}
	return undecodable(r, i, "messages[%d]: invalid type: %s, expected %s", i, got, want)
}

// serdeKind returns the deserializer's name for a JSON type.
func serdeKind(kind string) string {
	switch kind {
	case "object":
		return "map"
	case "array":
		return "sequence"
	case "number":
		return "integer"
	}
	return kind
}

var deepSeekRoles = []string{"system", "user", "assistant", "tool", "latest_reminder"}

func (deepSeek) checkMessage(r *request, i int) *apiError {
	m := &r.history[i]
	if !slices.Contains(deepSeekRoles, m.Role) {
		return undecodable(r, i, "messages[%d].role: unknown variant `%s`, expected one of `%s`", i, m.Role, strings.Join(deepSeekRoles, "`, `"))
	}
	switch k := kind(m.Content); {
	case k == "object" || k == "number" || k == "boolean" || k == "array" && !onlyParts(m.Content, "text"):
		return undecodable(r, i, "messages[%d]: invalid type: %s, expected a string", i, serdeKind(k))
	case k == "" && len(m.calls()) == 0:
		return undecodable(r, i, "messages[%d]: missing field `content`", i)
	}
	for _, c := range m.calls() {
		for _, f := range [...]struct{ name, value string }{
			{"id", c.ID}, {"type", c.Type}, {"name", c.Function.Name}, {"arguments", kind(c.Function.Arguments)},
		} {
			if f.value == "" {
				return undecodable(r, i, "messages[%d]: missing field `%s`", i, f.name)
			}
		}
		if k := kind(c.Function.Arguments); k != "string" {
			return undecodable(r, i, "messages[%d]: invalid type: %s, expected a string", i, serdeKind(k))
		}
	}
	if len(m.calls()) > 0 && m.Reasoning == nil && strings.Contains(r.Model, "v4-pro") {
		return rejected("The `reasoning_content` in the thinking mode must be passed back to the API.")
	}
	return nil
}

func (deepSeek) noID(r *request, i int) *apiError {
	return undecodable(r, i, "messages[%d]: missing field `tool_call_id`", i)
}

func (deepSeek) orphan(int) *apiError {
	return rejected("Messages with role 'tool' must be a response to a preceding message with 'tool_calls'")
}

// unknownID returns the same error as missing, because DeepSeek only counts replies.
func (d deepSeek) unknownID(i int, _ string) *apiError { return d.missing(i, 0, nil) }

func (deepSeek) duplicate(_, i int, id string) *apiError {
	return rejected("Duplicate value for 'tool_call_id' of %s in message[%d]", id, i)
}

func (d deepSeek) sameID(i int, id string) *apiError { return d.duplicate(0, i, id) }

func (deepSeek) missing(int, int, []string) *apiError {
	return rejected("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. " +
		"(insufficient tool messages following tool_calls message)")
}
