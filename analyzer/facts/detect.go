package facts

import (
	"bytes"
	"strings"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Detect returns the target of a request to url. If wire.DetectURL cannot decide, the body does, but only if it is
// unambiguous, because a wrong dialect causes false alarms. Detect is cheap if body is nil.
//
// The model is the parameter model, else the model in the path (Gemini, Bedrock, Claude on Vertex), else the model in the
// body.
func Detect(url, model string, body []byte) wire.Target {
	t, decided := wire.DetectURL(url)
	if !decided && body != nil {
		_, _, path := wire.SplitURL(url)
		t = detectBody(t, path, body)
	}
	if model == "" && t.Model == "" {
		model = modelOf(body)
	}
	return t.WithModel(model)
}

// traits is a set of request body members, each of which is specific to one API.
type traits uint16

const (
	traitChat         traits = 1 << iota // tool_calls, or a role "tool"
	traitResponses                       // input with typed items
	traitAnthropic                       // tool_use, tool_result, blocks of server tools, anthropic_version
	traitGemini                          // contents with parts
	traitBedrock                         // toolUse, toolResult, toolConfig
	traitCohere                          // tool_plan
	traitInteractions                    // input with steps
	traitCallID                          // input with a function_call that has a call_id: an item, or a step with a fault
	traitNative                          // model and messages, at a path of Ollama's own API
)

// detectBody detects the target from the body if the URL determines at most the model. A body with the traits of two
// dialects, or of none, is Other, because a plain exchange of texts fits every API.
func detectBody(t wire.Target, path string, body []byte) wire.Target {
	found := traitsOf(body, wire.NativePath(path))
	if found&^traitChat == traitNative {
		t.Dialect, t.Variant, t.Native = wire.OpenAIChat, wire.Ollama, true
		return t
	}
	if found == traitBedrock && strings.Contains(path, "/model/") { // a body of Nova's own API resembles Converse
		return t
	}
	for d, f := range formats {
		if f.traits != 0 && f.traits == found {
			t.Dialect, t.Variant = d, d.Descriptor().DefaultVariant()
		}
	}
	return t
}

// traitsOf returns the traits of a request body, which is read up to its first error.
func traitsOf(body []byte, native bool) (found traits) {
	s := scanner{b: bytes.TrimSpace(body)}
	if len(s.b) == 0 || s.b[0] != '{' {
		return 0
	}
	var model, messages, toolConfig bool
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "model":
			model = s.skip() == String
		case "messages":
			messages = s.kind() == Array
			found |= s.traits((*scanner).messageTraits)
		case "contents":
			found |= s.traits((*scanner).contentsTraits)
		case "input":
			found |= s.traits((*scanner).itemTraits)
			if found&traitCallID != 0 && found&traitInteractions == 0 {
				found |= traitResponses
			}
			found &^= traitCallID
		case "anthropic_version":
			if s.skip() == String {
				found |= traitAnthropic
			}
		case "toolConfig": // also a member of Gemini's requests
			toolConfig = s.skip() == Object
		default:
			s.skip()
		}
	}
	if messages && toolConfig {
		found |= traitBedrock
	}
	if messages && model && native {
		found |= traitNative
	}
	return found
}

// traits returns the union of the traits of the objects in an array.
func (s *scanner) traits(traitsOf func(*scanner) traits) (found traits) {
	for more := s.enter(Array); more; more = s.more(']') {
		if s.kind() != Object {
			s.skip()
			continue
		}
		found |= traitsOf(s)
	}
	return found
}

func (s *scanner) messageTraits() (found traits) {
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "role":
			if role, _ := s.text(); string(role) == "tool" {
				found |= traitChat
			}
		case "tool_calls":
			if s.skip() == Array {
				found |= traitChat
			}
		case "tool_plan":
			s.skip()
			found |= traitCohere
		case "content":
			found |= s.traits((*scanner).blockTraits)
		default:
			s.skip()
		}
	}
	return found
}

func (s *scanner) blockTraits() (found traits) {
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "type":
			switch typ, _ := s.text(); {
			case string(typ) == "tool_use", string(typ) == "tool_result", string(typ) == "server_tool_use", bytes.HasSuffix(typ, serverResult):
				found |= traitAnthropic
			}
		case "toolUse", "toolResult":
			if s.skip() == Object {
				found |= traitBedrock
			}
		default:
			s.skip()
		}
	}
	return found
}

func (s *scanner) contentsTraits() (found traits) {
	for more := s.open(); more; more = s.more('}') {
		if string(s.key()) == "parts" && s.kind() == Array {
			found = traitGemini
		}
		s.skip()
	}
	return found
}

func (s *scanner) itemTraits() (found traits) {
	var call, callID bool
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "type":
			switch typ, _ := s.text(); string(typ) {
			case "message", "function_call_output", "custom_tool_call", "custom_tool_call_output", "reasoning", "item_reference":
				found = traitResponses
			case "user_input", "model_output", "function_result", "thought":
				found = traitInteractions
			case "function_call":
				call = true
			}
		case "call_id":
			callID = true
			s.skip()
		default:
			s.skip()
		}
	}
	if call && callID { // the id of a step is in the member id
		found = traitCallID
	}
	return found
}

// modelOf returns the member model of a request body, or "" if there is none.
func modelOf(body []byte) string {
	s := scanner{b: bytes.TrimSpace(body)}
	if len(s.b) == 0 || s.b[0] != '{' {
		return ""
	}
	var model []byte
	for more := s.open(); more; more = s.more('}') {
		if string(s.key()) == "model" {
			model, _ = s.text()
		} else {
			s.skip()
		}
	}
	return string(model)
}
