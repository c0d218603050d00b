package facts

import (
	"bytes"
	"errors"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

// scanResponsesResponse implements ScanResponse for the Responses API.
func scanResponsesResponse(contentType string, body []byte, r *Response) {
	a := itemAnswer{r: r}
	a.scan(contentType, body)
}

func (a *itemAnswer) scan(contentType string, body []byte) {
	text := bytes.TrimSpace(body)
	switch {
	case len(text) > 0 && text[0] == '{':
		if a.steps {
			a.unaryInteraction(text)
		} else {
			a.unary(text)
		}
	case sse.IsStream(body):
		a.stream(body)
	case len(text) == 0 && wire.FramingOf(contentType) == wire.SSE:
		a.r.Cut = true
	default: // HTML, plain text or an empty body
		a.r.Error, a.r.Malformed = text, true
	}
	a.finish()
}

// An itemAnswer assembles a Response from a response object or an interaction, or from the events of a stream.
type itemAnswer struct {
	r        *Response
	steps    bool      // the items are the steps of an interaction
	items    []outItem // items that have facts
	place    outIndex
	signed   map[string]uint64 // hashes of the completed reasoning items of a stream, by item ID
	others   bool              // some items have no facts
	answered bool
	ended    bool // the last event of a stream was read
	status   string
	reason   string // reason why the answer is incomplete
}

// An outItem is an output item, assembled from the fragments so far.
type outItem struct {
	kind       Item // ItemMessage, ItemCall or ItemReasoning
	custom     bool // the item is a call of another tool than a function, so its arguments are not checked
	unpaired   bool // see Message.Unpaired
	id, callID string
	name       string
	// text is the decoded text of a message or the decoded arguments of a call; textKind is Absent until there is text.
	text      []byte
	textKind  Kind
	part      int64 // index of the last content part in text, which starts at partStart
	partStart int
	reasoning [3]Kind
	signed    uint64
	refused   bool // see Response.Refused
	started   bool // text is from the event that added the item; fragments replace it
	done      bool
}

func (a *itemAnswer) unary(text []byte) {
	s := scanner{b: text}
	isError := a.object(&s)
	s.end()
	a.r.Cut = errors.Is(s.err, ErrTruncated)
	if len(a.r.Error) == 0 && (isError || !a.answered) {
		a.r.Error, a.r.Malformed = text, !isError
	}
	a.r.Malformed = a.r.Malformed || s.err != nil
}

// object reads a response object and reports whether it is an error object instead. Events of a stream repeat the response
// object in its current state; the items of the last response object that has items replace all others.
func (a *itemAnswer) object(s *scanner) (isError bool) {
	start := s.i
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "id":
			setText(&a.r.ID, s)
		case "model":
			setText(&a.r.Model, s)
		case "object", "type":
			n := len(s.scratch)
			word, _ := s.text()
			isError = isError || string(word) == "error"
			s.scratch = s.scratch[:n]
		case "status":
			a.status = ""
			setText(&a.status, s)
		case "incomplete_details":
			n := len(s.scratch)
			a.reason = string(s.member("reason"))
			s.scratch = s.scratch[:n]
		case "output":
			a.output(s)
		case "usage":
			a.usage(s)
		case "error":
			s.errorMember(&a.r.Error)
		default:
			s.skip()
		}
	}
	if a.status == "failed" && len(a.r.Error) == 0 {
		a.r.Error = s.b[start:s.i]
	}
	return isError
}

func (a *itemAnswer) output(s *scanner) {
	if s.kind() != Array {
		s.skip()
		return
	}
	a.answered = true
	first := true
	for more := s.open(); more; more = s.more(']') {
		if first { // an empty output, with which some servers end a stream, must not replace the items
			a.items, a.place, a.others, first = a.items[:0], outIndex{}, false, false
		}
		if s.kind() != Object {
			s.skip()
			continue
		}
		n := len(s.scratch)
		if item := readOutItem(s); s.err == nil {
			// The provider encrypts each copy separately. An agent may store either copy, so if two copies differ, the
			// hash is unknown.
			if copied, ok := a.signed[item.id]; ok && item.kind == ItemReasoning && copied != item.signed {
				item.signed = 0
			}
			a.add(item)
		}
		s.scratch = s.scratch[:n]
	}
}

// add adds an item that has facts and returns its position. It returns -1 for other items, and if there are already
// maxAnswerCalls items.
func (a *itemAnswer) add(item outItem) int {
	switch {
	case item.kind == ItemOther:
		a.others = true
		a.r.OtherCalls = a.r.OtherCalls || item.unpaired && item.callID != ""
		return -1
	case len(a.items) == maxAnswerCalls:
		a.r.Malformed = true
		return -1
	}
	a.items = append(a.items, item)
	return len(a.items) - 1
}

