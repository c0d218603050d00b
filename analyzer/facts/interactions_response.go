package facts

import (
	"bytes"
	"errors"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// scanInteractionsResponse implements ScanResponse for the Interactions API.
func scanInteractionsResponse(contentType string, body []byte, r *Response) {
	a := itemAnswer{r: r, steps: true}
	a.scan(contentType, body)
	for i := range r.Calls { // a stream has the text of the object in fragments
		if c := &r.Calls[i]; c.ArgsKind == String && c.Args == ArgsObject {
			c.ArgsKind = Object
		}
	}
}

func (a *itemAnswer) unaryInteraction(text []byte) {
	s := scanner{b: text}
	a.interaction(&s)
	s.end()
	a.r.Cut = errors.Is(s.err, ErrTruncated)
	if a.status == "" && len(a.r.Error) == 0 {
		a.r.Error, a.r.Malformed = text, true
	}
	a.r.Malformed = a.r.Malformed || s.err != nil
}

// interaction reads an interaction. The one in the last event of a stream has no steps.
func (a *itemAnswer) interaction(s *scanner) {
	start := s.i
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "id":
			setText(&a.r.ID, s)
		case "model", "agent":
			setText(&a.r.Model, s)
		case "status":
			replaceText(&a.status, s)
		case "steps":
			a.readSteps(s)
		case "usage":
			a.interactionUsage(s)
		case "error":
			s.errorMember(&a.r.Error)
		case "errors":
			for more := s.enter(Array); more; more = s.more(']') {
				s.errorMember(&a.r.Error)
			}
		default:
			s.skip()
		}
	}
	a.answered = a.answered || a.status != ""
	if a.status == "failed" && len(a.r.Error) == 0 {
		a.r.Error = s.b[start:s.i]
	}
}

// readSteps reads the steps of an answer. An answer that is fetched later begins with those of the request.
func (a *itemAnswer) readSteps(s *scanner) {
	first := true
	for more := s.enter(Array); more; more = s.more(']') {
		if first {
			a.items, a.others, first = a.items[:0], false, false
		}
		if o := a.step(s); s.err == nil && o.kind != NoItem {
			a.add(o)
		}
	}
}

// step reads a step; the kind is NoItem for steps of the request.
func (a *itemAnswer) step(s *scanner) (o outItem) {
	if s.kind() != Object {
		s.skip()
		return o
	}
	n := len(s.scratch)
	var typ, arguments []byte
	var args Kind
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "type":
			typ, _ = s.text()
		case "id":
			setText(&o.callID, s)
		case "name":
			setText(&o.name, s)
		case "arguments":
			arguments, args = s.textOrRaw()
		case "content":
			o.content(s, "text")
		case "summary":
			o.reasoning[2] = s.skip()
		case "signature":
			o.signed = foldSignature(s, 0, s.rawText())
		case "error":
			s.errorMember(&a.r.Error)
		default:
			s.skip()
		}
	}
	switch string(typ) {
	case "model_output":
		o.kind = ItemMessage
	case "thought":
		o.kind, o.reasoning[1] = ItemReasoning, String
	case "function_call":
		o.kind, o.text, o.textKind = ItemCall, bytes.Clone(arguments), args
	case "user_input", "function_result", "":
		o = outItem{}
	default:
		o.kind = ItemOther
		a.r.ServerUse = a.r.ServerUse || isServerStep(typ)
		o.unpaired = !isServerStep(typ)
	}
	s.scratch = s.scratch[:n]
	return o
}

func (a *itemAnswer) interactionUsage(s *scanner) {
	var output, thoughts, prompt, tools int64
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "total_input_tokens":
			prompt = s.number()
		case "total_tool_use_tokens":
			tools = s.number()
		case "total_output_tokens":
			output = s.number()
		case "total_thought_tokens":
			thoughts = s.number()
		case "total_cached_tokens":
			a.r.cached(s)
		default:
			s.skip()
		}
	}
	a.r.InputTokens, a.r.OutputTokens = prompt+tools, output+thoughts
}

// A stepEvent is an event of a stream. Its texts are valid until the scanner's scratch is truncated.
type stepEvent struct {
	typ                      []byte
	index                    int64
	step, delta, interaction int // offsets of these values; 0 if absent
}

// interactionEvent reads one event, whose type may be the last member.
func (a *itemAnswer) interactionEvent(name []byte, s *scanner) {
	start := s.i
	e := stepEvent{typ: name}
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "event_type":
			e.typ, _ = s.text()
		case "index":
			e.index = s.number()
		case "step":
			e.step = s.i
			s.skip()
		case "delta":
			e.delta = s.i
			s.skip()
		case "interaction":
			e.interaction = s.i
			s.skip()
		case "error":
			s.errorMember(&a.r.Error)
		default:
			s.skip()
		}
	}
	a.setError(e.typ, s.b[start:s.i])
	if s.err == nil {
		a.applyStep(&e, s)
	}
	s.scratch = s.scratch[:0]
}

func (a *itemAnswer) applyStep(e *stepEvent, s *scanner) {
	again := scanner{b: s.b, scratch: s.scratch}
	a.ended = a.ended || isLastEvent(wire.Interactions, e.typ)
	switch typ := string(e.typ); {
	case e.interaction > 0:
		again.i = e.interaction
		a.interaction(&again)
	case typ == "step.start" && e.step > 0:
		again.i = e.step
		a.answered = true
		if o := a.step(&again); again.err == nil && o.kind != NoItem {
			o.started = o.kind == ItemCall // its arguments are empty until the fragments
			if at := a.add(o); at >= 0 {
				a.place.set("", &outEvent{index: e.index, indexed: true}, at)
			}
		}
	case typ == "step.delta" && e.delta > 0:
		again.i = e.delta
		a.answered = true
		if at, ok := a.place.byIndex[e.index]; ok {
			a.items[at].delta(&again)
		}
	}
	s.scratch = again.scratch
	s.inherit(&again)
}

// delta adds a fragment to a step.
func (o *outItem) delta(s *scanner) {
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "text":
			if text, k := s.text(); k == String && o.kind == ItemMessage {
				o.text, o.textKind = append(o.text, text...), String
			}
		case "arguments":
			text, k := s.textOrRaw()
			if k <= Null || o.kind != ItemCall {
				continue
			}
			if o.started {
				o.started, o.text = false, nil
			}
			o.text, o.textKind = append(o.text, text...), String
		case "signature":
			if raw := s.rawText(); o.kind == ItemReasoning && len(raw) > 0 {
				o.signed = foldSignature(s, 0, raw)
			}
		default:
			s.skip()
		}
	}
}
