package facts

import "github.com/llmtap/llmtap/ingest/sdk/go/wire"

// scanCohereResponse implements ScanResponse for Cohere's v2/chat.
func scanCohereResponse(contentType string, body []byte, r *Response) {
	a := answer{r: r}
	a.read(contentType, body, (*answer).cohere)
}

// cohere reads an answer or an event of a stream. The delta of an event has the members of an answer.
func (a *answer) cohere(s *scanner) {
	start, message, delta, failed, index := s.i, -1, -1, false, fragment{}
	event := ""
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "id":
			setText(&a.r.ID, s)
		case "type":
			event = ""
			setText(&event, s)
		case "index":
			index.indexed = s.kind() == Number
			index.index = s.number()
		case "message": // in error bodies, message is a string
			k := s.kind()
			if message, failed = -1, k == String; k == Object {
				message, a.answered, a.r.Choices = s.i, true, 1
			}
			s.skip()
		case "delta":
			if delta = -1; s.kind() == Object {
				delta = s.i
			}
			s.skip()
		case "finish_reason":
			a.finishReason(s, &a.r.FinishReason)
		case "usage":
			a.cohereUsage(s)
		case "error":
			s.errorMember(&a.r.Error)
		default:
			s.skip()
		}
	}
	if failed && len(a.r.Error) == 0 {
		a.r.Error = s.b[start:s.i]
	}
	if s.err != nil {
		return
	}
	end := s.i
	if message >= 0 {
		s.i = message
		a.cohereMessage(s, index)
	}
	if delta >= 0 {
		s.i = delta
		a.cohereDelta(s, index)
	}
	s.i = end
	a.ended = a.ended || isLastEvent(wire.Cohere, []byte(event))
}

func (a *answer) cohereDelta(s *scanner, index fragment) {
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "message":
			if s.kind() != Object {
				s.skip()
				continue
			}
			a.answered, a.r.Choices = true, 1
			a.cohereMessage(s, index)
		case "finish_reason":
			a.finishReason(s, &a.r.FinishReason)
		case "usage":
			a.cohereUsage(s)
		case "error":
			s.errorMember(&a.r.Error)
		default:
			s.skip()
		}
	}
}

// cohereMessage reads a message or a fragment of a message. In a stream, content and tool_calls are objects, and a fragment
// of a call has the index of its event.
func (a *answer) cohereMessage(s *scanner, index fragment) {
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "content":
			switch s.kind() {
			case Array:
				a.r.Content = max(a.r.Content, Null)
				for more := s.open(); more; more = s.more(']') {
					a.coherePart(s)
				}
			case Object:
				a.coherePart(s)
			default:
				a.content(s)
			}
		case "tool_calls":
			if s.kind() != Object {
				a.toolCalls(s)
				continue
			}
			n := len(s.scratch)
			f := readFragment(s)
			f.index, f.indexed = index.index, index.indexed
			if s.err == nil {
				a.add(f)
			}
			s.scratch = s.scratch[:n]
		default:
			s.skip()
		}
	}
}

// coherePart reads a part of the content. In a stream, only the first fragment of a part has a type.
func (a *answer) coherePart(s *scanner) {
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "text":
			a.content(s)
		case "thinking":
			a.thinking = max(a.thinking, s.skip())
		default:
			s.skip()
		}
	}
}

// cohereUsage reads the token counts. If they are missing, it uses the billed units, which are fewer.
func (a *answer) cohereUsage(s *scanner) {
	if s.kind() != Object {
		s.skip()
		return
	}
	var tokens, billed [2]int64
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "tokens":
			tokens = inAndOut(s)
		case "billed_units":
			billed = inAndOut(s)
		case "cached_tokens":
			a.r.cached(s)
		default:
			s.skip()
		}
	}
	if tokens == [2]int64{} {
		tokens = billed
	}
	a.r.InputTokens, a.r.OutputTokens = tokens[0], tokens[1]
}

func inAndOut(s *scanner) (n [2]int64) {
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "input_tokens":
			n[0] = s.number()
		case "output_tokens":
			n[1] = s.number()
		default:
			s.skip()
		}
	}
	return n
}