// readOutItem reads an output item.
func readOutItem(s *scanner) outItem {
	o := outItem{kind: ItemOther}
	var typ string
	var callID, args, input Kind
	var arguments, free, does []byte
	var action Kind
	var hosted bool
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "type":
			typ = ""
			setText(&typ, s)
		case "id":
			o.id = ""
			setText(&o.id, s)
		case "call_id":
			callID, o.callID = s.kind(), ""
			setText(&o.callID, s)
		case "name":
			o.name = ""
			setText(&o.name, s)
		case "arguments":
			arguments, args = s.textOrRaw()
		case "input":
			free, input = s.textOrRaw()
		case "action", "actions", "operation":
			if text, k := s.textOrRaw(); k > Null {
				does, action = text, k
			}
		case "environment":
			_, in := s.environment()
			hosted = hosted || in
		case "execution":
			hosted = s.isServer() || hosted
		case "content":
			o.reasoning[1] = s.kind()
			o.content(s, "output_text")
		case "summary":
			o.reasoning[2] = s.skip()
		case "encrypted_content":
			o.reasoning[0] = s.kind()
			o.signed = s.signed(s.raw(o.reasoning[0]))
		default:
			s.skip()
		}
	}
	switch typ {
	case "message":
		o.kind = ItemMessage
	case "reasoning":
		o.kind, o.text, o.textKind = ItemReasoning, nil, Absent
	case "custom_tool_call":
		arguments, args, o.custom = free, input, true
		fallthrough
	case "function_call":
		if callID != Null {
			o.kind, o.text, o.textKind = ItemCall, bytes.Clone(arguments), args
		}
	case "local_shell_call", "shell_call", "apply_patch_call", "computer_call", "tool_search_call":
		if callID != String || hosted {
			break
		}
		o.kind, o.custom, o.name = ItemCall, true, string(otherName([]byte(typ)))
		if typ == "tool_search_call" {
			does, action = arguments, args
		}
		o.text, o.textKind = bytes.Clone(does), action
	}
	o.unpaired = o.kind == ItemOther && !hosted && mayBeCall([]byte(typ))
	return o
}

// content reads the text of a message by concatenating its parts of the given type.
func (o *outItem) content(s *scanner, part string) {
	o.text, o.textKind = nil, Absent
	for more := s.enter(Array); more; more = s.more(']') {
		if s.kind() != Object {
			s.skip()
			continue
		}
		n := len(s.scratch)
		var typ, text []byte
		k := Absent
		for more := s.open(); more; more = s.more('}') {
			switch string(s.key()) {
			case "type":
				typ, _ = s.text()
			case "text":
				text, k = s.text()
			case "refusal":
				o.refused = s.filled() || o.refused
			default:
				s.skip()
			}
		}
		if string(typ) == part && k == String {
			o.text, o.textKind = append(o.text, text...), String
		}
		s.scratch = s.scratch[:n]
	}
}

func (a *itemAnswer) usage(s *scanner) {
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "input_tokens":
			a.r.InputTokens = s.number()
		case "output_tokens":
			a.r.OutputTokens = s.number()
		case "input_tokens_details":
			for more := s.enter(Object); more; more = s.more('}') {
				switch string(s.key()) {
				case "cached_tokens":
					a.r.cached(s)
				case "cache_write_tokens":
					a.r.CacheWritten = s.number()
				default:
					s.skip()
				}
			}
		default:
			s.skip()
		}
	}
}

// finish completes the Response. If there are several messages, the content is the last message with text, because an agent
// sends each message back as a separate item.
func (a *itemAnswer) finish() {
	r := a.r
	if a.answered {
		r.Choices = 1
	}
	if r.FinishReason = a.reason; r.FinishReason == "" {
		r.FinishReason = a.status
	}
	if a.others || len(a.items) > 0 {
		r.Content = Null
	}
	var last *outItem
	for i := range a.items {
		switch o := &a.items[i]; o.kind {
		case ItemMessage:
			r.Refused = r.Refused || o.refused
			if o.textKind == String && (last == nil || len(o.text) > 0) {
				last = o
			}
		case ItemCall:
			r.Calls = append(r.Calls, o.call())
		default:
			r.Reasoning = max(r.Reasoning, firstReasoning(o.reasoning[:]...))
			r.Signed = append(r.Signed, Signed{ID: o.id, Hash: o.signed})
		}
	}
	if last != nil {
		r.Content, r.ContentBytes, r.ContentHash = String, textBytes(last.text), xxh3.Hash(last.text)
	}
}

// call returns the complete call. The arguments are checked like the text inside a JSON string.
func (o *outItem) call() ResponseCall {
	c := ResponseCall{ID: o.callID, Name: o.name, Arguments: string(o.text), ArgsKind: o.textKind}
	switch {
	case o.custom: // free text
	case o.textKind == String:
		c.Args = checkText(o.text)
	case o.textKind == Object:
		c.Args = ArgsObject
	}
	return c
}
