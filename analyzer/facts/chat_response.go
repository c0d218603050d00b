package facts

import (
	"bytes"
	"errors"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/wire/jsonscan"
	"github.com/llmtap/llmtap/ingest/wire/sse"
)

// scanChatResponse is ScanResponse for chat completions, and for Ollama's own API, whose answers tell themselves apart.
func scanChatResponse(contentType string, body []byte, r *Response) {
	a := answer{r: r}
	a.read(contentType, body, (*answer).object)
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
	thoughts  bool   // one of them is not an empty string
	thinking  Kind   // of what else is reasoning: thinking, and parts of that type
	failed    []byte // the finish reason of an answer that failed, if it says no more
	others    int    // choices, and chunks of them, that are not the first
	stray     string // finish reason of the first of these
	answered  bool   // a choice was seen
	streamed  bool   // calls come in fragments
	ended     bool   // the terminal event of a stream was seen, in dialects that have one
	native    bool   // the answer is of Ollama's own API
	signed    bool   // a thought signature stands beside the calls
}

// read reads an answer whose objects, one or many, are read by object.
func (a *answer) read(contentType string, body []byte, object func(*answer, *scanner)) {
	text := bytes.TrimSpace(body)
	switch {
	case len(text) > 0 && (text[0] == '{' || text[0] == '['):
		a.unary(text, object)
	case sse.IsStream(body):
		a.stream(body, object)
	case isEventStream(contentType) && len(text) == 0:
		a.r.Cut = true
	default: // HTML, plain text, nothing
		a.r.Error, a.r.Malformed = text, true
	}
	a.finish()
}

// unary reads a whole answer, or the JSON lines of Ollama's own API. Gemini's compatible endpoint wraps its errors in an
// array.
func (a *answer) unary(text []byte, object func(*answer, *scanner)) {
	s := scanner{b: text}
	if text[0] == '{' {
		object(a, &s)
		for s.space(); a.native && s.i < len(s.b) && s.b[s.i] == '{'; s.space() {
			object(a, &s)
		}
	} else {
		for more := s.open(); more; more = s.more(']') {
			if s.kind() == Object {
				object(a, &s)
			} else {
				s.skip()
			}
		}
	}
	s.end()
	truncated := errors.Is(s.err, ErrTruncated)
	a.r.Cut = truncated || a.native && !a.ended && len(a.r.Error) == 0
	if !a.answered && len(a.r.Error) == 0 {
		a.r.Error, a.r.Malformed = text, true
	}
	a.r.Malformed = a.r.Malformed || s.err != nil && (!a.native || !truncated)
}

// finish moves what was gathered into the Response.
func (a *answer) finish() {
	r := a.r
	if r.FinishReason == "" && a.answered && a.others == 1 && a.stray != "" {
		r.FinishReason, r.Choices = a.stray, 1
	}
	r.Reasoning = firstReasoning([3]Kind{firstReasoning(a.reasoning), a.thinking})
	r.BlankReasoning = r.Reasoning == String && !a.thoughts && a.thinking <= Null
	if r.Content == String {
		r.ContentHash = a.text.Sum64()
	}
	if len(r.Error) == 0 {
		r.Error = a.failed
	}
	if len(a.calls) == 0 {
		return
	}
	r.Calls = make([]ResponseCall, len(a.calls))
	for i := range a.calls {
		c := a.calls[i].call()
		if a.signed = a.signed && !c.Signature; a.streamed && c.Args == ArgsMultiple {
			r.BadIndex = true // nothing told the calls apart that were joined here
		}
		r.Calls[i] = c
	}
	if a.signed { // of parallel calls the first is signed
		r.Calls[0].Signature = true
	}
}

// object reads a completion or a chunk of one.
func (a *answer) object(s *scanner) {
	start, isError := s.i, false
	message, done, reason := -1, "", ""
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
		case "message":
			if message = -1; s.kind() == Object {
				message = s.i
			}
			s.skip()
		case "done":
			_, raw := s.value()
			done = string(raw)
		case "done_reason":
			reason = ""
			setText(&reason, s)
		case "prompt_eval_count":
			a.r.InputTokens = s.number()
		case "eval_count":
			a.r.OutputTokens = s.number()
		default:
			s.skip()
		}
	}
	switch {
	case isError && len(a.r.Error) == 0:
		a.r.Error = s.b[start:s.i]
	case message >= 0 && (done == "true" || done == "false") && s.err == nil:
		a.native, a.answered, a.r.Choices = true, true, 1
		end := s.i
		s.i = message // only what came after it told what it is
		a.message(s)
		s.i = end
		if done == "true" {
			a.ended, a.r.FinishReason = true, reason
		}
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
		a.otherChoice(s)
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
			a.finished(s, &a.r.FinishReason)
		case "native_finish_reason": // OpenRouter's word for what its upstream said
			var upstream string
			a.finished(s, &upstream)
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
			a.reasoning[0] = max(a.reasoning[0], a.thought(s))
		case "reasoning":
			a.reasoning[1] = max(a.reasoning[1], a.thought(s))
		case "reasoning_details":
			a.reasoning[2] = max(a.reasoning[2], a.thought(s))
		case "thinking": // Ollama
			a.thinking = max(a.thinking, s.skip())
		case "extra_content":
			a.signed = signature(s) == String || a.signed
		default:
			s.skip()
		}
	}
}

// thought skips reasoning and notes whether it says something.
func (a *answer) thought(s *scanner) Kind {
	k := s.kind()
	raw := s.raw(k)
	a.thoughts = a.thoughts || k > Null && (k != String || s.err == nil && textBytes(raw[1:len(raw)-1]) > 0)
	return k
}

// content reads a text, or the parts that Mistral's reasoning models answer with.
func (a *answer) content(s *scanner) {
	start, n := s.i, len(s.scratch)
	switch k := s.kind(); k {
	case String:
		if text, _ := s.text(); s.err == nil {
			a.write(text)
		}
	case Array:
		a.r.Content = max(a.r.Content, Null)
		for more := s.open(); more; more = s.more(']') {
			a.part(s)
		}
	default:
		a.r.Content = max(a.r.Content, k)
		if s.skip(); k > Null && s.err == nil {
			a.r.ContentBytes += s.i - start
		}
	}
	s.scratch = s.scratch[:n]
}

func (a *answer) part(s *scanner) {
	part, text := chatPart(s)
	switch {
	case s.err != nil:
	case part&PartReasoning != 0:
		a.thinking = max(a.thinking, Array)
	case part&PartText != 0 && text != nil:
		n := len(s.scratch)
		s.scratch = jsonscan.AppendText(s.scratch, text)
		a.write(s.scratch[n:])
		s.scratch = s.scratch[:n]
	}
}

// write adds to the text of the answer.
func (a *answer) write(text []byte) {
	_, _ = a.text.Write(text)
	a.r.ContentBytes += textBytes(text)
	a.r.Content = max(a.r.Content, String)
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
