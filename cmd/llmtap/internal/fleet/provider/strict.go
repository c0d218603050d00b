package provider

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// qwen has Qwen's error texts and requires arguments to be valid JSON.
type qwen struct{ openAI }

func (qwen) envelope(e *apiError) any {
	code := "invalid_parameter_error"
	e.Message, e.Param, e.Code = "<400> InternalError.Algo.InvalidParameter: "+e.Message, nil, &code
	return map[string]*apiError{"error": e}
}

func (q qwen) checkMessage(r *request, i int) *apiError {
	if e := q.openAI.checkMessage(r, i); e != nil {
		return e
	}
	for _, c := range r.history[i].calls() {
		var s string
		if json.Unmarshal(c.Function.Arguments, &s) == nil && s != "" && !json.Valid([]byte(s)) {
			return invalid("", "", `The "function.arguments" parameter of the code model must be in JSON format.`)
		}
	}
	return nil
}

func (qwen) orphan(int) *apiError {
	return invalid("", "", `messages with role "tool" must be a response to a preceeding message with "tool_calls".`)
}

func (qwen) missing(i, _ int, _ []string) *apiError {
	return invalid("", "", `An assistant message with "tool_calls" must be followed by tool messages responding to each "tool_call_id". `+
		`The following tool_call_ids did not have response messages: message[%d].role`, i)
}

// gemini is Gemini's endpoint in OpenAI's format, whose errors do not name the invalid argument.
type gemini struct{ openAI }

func (gemini) envelope(e *apiError) any {
	fault := map[string]any{"code": 400, "message": "Request contains an invalid argument.", "status": "INVALID_ARGUMENT"}
	if strings.Contains(e.Message, "thought_signature") {
		fault["message"] = e.Message
	}
	return []any{map[string]any{"error": fault}}
}

func (g gemini) checkMessage(r *request, i int) *apiError {
	m := &r.history[i]
	if e := g.openAI.checkMessage(r, i); e != nil {
		return e
	}
	if calls := m.calls(); len(calls) > 0 && calls[0].Extra.Google.Signature == "" && strings.Contains(r.Model, "gemini-3") {
		return invalid("", "", "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, "+
			"and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:%s` , position %d.",
			calls[0].Function.Name, i)
	}
	return nil
}

// mistral has Mistral's error texts and rejects ids that are not in Mistral's format.
type mistral struct{ openAI }

func (mistral) envelope(e *apiError) any {
	return map[string]any{"object": "error", "message": e.Message, "type": "invalid_request_message_order", "code": "3230"}
}

var mistralID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

func (q mistral) checkMessage(r *request, i int) *apiError {
	if e := q.openAI.checkMessage(r, i); e != nil {
		return e
	}
	for _, c := range r.history[i].calls() {
		if !mistralID.MatchString(c.ID) {
			return invalid("", "", "Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", c.ID)
		}
	}
	return nil
}

func (mistral) orphan(int) *apiError {
	return invalid("", "", "Unexpected role 'tool' after role 'user'")
}

func (mistral) missing(int, int, []string) *apiError {
	return invalid("", "", "Not the same number of function calls and responses")
}

// groq rejects unknown members.
type groq struct{ openAI }

func (q groq) checkMessage(r *request, i int) *apiError {
	var fields map[string]json.RawMessage
	if json.Unmarshal(r.Messages[i], &fields) == nil {
		for _, f := range []string{"reasoning_content", "reasoning_details", "timestamp", "metadata"} {
			if _, ok := fields[f]; ok {
				at := fmt.Sprintf("'messages.%d'", i)
				return invalid("", "", "%s : for 'role:%s' the following must be satisfied[(%s : property '%s' is unsupported)]", at, r.history[i].Role, at, f)
			}
		}
	}
	return q.openAI.checkMessage(r, i)
}
