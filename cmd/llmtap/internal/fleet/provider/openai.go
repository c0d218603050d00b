package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/promptcaching"
)

// openAI has OpenAI's error texts.
type openAI struct{}

var (
	_ flavor  = openAI{}
	_ caching = openAI{}
)

func (openAI) lookUp(c *promptcaching.Cache, r promptcaching.Request) *promptcaching.Call {
	return c.OpenAI(r)
}

func (openAI) usage(u *wireUsage, c promptcaching.Usage) { u.Details = &wireDetails{c.Read} }

// invalid returns an error. An empty param or code becomes null.
func invalid(param, code, format string, args ...any) *apiError {
	e := &apiError{Message: fmt.Sprintf(format, args...), Type: "invalid_request_error"}
	if param != "" {
		e.Param = &param
	}
	if code != "" {
		e.Code = &code
	}
	return e
}

func (openAI) noJSON(error) *apiError {
	return invalid("", "", "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. "+
		"The OpenAI API expects a JSON payload, but what was sent was not valid JSON. If you have trouble figuring out how to fix this, "+
		"please contact us through our help center at help.openai.com.)")
}

func (openAI) noModel(*request) *apiError {
	return invalid("", "", "you must provide a model parameter")
}

func (openAI) noMessages() *apiError { return emptyArray("messages") }

func emptyArray(param string) *apiError {
	return invalid(param, "empty_array", "Invalid '%s': empty array. Expected an array with minimum length 1, but got an empty array instead.", param)
}

func (openAI) malformed(_ *request, i int, err error) *apiError {
	param := fmt.Sprintf("messages[%d]", i)
	var te *json.UnmarshalTypeError
	if !errors.As(err, &te) {
		return invalidType(param, "an object", "something else")
	}
	if te.Field != "" {
		param += "." + te.Field
	}
	want := "a string"
	if strings.HasSuffix(te.Field, "tool_calls") {
		want = "an array of objects"
	}
	return invalidType(param, want, article(te.Value))
}

func invalidType(param, want, got string) *apiError {
	return invalid(param, "invalid_type", "Invalid type for '%s': expected %s, but got %s instead.", param, want, got)
}

func article(kind string) string {
	switch kind {
	case "array", "object", "integer":
		return "an " + kind
	case "null":
		return "null"
	}
	return "a " + kind
}

var openAIRoles = []string{"system", "assistant", "user", "function", "tool", "developer"}

func (openAI) checkMessage(r *request, i int) *apiError {
	m := &r.history[i]
	at := fmt.Sprintf("messages[%d]", i)
	if !slices.Contains(openAIRoles, m.Role) {
		return invalid(at+".role", "invalid_value",
			"Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.", m.Role)
	}
	switch k := kind(m.Content); k {
	case "string":
	case "array":
		if m.Role == "tool" && !onlyParts(m.Content, "text", "image_url") {
			return invalid(at, "invalid_value", "Invalid '%s'. Content blocks are expected to be either text or image_url type.", at)
		}
	case "null", "":
		if m.Role != "assistant" || len(m.calls()) == 0 {
			return invalid(fmt.Sprintf("messages.[%d].content", i), "", "Invalid value for 'content': expected a string, got null.")
		}
	default:
		return invalidType(at+".content", "one of a string or array of objects", article(k))
	}
	if m.ToolCalls != nil && len(*m.ToolCalls) == 0 {
		return emptyArray(at + ".tool_calls")
	}
	for j, c := range m.calls() {
		call := fmt.Sprintf("%s.tool_calls[%d]", at, j)
		for _, f := range [...]struct{ name, value string }{
			{".id", c.ID}, {".type", c.Type}, {".function.name", c.Function.Name}, {".function.arguments", kind(c.Function.Arguments)},
		} {
			if f.value == "" {
				return invalid(call+f.name, "missing_required_parameter", "Missing required parameter: '%s'.", call+f.name)
			}
		}
		if k := kind(c.Function.Arguments); k != "string" {
			return invalidType(call+".function.arguments", "a string", article(k))
		}
	}
	return nil
}

// onlyParts reports whether raw is an array of content parts of these types.
func onlyParts(raw json.RawMessage, types ...string) bool {
	var parts []struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return false
	}
	for _, p := range parts {
		if !slices.Contains(types, p.Type) {
			return false
		}
	}
	return true
}

func (openAI) noID(_ *request, i int) *apiError {
	return invalid(fmt.Sprintf("messages.[%d].tool_call_id", i), "",
		"Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.")
}

func (openAI) orphan(i int) *apiError {
	return invalid(fmt.Sprintf("messages.[%d].role", i), "",
		"Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
}

func (openAI) unknownID(i int, id string) *apiError {
	return invalid(fmt.Sprintf("messages.[%d].tool_call_id", i), "",
		"Invalid parameter: 'tool_call_id' of '%s' not found in 'tool_calls' of previous message.", id)
}

func (openAI) duplicate(first, i int, id string) *apiError {
	return invalid(fmt.Sprintf("messages.[%d].tool_call_id", i), "",
		"Invalid parameter: Duplicate value for 'tool_call_id' of '%s', in messages[%d] and messages[%d].", id, first, i)
}

func (openAI) sameID(i int, id string) *apiError {
	return invalid(fmt.Sprintf("messages.[%d].tool_calls", i), "", "Invalid parameter: Duplicate value for 'tool_call_id' of '%s'.", id)
}

func (openAI) missing(i, n int, ids []string) *apiError {
	param := "messages"
	if i < n {
		param = fmt.Sprintf("messages.[%d].role", i)
	}
	return invalid(param, "", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "+
		"The following tool_call_ids did not have response messages: %s", strings.Join(ids, ", "))
}
