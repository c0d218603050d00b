package facts

import (
	"bytes"
	"strings"

	"github.com/llmtap/llmtap/ingest/wire"
)

// A shape is a set of things in a body that only one API has.
type shape uint8

const (
	shapeChat      shape = 1 << iota // tool_calls, or a role "tool"
	shapeResponses                   // typed items of an input
	shapeAnthropic                   // tool_use, tool_result, anthropic_version
	shapeGemini                      // contents that have parts
	shapeBedrock                     // toolUse, toolResult, toolConfig
	shapeCohere                      // tool_plan
	shapeNative                      // a model and messages, at the path of Ollama's own API
)

// detectBody is Detect for a URL that says nothing but the model, if that. A body of two shapes, or of none, is other: a
// plain exchange of texts could be anybody's.
func detectBody(t wire.Target, path string, body []byte) wire.Target {
	native := strings.HasSuffix(strings.TrimRight(path, "/"), "/api/chat")
	switch shapeOf(body, native) {
	case shapeChat:
		t.Dialect = wire.OpenAIChat
	case shapeNative, shapeNative | shapeChat:
		t.Dialect, t.Variant, t.Native = wire.OpenAIChat, wire.Ollama, true
	case shapeResponses:
		t.Dialect = wire.OpenAIResponses
	case shapeAnthropic:
		t.Dialect = wire.Anthropic
	case shapeGemini:
		t.Dialect, t.Variant = wire.Gemini, wire.GeminiAPI
	case shapeBedrock:
		if !strings.Contains(path, "/model/") { // Nova's own body looks like Converse
			t.Dialect, t.Variant = wire.Bedrock, wire.BedrockAPI
		}
	default: // Cohere's messages are those of others with a plan: nothing else tells it
	}
	return t
}

// shapeOf reads a body as far as it is JSON.
func shapeOf(body []byte, native bool) (found shape) {
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
			found |= s.shapes((*scanner).messageShape)
		case "contents":
			found |= s.shapes((*scanner).contentsShape)
		case "input":
			found |= s.shapes((*scanner).itemShape)
		case "anthropic_version":
			if s.skip() == String {
				found |= shapeAnthropic
			}
		case "toolConfig": // Gemini has one too
			toolConfig = s.skip() == Object
		default:
			s.skip()
		}
	}
	if messages && toolConfig {
		found |= shapeBedrock
	}
	if messages && model && native {
		found |= shapeNative
	}
	return found
}

// shapes joins what the objects of an array show.
func (s *scanner) shapes(shapeOf func(*scanner) shape) (found shape) {
	if s.kind() != Array {
		s.skip()
		return 0
	}
	for more := s.open(); more; more = s.more(']') {
		if s.kind() != Object {
			s.skip()
			continue
		}
		found |= shapeOf(s)
	}
	return found
}

func (s *scanner) messageShape() (found shape) {
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "role":
			if role, _ := s.text(); string(role) == "tool" {
				found |= shapeChat
			}
		case "tool_calls":
			if s.skip() == Array {
				found |= shapeChat
			}
		case "tool_plan":
			s.skip()
			found |= shapeCohere
		case "content":
			found |= s.shapes((*scanner).blockShape)
		default:
			s.skip()
		}
	}
	return found
}

func (s *scanner) blockShape() (found shape) {
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "type":
			switch typ, _ := s.text(); string(typ) {
			case "tool_use", "tool_result":
				found |= shapeAnthropic
			}
		case "toolUse", "toolResult":
			if s.skip() == Object {
				found |= shapeBedrock
			}
		default:
			s.skip()
		}
	}
	return found
}

func (s *scanner) contentsShape() (found shape) {
	for more := s.open(); more; more = s.more('}') {
		if string(s.key()) == "parts" && s.kind() == Array {
			found = shapeGemini
		}
		s.skip()
	}
	return found
}

func (s *scanner) itemShape() (found shape) {
	for more := s.open(); more; more = s.more('}') {
		if string(s.key()) != "type" {
			s.skip()
			continue
		}
		switch typ, _ := s.text(); string(typ) {
		case "message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "reasoning", "item_reference":
			found = shapeResponses
		}
	}
	return found
}

// modelOf finds the model named in a request body; "" if there is none.
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
