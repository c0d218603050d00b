package facts

import (
	"bytes"
	"errors"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts/sse"
)

// scanChatResponse is ScanResponse for chat completions.
func scanChatResponse(contentType string, body []byte, r *Response) {
	a := answer{r: r}
	text := bytes.TrimSpace(body)
	switch {
	case len(text) > 0 && (text[0] == '{' || text[0] == '['):
		a.unary(text)
	case sse.HasField(body):
		a.stream(body)
	case isEventStream(contentType) && len(text) == 0:
		r.Cut = true
	default: // HTML, plain text, nothing
		r.Error, r.Malformed = text, true
	}
	a.finish()
}

func isEventStream(contentType string) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(contentType)), "text/event-stream")
}

// An answer gathers a Response from one body or from the chunks of a stream.
type answer struct {
	r         *Response
	text      xxh3.Hasher // of the content seen so far, decoded
	calls     []partialCall
	reasoning [3]Kind
	answered  bool // a choice was seen
	streamed  bool // calls come in fragments
}

// unary reads a whole answer. Gemini's compatible endpoint wraps its errors in an array.
func (a *answer) unary(text []byte) {
	s := scanner{b: text}
	if text[0] == '{' {
		a.object(&s)
	} else {
		for more := s.open(); more; more = s.more(']') {
			if s.kind() == Object {
				a.object(&s)
			} else {
				s.skip()
			}
		}
	}
	s.end()
	a.r.Cut = errors.Is(s.err, ErrTruncated)
	if !a.answered && len(a.r.Error) == 0 {
		a.r.Error, a.r.Malformed = text, true
	}
	a.r.Malformed = a.r.Malformed || s.err != nil
}

// finish moves what was gathered into the Response.
func (a *answer) finish() {
	r := a.r
	r.Reasoning = firstReasoning(a.reasoning)
	if r.Content == String {
		r.ContentHash = a.text.Sum64()
	}
	if len(a.calls) > 0 {
		r.Calls = make([]ResponseCall, len(a.calls))
	}
	for i := range a.calls {
		r.Calls[i] = a.calls[i].call()
	}
}

// object reads a completion or a chunk of one.
func (a *answer) object(s *scanner) {
	start, isError := s.i, false
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "id":
			setText(&a.r.ID, s)
		case "model":
			setText(&a.r.Model, s)
		case "object":
			object, _ := s.text()
			isError = string(object) == "error"
		case "choices":
			a.choices(s)
		case "usage":
			a.usage(s)
		case "x_groq":
			a.groq(s)
		case "error":
			a.error(s)
		default:
			s.skip()
		}
	}
	if isError && len(a.r.Error) == 0 {
		a.r.Error = s.b[start:s.i]
	}
}

// setText sets v to the string at hand unless it already has a value.
func setText(v *string, s *scanner) {
	n := len(s.scratch)
	if text, _ := s.text(); *v == "" {
		*v = string(text)
	}
	s.scratch = s.scratch[:n]
}

// error reads an error member. Null, false and "" mean that there is none. An error cut short is still one.
func (a *answer) error(s *scanner) {
	k := s.kind()
	raw := s.raw(k)
	if k > Bool && len(a.r.Error) == 0 && string(raw) != `""` {
		a.r.Error = raw
	}
}

func (a *answer) choices(s *scanner) {
	if s.kind() != Array {
		s.skip()
		return
	}
	position := 0
	for more := s.open(); more; more = s.more(']') {
		if s.kind() == Object {
			a.choice(s, position)
		} else {
			s.skip()
		}
		position++
	}
}

// choice reads one choice. Only the first one is described, so it must know the index before the rest.
func (a *answer) choice(s *scanner, position int) {
	index := position
	if a.streamed {
		index = 0 // a chunk without index continues the only choice
	}
	ahead := scanner{b: s.b, i: s.i}
	for more := ahead.open(); more; more = ahead.more('}') {
		if string(ahead.key()) != "index" {
			ahead.skip()
		} else if ahead.kind() == Number {
			index = int(min(max(ahead.number(), 0), 1<<16))
			break // servers put it first
		} else {
			ahead.skip()
		}
	}
	a.r.Choices = max(a.r.Choices, index+1)
	if index != 0 {
		s.skip()
		return
	}
	a.answered = true
	for more := s.open(); more; more = s.more('}') {
		switch key := s.key(); string(key) {
		case "message", "delta":
			// Perplexity's chunks carry both: the delta, and the message as far as it has come.
			if a.streamed == (string(key) == "delta") {
				a.message(s)
			} else {
				s.skip()
			}
		case "finish_reason":
			n := len(s.scratch)
			if reason, k := s.text(); k == String {
				a.r.FinishReason = string(reason)
			}
			s.scratch = s.scratch[:n]
		case "usage": // Moonshot's streams
			a.usage(s)
		case "error": // OpenRouter's
			a.error(s)
		default:
			s.skip()
		}
	}
}

// message reads the message of a choice, or a delta of it.
func (a *answer) message(s *scanner) {
	if s.kind() != Object {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "content":
			a.content(s)
		case "tool_calls":
			a.toolCalls(s)
		case "reasoning_content":
			a.reasoning[0] = max(a.reasoning[0], s.skip())
		case "reasoning":
			a.reasoning[1] = max(a.reasoning[1], s.skip())
		case "reasoning_details":
			a.reasoning[2] = max(a.reasoning[2], s.skip())
		default:
			s.skip()
		}
	}
}

func (a *answer) content(s *scanner) {
	n := len(s.scratch)
	start := s.i
	text, k := s.text()
	if s.err != nil {
		return
	}
	switch k {
	case String:
		_, _ = a.text.Write(text)
		a.r.ContentBytes += len(text)
	case Null:
	default:
		a.r.ContentBytes += s.i - start
	}
	a.r.Content = max(a.r.Content, k)
	s.scratch = s.scratch[:n]
}

func (a *answer) toolCalls(s *scanner) {
	if s.kind() != Array {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more(']') {
		if s.kind() != Object {
			s.skip()
			continue
		}
		n := len(s.scratch)
		if f := readFragment(s); s.err == nil {
			a.add(f)
		}
		s.scratch = s.scratch[:n]
	}
}

// usage reads token counts; of a stream's the last wins, because some servers count up.
func (a *answer) usage(s *scanner) {
	if s.kind() != Object {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "prompt_tokens":
			a.r.InputTokens = s.number()
		case "completion_tokens":
			a.r.OutputTokens = s.number()
		case "prompt_cache_hit_tokens", "cached_tokens": // DeepSeek, Moonshot
			a.r.CachedTokens = s.number()
		case "prompt_tokens_details":
			if s.kind() != Object {
				s.skip()
				continue
			}
			for more := s.open(); more; more = s.more('}') {
				if string(s.key()) == "cached_tokens" {
					a.r.CachedTokens = max(a.r.CachedTokens, s.number())
				} else {
					s.skip()
				}
			}
		default:
			s.skip()
		}
	}
}

// groq reads Groq's own member, which holds the usage of a stream.
func (a *answer) groq(s *scanner) {
	if s.kind() != Object {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "usage":
			a.usage(s)
		case "error":
			a.error(s)
		default:
			s.skip()
		}
	}
}
