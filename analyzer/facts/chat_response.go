package facts

import (
	"bytes"
	"errors"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

// scanChatResponse implements ScanResponse for chat completions and for Ollama's own API, whose answers are easy to
// distinguish.
func scanChatResponse(contentType string, body []byte, r *Response) {
	a := answer{r: r}
	a.read(contentType, body, (*answer).object)
}

// An answer assembles a Response from one body or from the chunks of a stream.
type answer struct {
	r         *Response
	text      xxh3.Hasher // hash of the decoded content so far
	calls     []partialCall
	reasoning [3]Kind
	thoughts  bool   // some reasoning is not an empty string
	thinking  Kind   // kind of the reasoning in other places: the member thinking, and content parts of type thinking
	failed    []byte // raw finish reason of a failed answer without an error member
	others    int    // number of choices (or chunks of choices) other than the first choice
	stray     string // finish reason of the first of these others
	answered  bool   // a choice was read
	streamed  bool   // calls arrive in fragments
	ended     bool   // the last event of a stream was read, in dialects that have one
	native    bool   // the answer comes from Ollama's native API
	signed    bool   // a thought signature was read outside the calls
}

// read reads an answer and calls object for each of its objects.
func (a *answer) read(contentType string, body []byte, object func(*answer, *scanner)) {
	text := bytes.TrimSpace(body)
	switch {
	case len(text) > 0 && (text[0] == '{' || text[0] == '['):
		a.unary(text, object)
	case sse.IsStream(body):
		a.stream(body, object)
	case len(text) == 0 && wire.FramingOf(contentType) == wire.SSE:
		a.r.Cut = true
	default: // HTML, plain text or an empty body
		a.r.Error, a.r.Malformed = text, true
	}
	a.finish()
}

// unary reads a complete answer, or the JSON lines of Ollama's own API. Gemini's OpenAI-compatible endpoint wraps its
// errors in an array.
func (a *answer) unary(text []byte, object func(*answer, *scanner)) {
	s := scanner{b: text, scratch: make([]byte, 0, min(len(text), 256))}
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

// finish completes the Response.
func (a *answer) finish() {
	r := a.r
	if r.FinishReason == "" && a.answered && a.others == 1 && a.stray != "" {
		r.FinishReason, r.Choices = a.stray, 1
	}
	r.Reasoning = firstReasoning(a.reasoning[0], a.reasoning[1], a.reasoning[2], a.thinking)
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
			r.BadIndex = true // fragments of several calls were joined
		}
		r.Calls[i] = c
	}
	if a.signed { // the first of several parallel calls is the signed one
		r.Calls[0].Signature = true
	}
}

// object reads a completion or a chunk of a completion.
func (a *answer) object(s *scanner) {
	start, isError := s.i, false
	// Members in Ollama's own API:
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
			s.errorMember(&a.r.Error)
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
		s.i = message // go back to the message: done shows that this is Ollama's own API
		a.message(s)
		s.i = end
		if done == "true" {
			a.ended, a.r.FinishReason = true, reason
		}
	}
}

func (a *answer) choices(s *scanner) {
	position := 0
	for more := s.enter(Array); more; more = s.more(']') {
		if s.kind() == Object {
			a.choice(s, position)
		} else {
			s.skip()
		}
		position++
	}
}

// choice reads one choice. It reads the index before the other members, because only the first choice is evaluated.
func (a *answer) choice(s *scanner, position int) {
	index := position
	if a.streamed {
		index = 0 // a chunk without an index continues the only choice
	}
	ahead := scanner{b: s.b, i: s.i}
	for more := ahead.open(); more; more = ahead.more('}') {
		if string(ahead.key()) != "index" {
			ahead.skip()
		} else if ahead.kind() == Number {
			index = int(min(max(ahead.number(), 0), 1<<16))
			break // found: servers write the index first
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
			// Perplexity's chunks have both the delta and the message so far.
			if a.streamed == (string(key) == "delta") {
				a.message(s)
			} else {
				s.skip()
			}
		case "finish_reason":
			a.finishReason(s, &a.r.FinishReason)
		case "native_finish_reason": // OpenRouter's copy of the upstream provider's reason
			var upstream string
			a.finishReason(s, &upstream)
		case "usage": // in Moonshot's streams
			a.usage(s)
		case "error": // in OpenRouter's answers
			s.errorMember(&a.r.Error)
		default:
			s.skip()
		}
	}
}

// message reads the message or the delta of a choice.
func (a *answer) message(s *scanner) {
	for more := s.enter(Object); more; more = s.more('}') {
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
		case "refusal":
			a.r.Refused = s.filled() || a.r.Refused
		case "audio", "images":
			a.r.Media = s.skip() > Null || a.r.Media
		default:
			s.skip()
		}
	}
}

// filled steps over a value and reports whether it is a text that is not empty.
func (s *scanner) filled() bool {
	k := s.kind()
	raw := s.raw(k)
	return k == String && len(raw) > len(`""`)
}

// thought steps over reasoning, records whether it has content, and returns its kind.
func (a *answer) thought(s *scanner) Kind {
	k := s.kind()
	raw := s.raw(k)
	a.thoughts = a.thoughts || k > Null && (k != String || s.err == nil && textBytes(raw[1:len(raw)-1]) > 0)
	return k
}

// content reads the member content: a text or, in answers of Mistral's reasoning models, an array of parts.
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
	part, text, _ := chatPart(s)
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

// write appends text to the content of the answer.
func (a *answer) write(text []byte) {
	_, _ = a.text.Write(text)
	a.r.ContentBytes += textBytes(text)
	a.r.Content = max(a.r.Content, String)
}

func (a *answer) toolCalls(s *scanner) {
	for more := s.enter(Array); more; more = s.more(']') {
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

// usage reads token counts. In a stream the last counts win, because some servers send running totals.
func (a *answer) usage(s *scanner) {
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "prompt_tokens":
			a.r.InputTokens = s.number()
		case "completion_tokens":
			a.r.OutputTokens = s.number()
		case "prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens": // DeepSeek, Moonshot, LiteLLM
			a.r.cached(s)
		case "cache_creation_input_tokens": // LiteLLM
			a.r.CacheWritten = s.number()
		case "prompt_tokens_details":
			a.details(s)
		default:
			s.skip()
		}
	}
}

// details reads prompt_tokens_details, which may repeat what the usage says.
func (a *answer) details(s *scanner) {
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "cached_tokens":
			before := a.r.CachedTokens
			a.r.cached(s)
			a.r.CachedTokens = max(a.r.CachedTokens, before)
		case "cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens": // OpenAI and OpenRouter, LiteLLM, Qwen
			a.r.CacheWritten = max(a.r.CacheWritten, s.number())
		default:
			s.skip()
		}
	}
}

// groq reads x_groq, a member of Groq's chunks that contains the usage of a stream.
func (a *answer) groq(s *scanner) {
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "usage":
			a.usage(s)
		case "error":
			s.errorMember(&a.r.Error)
		default:
			s.skip()
		}
	}
}
