package facts

import (
	"bytes"
	"errors"
	"strings"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

// stream assembles an event stream. The output of its last event is the answer. If there is no last event, as in a cut
// stream, the answer consists of the completed items and the fragments of all others.
func (a *itemAnswer) stream(body []byte) {
	var seen, cut bool
	var s scanner
	for e := range sse.Events(body) {
		s = scanner{b: bytes.TrimSpace(e.Data), scratch: s.scratch[:0]}
		seen = true
		// There is usually one value, but several if a server omits the empty line between events.
		for s.space(); s.i < len(s.b); s.space() {
			switch {
			case s.isDone(): // ends a stream of chat completions, but not a stream of items
				s.i += len(doneData)
			case s.b[s.i] == '{':
				if a.steps {
					a.interactionEvent(e.Name, &s)
				} else {
					a.event(e.Name, &s)
				}
			default:
				a.setError(e.Name, s.b[s.i:])
				s.fail(ErrNotJSON)
			}
		}
		cut = errors.Is(s.err, ErrTruncated)
		if s.err != nil && !cut && string(e.Name) != "error" {
			a.r.Malformed = true
		}
	}
	a.r.Cut = cut || !a.ended && len(a.r.Error) == 0
	if seen && !a.answered && len(a.r.Error) == 0 {
		a.r.Malformed = true
	}
	if !a.ended {
		a.status, a.reason = "", ""
	}
}

// setError sets the error to text if event is an error event and there is no error yet.
func (a *itemAnswer) setError(event, text []byte) {
	if string(event) == "error" && len(a.r.Error) == 0 {
		a.r.Error = text
	}
}

// An outEvent is an event of a stream. Its texts are valid until the scanner's scratch is truncated.
type outEvent struct {
	typ            []byte
	itemID, name   []byte
	index, part    int64
	indexed        bool
	delta, whole   []byte // a fragment, or all, of a text or of arguments
	deltaKind      Kind
	wholeKind      Kind
	item, response int // offsets of these values; 0 if absent
}

// event reads one event, whose type may be the last member.
func (a *itemAnswer) event(name []byte, s *scanner) {
	start := s.i
	e := outEvent{typ: name}
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "type":
			e.typ, _ = s.text()
		case "item_id":
			e.itemID, _ = s.text()
		case "name":
			e.name, _ = s.text()
		case "output_index":
			e.indexed = s.kind() == Number
			e.index = s.number()
		case "content_index":
			e.part = s.number()
		case "delta":
			e.delta, e.deltaKind = s.text()
		case "text", "arguments", "input":
			e.whole, e.wholeKind = s.textOrRaw()
		case "item":
			e.item = s.i
			s.skip()
		case "response":
			e.response = s.i
			s.skip()
		case "error":
			s.errorMember(&a.r.Error)
		default:
			s.skip()
		}
	}
	a.setError(e.typ, s.b[start:s.i])
	if s.err == nil {
		a.apply(&e, s)
	}
	s.scratch = s.scratch[:0]
}

func (a *itemAnswer) apply(e *outEvent, s *scanner) {
	switch string(e.typ) {
	case "response.created", "response.queued", "response.in_progress":
		a.response(e, s)
	case "response.output_item.added":
		a.added(e, s)
	case "response.output_item.done":
		a.done(e, s)
	case "response.output_text.delta", "response.output_text.done":
		a.fragment(e, ItemMessage, false)
	case "response.function_call_arguments.delta", "response.function_call_arguments.done":
		a.fragment(e, ItemCall, false)
	case "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done":
		a.fragment(e, ItemCall, true)
	default:
		if !isLastEvent(wire.OpenAIResponses, e.typ) {
			return
		}
		a.status = ""
		a.response(e, s)
		if a.ended = true; a.status == "" {
			a.status = strings.TrimPrefix(string(e.typ), "response.")
		}
	}
}

// response reads the response object of an event.
func (a *itemAnswer) response(e *outEvent, s *scanner) {
	a.answered = true
	at := scanner{b: s.b, i: e.response, scratch: s.scratch}
	if e.response > 0 && at.kind() == Object {
		a.object(&at)
		s.inherit(&at)
	}
	s.scratch = at.scratch
}

