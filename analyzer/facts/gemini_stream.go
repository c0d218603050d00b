package facts

import (
	"bytes"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// chunk reads a GenerateContentResponse, which is a complete answer or a fragment of an answer.
func (a *geminiAnswer) chunk(s *scanner) {
	a.chunks++
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "candidates":
			a.known = true
			a.candidates(s)
		case "promptFeedback", "prompt_feedback":
			a.known = true
			a.promptFeedback(s)
		case "usageMetadata", "usage_metadata":
			a.known = true
			a.usage(s)
		case "modelVersion", "model_version":
			a.known = true
			setText(&a.r.Model, s)
		case "responseId", "response_id":
			a.known = true
			setText(&a.r.ID, s)
		case "error":
			k := s.kind()
			if raw := s.raw(k); k > Bool && string(raw) != `""` { // a truncated error is still an error
				a.error(raw)
			}
		default:
			s.skip()
		}
	}
}

// error stores the first error.
func (a *geminiAnswer) error(raw []byte) {
	a.known = true
	if len(a.r.Error) == 0 {
		a.r.Error = raw
	}
}

// promptFeedback reads the feedback on the prompt. Feedback is an error only if it has a block reason, because some models
// send feedback with every answer.
func (a *geminiAnswer) promptFeedback(s *scanner) {
	start, blocked := s.i, false
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "blockReason", "block_reason":
			blocked = s.skip() > Null
		default:
			s.skip()
		}
	}
	if blocked {
		a.error(s.b[start:s.i])
	}
}

// usage reads token counts. Each chunk of a stream contains running totals, so the last counts win. A count of 0 is left out, as
// in all JSON that Google writes from a message of its protocol, so usage with the length of the prompt tells what was read.
func (a *geminiAnswer) usage(s *scanner) {
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "promptTokenCount", "prompt_token_count":
			a.r.CacheReported = s.kind() == Number || a.r.CacheReported
			a.r.InputTokens = s.number()
		case "candidatesTokenCount", "candidates_token_count":
			a.output = s.number()
		case "thoughtsTokenCount", "thoughts_token_count":
			a.thoughts = s.number()
		case "cachedContentTokenCount", "cached_content_token_count":
			a.r.cached(s)
		default:
			s.skip()
		}
	}
}

func (a *geminiAnswer) candidates(s *scanner) {
	position := 0
	for one, more := s.enterList(); more; more = !one && s.more(']') {
		if s.kind() == Object {
			a.choice(s, position)
		} else {
			s.skip()
		}
		position++
	}
}

// choice reads one candidate. It reads the index, which comes last, before the other members, because only the first
// candidate is evaluated.
func (a *geminiAnswer) choice(s *scanner, position int) {
	index := position
	ahead := scanner{b: s.b, i: s.i}
	for more := ahead.open(); more; more = ahead.more('}') {
		if string(ahead.key()) == "index" && ahead.kind() == Number {
			index = int(min(max(ahead.number(), 0), 1<<16))
		} else {
			ahead.skip()
		}
	}
	a.r.Choices = max(a.r.Choices, index+1)
	if index != 0 {
		s.skip()
		return
	}
	start, finished := s.i, false
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "content":
			a.content(s)
		case "finishReason", "finish_reason":
			n := len(s.scratch)
			if s.kind() == Number {
				if reason := geminiReason(s.number()); reason != "" {
					a.r.FinishReason, finished = reason, true
				}
			} else if reason, _ := s.text(); len(reason) > 0 {
				a.r.FinishReason, finished = string(reason), true
			}
			s.scratch = s.scratch[:n]
		default:
			s.skip()
		}
	}
	if finished {
		a.candidate = s.b[start:s.i]
	}
}

// geminiReason returns the finish reason with the number n in Google's definition of the API. Older clients request numbers
// ("$alt=json;enum-encoding=int"). From 6 on, the numbers of Gemini and Vertex differ, so they are returned as OTHER.
func geminiReason(n int64) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "STOP"
	case 2:
		return "MAX_TOKENS"
	case 3:
		return "SAFETY"
	case 4:
		return "RECITATION"
	}
	return "OTHER"
}

func (a *geminiAnswer) content(s *scanner) {
	for more := s.enter(Object); more; more = s.more('}') {
		if string(s.key()) != "parts" {
			s.skip()
			continue
		}
		for one, more := s.enterList(); more; more = !one && s.more(']') {
			a.part(s)
		}
	}
}

// part reads a part, which is always complete, and adds it to the answer.
func (a *geminiAnswer) part(s *scanner) {
	n := len(s.scratch)
	a.f.calls, a.f.replies = a.f.calls[:0], a.f.replies[:0]
	p := a.f.geminiPart(s, &a.m)
	if s.err != nil {
		return
	}
	a.r.Content = max(a.r.Content, Null)
	switch {
	case p.kind&PartReasoning != 0:
		a.r.Reasoning = String
	case p.kind&PartText != 0 && p.text != nil:
		text := p.text
		if bytes.IndexByte(text, '\\') >= 0 {
			s.scratch = jsonscan.AppendText(s.scratch, text)
			text = s.scratch[n:]
		}
		_, _ = a.text.Write(text)
		a.r.ContentBytes += textBytes(text)
		a.r.Content = String
	}
	a.signed = foldSignature(s, a.signed, p.signature)
	if len(a.f.calls) > 0 {
		a.call(&a.f.calls[0], p.args)
	}
	s.scratch = s.scratch[:n]
}

// call adds a call. A call arrives whole, except in streams of some models, where the first part has the name, perhaps with
// empty arguments, and later parts without a name have the arguments, or fragments of the arguments (partialArgs), which
// contain no facts.
func (a *geminiAnswer) call(c *Call, args []byte) {
	calls := a.r.Calls
	if !a.streamed || len(c.Name) > 0 || len(calls) == 0 {
		if len(calls) == maxAnswerCalls {
			a.r.Malformed = true
			return
		}
		calls = append(calls, ResponseCall{Name: string(c.Name)})
		a.r.Calls = calls
	}
	last := &calls[len(calls)-1]
	if last.ID == "" {
		last.ID = string(c.ID)
	}
	last.Signature = last.Signature || c.Signature == String
	if c.ArgsKind == Absent || last.ArgsKind != Absent && c.ArgsBytes <= len("{}") {
		return
	}
	last.ArgsKind, last.Args, last.Arguments = c.ArgsKind, c.Args, string(args)
	if c.ArgsKind == String {
		last.Arguments = string(jsonscan.AppendText(nil, args[1:len(args)-1]))
	}
}
