package facts

import (
	"bytes"
	"errors"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

// scanAnthropicResponse implements ScanResponse for the Messages API and for Bedrock's InvokeModelWithResponseStream, whose
// frames contain the same events.
func scanAnthropicResponse(contentType string, body []byte, r *Response) {
	a := anthropicAnswer{r: r}
	text, framing := bytes.TrimSpace(body), wire.FramingOf(contentType)
	switch {
	case len(text) > 0 && (text[0] == '{' || text[0] == '['):
		a.unary(text)
	case eventstream.HasFrame(body), framing == wire.EventStream:
		a.frames(body)
	case sse.IsStream(body):
		a.stream(body)
	case len(text) == 0 && framing == wire.SSE:
		r.Cut = true
	default: // HTML, plain text or an empty body
		r.Error, r.Malformed = text, true
	}
	a.finish()
}

// An anthropicAnswer assembles a Response from a message or from the events of a stream.
type anthropicAnswer struct {
	r        *Response
	text     xxh3.Hasher // hash of the decoded text blocks so far
	thought  xxh3.Hasher // hash of the decoded text so far of the newest thinking block
	thinking int         // 1 + position of that block; 0 if there is none
	hasText  bool
	content  Kind // kind of the content as sent
	blocks   []anthropicPartial
	usage    anthropicUsage
	scratch  []byte // scratch buffer for the scanners of events
	decoded  []byte // buffer for a decoded text
	answered bool   // a message was read
	done     bool   // the last event of the stream was read
}

// An anthropicPartial is a block of an answer, other than a text block, assembled from the fragments so far.
type anthropicPartial struct {
	typ      anthropicType
	index    int64        // index of the block in the stream
	streamed bool         // the block is from a stream: fragments may follow
	open     bool         // the end of a streamed block was not read
	call     ResponseCall // the call as sent at the start of the block
	tail     []byte       // decoded signature, or decoded fragments of the arguments
	thought  uint64       // hash of the thinking text; 0 if it is empty
}

// anthropicUsage contains token counts. A stream repeats a count with an equal or larger value.
type anthropicUsage struct {
	input, cacheRead, cacheWrite, output int64

	cacheHour int64 // of cacheWrite
	reported  bool  // the tokens read from the cache are given, which may be 0
}

// unary reads a complete answer. Vertex wraps some errors in an array.
func (a *anthropicAnswer) unary(text []byte) {
	s := scanner{b: text}
	if text[0] == '{' {
		a.object(&s, nil)
	} else {
		for more := s.open(); more; more = s.more(']') {
			if s.kind() == Object {
				a.object(&s, nil)
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

// finish completes the Response. Input tokens are counted as OpenAI counts them: all tokens that the model read, including
// those read from the cache and those written to it.
func (a *anthropicAnswer) finish() {
	r := a.r
	if r.Content = a.content; r.Content == Array {
		r.Content = Null
	}
	if a.hasText {
		r.Content, r.ContentHash = String, a.text.Sum64()
	}
	if a.answered {
		r.Choices = 1
	}
	r.InputTokens = a.usage.input + a.usage.cacheRead + a.usage.cacheWrite
	r.CachedTokens, r.OutputTokens = a.usage.cacheRead, a.usage.output
	r.CacheWritten, r.CacheHour, r.CacheReported = a.usage.cacheWrite, a.usage.cacheHour, a.usage.reported
	var signed, thought uint64
	for i := range a.blocks {
		switch b := &a.blocks[i]; b.typ {
		case anthropicToolUse:
			r.Calls = append(r.Calls, b.finish(r.Cut))
		case anthropicThinking, anthropicRedacted:
			if textBytes(b.tail) > 0 {
				signed = foldHash(signed, xxh3.Hash(b.tail))
				if b.thought != 0 {
					thought = foldHash(thought, b.thought)
				}
			}
		default:
		}
	}
	if signed != 0 {
		r.Signed = []Signed{{Hash: signed, Thought: thought}}
	}
}

// object reads a message, an error or an event of a stream; name is the name of the event, if any.
func (a *anthropicAnswer) object(s *scanner, name []byte) {
	start := s.i
	e := anthropicEvent{typ: name}
	for more := s.open(); more; more = s.more('}') {
		switch key := s.key(); string(key) {
		case "type":
			if typ, k := s.text(); k == String {
				e.typ = typ
			}
		case "message":
			a.message(s)
		case "error":
			s.errorMember(&a.r.Error)
		case "index":
			e.indexed = s.kind() == Number
			e.index = s.number()
		case "content_block":
			e.block = anthropicBlock{}
			e.block.read(s)
		case "delta":
			a.readDelta(s, &e)
		default:
			a.member(s, key)
		}
	}
	if s.err == nil {
		a.apply(&e)
	}
	if string(e.typ) == "error" && len(a.r.Error) == 0 {
		a.r.Error = s.b[start:s.i]
	}
}

// message reads the message at the start of a stream. In Bedrock's errors, message is a string, which is skipped.
func (a *anthropicAnswer) message(s *scanner) {
	for more := s.enter(Object); more; more = s.more('}') {
		a.member(s, s.key())
	}
}

// member reads a member of a message.
func (a *anthropicAnswer) member(s *scanner, key []byte) {
	switch string(key) {
	case "id":
		setText(&a.r.ID, s)
	case "model":
		setText(&a.r.Model, s)
	case "content":
		a.readContent(s)
	case "stop_reason":
		replaceText(&a.r.FinishReason, s)
	case "usage":
		a.readUsage(s)
	default:
		s.skip()
	}
}

func (a *anthropicAnswer) readContent(s *scanner) {
	k := s.kind()
	if k != Array {
		size, text := s.sizedText(k)
		switch {
		case s.err != nil:
			return
		case text != nil:
			a.answered = true
			a.addText(text)
		case k != Null:
			a.r.ContentBytes = size
		}
		a.content = k
		return
	}
	a.content = k
	a.answered = true
	for more := s.open(); more; more = s.more(']') {
		n := len(s.scratch)
		var b anthropicBlock
		if b.read(s); s.err == nil {
			a.add(&b, anthropicPartial{})
		}
		s.scratch = s.scratch[:n]
	}
}

// readUsage reads token counts. It ignores null, and 0 after a larger count.
func (a *anthropicAnswer) readUsage(s *scanner) {
	u := &a.usage
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "input_tokens":
			u.input = max(u.input, s.number())
		case "output_tokens":
			u.output = max(u.output, s.number())
		case "cache_read_input_tokens":
			u.reported = s.kind() == Number || u.reported
			u.cacheRead = max(u.cacheRead, s.number())
		case "cache_creation_input_tokens":
			u.cacheWrite = max(u.cacheWrite, s.number())
		case "cache_creation": // cache_creation_input_tokens by time to live
			for more := s.enter(Object); more; more = s.more('}') {
				if string(s.key()) == "ephemeral_1h_input_tokens" {
					u.cacheHour = max(u.cacheHour, s.number())
				} else {
					s.skip()
				}
			}
		default:
			s.skip()
		}
	}
}

// addText adds raw, the text of a text block or of a fragment. The blocks of a stream do not overlap.
func (a *anthropicAnswer) addText(raw []byte) {
	if bytes.IndexByte(raw, '\\') >= 0 {
		a.decoded = jsonscan.AppendText(a.decoded[:0], raw)
		raw = a.decoded
	}
	_, _ = a.text.Write(raw)
	a.r.ContentBytes += textBytes(raw)
	a.hasText = true
}

// add adds a block to the answer; p is the state of the block in a stream.
func (a *anthropicAnswer) add(b *anthropicBlock, p anthropicPartial) {
	switch b.typ {
	case anthropicTextBlock:
		if b.text != nil {
			a.addText(b.text)
		}
		return
	case anthropicThinking, anthropicRedacted:
		k, sealed := b.reasoning()
		a.r.Reasoning = max(a.r.Reasoning, k)
		p.tail = jsonscan.AppendText(nil, sealed)
	case anthropicToolUse:
		p.call = b.responseCall()
	case anthropicServerUse:
		a.r.ServerUse = true
	default:
	}
	if len(a.blocks) == maxAnswerCalls {
		a.r.Malformed = true
		return
	}
	p.typ = b.typ
	a.blocks = append(a.blocks, p)
	if b.typ == anthropicThinking {
		a.thought.Reset()
		a.thinking = len(a.blocks)
		a.addThought(b.thought)
	}
}

// addThought adds raw, the text or a fragment of the newest thinking block. The blocks of a stream do not overlap.
func (a *anthropicAnswer) addThought(raw []byte) {
	if textBytes(raw) == 0 || a.thinking == 0 {
		return
	}
	if bytes.IndexByte(raw, '\\') >= 0 {
		a.decoded = jsonscan.AppendText(a.decoded[:0], raw)
		raw = a.decoded
	}
	_, _ = a.thought.Write(raw)
	a.blocks[a.thinking-1].thought = a.thought.Sum64()
}

// responseCall returns the call of a tool_use block.
func (b *anthropicBlock) responseCall() ResponseCall {
	c := ResponseCall{
		ID: string(b.call.ID), Name: string(b.call.Name), ArgsKind: b.call.ArgsKind, Args: b.call.Args, Arguments: string(b.input),
	}
	if c.ArgsKind == String {
		c.Arguments = string(jsonscan.AppendText(nil, b.input[1:len(b.input)-1]))
	}
	return c
}