// item reads the item of an event.
func (a *itemAnswer) item(e *outEvent, s *scanner) (o outItem, ok bool) {
	at := scanner{b: s.b, i: e.item, scratch: s.scratch}
	if e.item == 0 || at.kind() != Object {
		return o, false
	}
	a.answered = true
	o = readOutItem(&at)
	s.scratch = at.scratch
	s.inherit(&at)
	return o, at.err == nil
}

// inherit copies the error of again, a scanner that read a value of the same text a second time and more strictly. The error
// is always ErrNotJSON, because the text is not truncated.
func (s *scanner) inherit(again *scanner) {
	if again.err != nil {
		s.fail(ErrNotJSON)
	}
}

// An outIndex finds the item of an event by its ID or, because some servers generate a new ID for each event, by its output
// index.
type outIndex struct {
	byID    map[string]int
	byIndex map[int64]int
}

func (p *outIndex) set(id string, e *outEvent, at int) {
	if p.byID == nil {
		p.byID, p.byIndex = make(map[string]int), make(map[int64]int)
	}
	if id != "" {
		p.byID[id] = at
	}
	if e.indexed {
		p.byIndex[e.index] = at
	}
}

// find returns the position of the item of the given kind that an event refers to, or -1. The output index alone finds only
// items that are not completed, because some servers give every item the same index.
func (a *itemAnswer) find(e *outEvent, id []byte, kind Item) int {
	if at, ok := a.place.byID[string(id)]; ok && len(id) > 0 && a.items[at].kind == kind {
		return at
	}
	if at, ok := a.place.byIndex[e.index]; ok && e.indexed && a.items[at].kind == kind && !a.items[at].done {
		return at
	}
	return -1
}

// added adds the item of an output_item.added event.
func (a *itemAnswer) added(e *outEvent, s *scanner) {
	o, ok := a.item(e, s)
	if !ok {
		return
	}
	if at, known := a.place.byID[o.id]; known && o.id != "" && a.items[at].kind == o.kind {
		return
	}
	o.started, o.signed = true, 0 // the encrypted content may not be complete yet
	if at := a.add(o); at >= 0 {
		a.place.set(o.id, e, at)
	}
}

// done completes an item with the copy in an output_item.done event.
func (a *itemAnswer) done(e *outEvent, s *scanner) {
	o, ok := a.item(e, s)
	if !ok {
		return
	}
	if o.done = true; o.kind == ItemReasoning {
		if a.signed == nil {
			a.signed = make(map[string]uint64)
		}
		a.signed[o.id] = o.signed
	}
	at := a.find(e, []byte(o.id), o.kind)
	if at < 0 {
		if at = a.add(o); at >= 0 {
			a.place.set(o.id, e, at)
		}
		return
	}
	old := &a.items[at]
	if o.id == "" {
		o.id = old.id
	}
	if o.callID == "" {
		o.callID = old.callID
	}
	if o.name == "" {
		o.name = old.name
	}
	if o.textKind <= Null && old.textKind > Null {
		o.text, o.textKind = old.text, old.textKind
	}
	*old = o
}

// fragment adds text to a message or to the arguments of a call.
func (a *itemAnswer) fragment(e *outEvent, kind Item, custom bool) {
	a.answered = true
	at := a.find(e, e.itemID, kind)
	if at < 0 && len(a.items) > 0 && len(e.itemID) == 0 && !e.indexed {
		if last := len(a.items) - 1; a.items[last].kind == kind && !a.items[last].done {
			at = last
			a.r.BadIndex = a.r.BadIndex || kind == ItemCall
		}
	}
	if at < 0 {
		o := outItem{kind: kind, custom: custom, id: string(e.itemID)}
		if at = a.add(o); at < 0 {
			return
		}
		a.place.set(o.id, e, at)
	}
	o := &a.items[at]
	if o.done {
		return
	}
	if o.name == "" {
		o.name = string(e.name)
	}
	if o.started {
		o.started, o.text, o.textKind = false, nil, Absent
	}
	if o.part != e.part {
		o.part, o.partStart = e.part, len(o.text)
	}
	if e.deltaKind == String {
		o.text, o.textKind = append(o.text, e.delta...), String
	}
	if e.wholeKind > Null {
		o.text, o.textKind = append(o.text[:o.partStart], e.whole...), e.wholeKind
	}
}
