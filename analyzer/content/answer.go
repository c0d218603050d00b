package content

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

// A Redactor masks contents before they are stored. It is safe for concurrent use.
type Redactor struct {
	texts   *redact.Redactor
	streams sync.Pool // of *streamed
}

// NewRedactor returns a Redactor that masks what r masks, also in answers that are streamed in fragments.
func NewRedactor(r *redact.Redactor) *Redactor {
	return &Redactor{texts: r, streams: sync.Pool{New: func() any { return new(streamed) }}}
}

// Append appends the masked body of a content of the given kind to dst.
//
// A streamed answer contains a text in fragments, so that a secret may span several. The fragments of a text are therefore
// masked together: the mask is in the first fragment of the secret, and the others lose their part of it.
func (r *Redactor) Append(dst []byte, kind string, body []byte) []byte {
	if kind != KindAnswer {
		return r.texts.Append(dst, body)
	}
	s := r.streams.Get().(*streamed)
	defer r.streams.Put(s)
	if cap(s.fragments) > maxKeptFragments || cap(s.text) > maxRedacted || cap(s.joined) > maxRedacted {
		*s = streamed{}
	}
	s.fragments, s.edits, s.events, s.repeats, s.last = s.fragments[:0], s.edits[:0], 0, s.repeats[:0], redact.Range{}
	if eventstream.HasFrame(body) {
		return s.appendFrames(dst, body, r.texts)
	}
	s.lines(body)
	if !s.mask(body, r.texts) {
		return r.texts.AppendRepeated(dst, body, s.repeats)
	}
	s.text, _ = appendEdited(s.text[:0], body, 0, len(body), s.edits)
	return r.texts.Append(dst, s.text)
}

// Limits of answers. Fragments beyond them are masked one by one.
const (
	maxFragments     = 1 << 18
	maxKeptFragments = 1 << 14 // fragments whose memory is retained
	maxNesting       = 64      // containers in containers
)

// streamed is the state of masking a streamed answer.
type streamed struct {
	fragments []fragment
	edits     []edit
	events    int            // JSON texts that are no parts of other JSON texts
	last      redact.Range   // newest event that can be repeated, with its line end; zero if none
	lastPart  fragment       // its only fragment
	repeats   []redact.Range // heads and tails of the events that repeat others
	text      []byte         // masked answer, or the texts of its frames
	joined    []byte         // a text
	frames    []frame
}

// A fragment is a JSON string that may be a part of a text.
type fragment struct {
	start, end int
	text       uint64 // hash of the names and indexes that lead to the string; the same for all fragments of a text
}

// An edit replaces a range of the answer.
type edit struct {
	start, end int
	with       string
}

// isFragment reports whether a member of an event, in any dialect, contains fragments of texts.
func isFragment(name []byte) bool {
	switch string(name) {
	case "arguments", "completion", "content", "delta", "input", "partial_json", "reasoning", "reasoning_content", "reasoning_text", "refusal",
		"response", "summary", "text", "thinking", "tool_plan", "transcript":
		return true
	}
	return false
}

// isIndex reports whether a member of an object tells which text a fragment belongs to. Ids do not, because some servers send a
// new one with each fragment.
func isIndex(name []byte) bool {
	switch string(name) {
	case "content_index", "contentBlockIndex", "index", "output_index", "summary_index":
		return true
	}
	return false
}

// lines collects the fragments of server-sent events, of lines of JSON, or of an array of events.
func (s *streamed) lines(body []byte) {
	for i := 0; i < len(body); {
		switch c := body[i]; {
		case c <= ' ', c == ',', c == ']', c == '[': // also the brackets and commas of an array of events
			i++
		case c == '{':
			if i = s.event(body, i); i < 0 {
				return
			}
		default:
			end := len(body)
			if n := bytes.IndexByte(body[i:], '\n'); n >= 0 {
				end = i + n
			}
			if name, value := sse.Field(body[i:end]); string(name) == "data" {
				s.event(body[:min(end+1, len(body))], end-len(value))
			}
			i = end
		}
	}
}

// event collects the fragments of the JSON text at i and returns its end, or -1 if it is not JSON.
func (s *streamed) event(b []byte, i int) (end int) {
	if end = s.repeated(b, i); end >= 0 {
		s.events++
		return end
	}
	mark := len(s.fragments)
	if end = s.value(b, i, 0); end < 0 {
		s.fragments = s.fragments[:mark]
		return -1
	}
	s.events++
	if len(s.fragments) == mark+1 && end < len(b) && (b[end] == '\n' || b[end] == '\r') {
		s.last, s.lastPart = redact.Range{Start: i, End: end + 1}, s.fragments[mark]
	}
	return end
}

// repeated collects the fragment of the JSON text at i and returns the end of its line if the text differs from s.last's only in
// its fragment; else -1. Most events of a stream do, and to compare is faster than to read.
func (s *streamed) repeated(b []byte, i int) (end int) {
	if s.last.End == 0 || len(s.fragments) >= maxFragments {
		return -1
	}
	head, tail := b[s.last.Start:s.lastPart.start], b[s.lastPart.end:s.last.End]
	if !bytes.HasPrefix(b[i:], head) {
		return -1
	}
	start := i + len(head)
	if end = jsonscan.StringEnd(b, start); end < 0 || !bytes.HasPrefix(b[end:], tail) {
		return -1
	}
	s.fragments = append(s.fragments, fragment{start, end, s.lastPart.text})
	s.repeats = append(s.repeats, redact.Range{Start: i, End: start}, redact.Range{Start: end, End: end + len(tail)})
	return end + len(tail)
}

// value collects the fragments of the value at i and returns its end, or -1.
func (s *streamed) value(b []byte, i, depth int) (end int) {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '{', '[':
		if depth == maxNesting {
			return jsonscan.ContainerEnd(b, i+1)
		}
		if b[i] == '{' {
			return s.object(b, i+1, depth+1)
		}
		return s.array(b, i+1, depth+1)
	case '"':
		if end = jsonscan.StringEnd(b, i+1); end >= 0 {
			end++
		}
		return end
	}
	end = i
	for end < len(b) && b[end] > ' ' && b[end] != ',' && b[end] != '}' && b[end] != ']' {
		end++
	}
	if end == i {
		return -1
	}
	return end
}

func (s *streamed) array(b []byte, i, depth int) (end int) {
	if i = jsonscan.Space(b, i); i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = s.value(b, jsonscan.Space(b, i), depth); i < 0 {
			return -1
		}
		i = jsonscan.Space(b, i)
		switch {
		case i < len(b) && b[i] == ',':
			i++
		case i < len(b) && b[i] == ']':
			return i + 1
		default:
			return -1
		}
	}
}

func (s *streamed) object(b []byte, i, depth int) (end int) {
	first, index := len(s.fragments), uint64(0)
	if i = jsonscan.Space(b, i); i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i = jsonscan.Space(b, i); i >= len(b) || b[i] != '"' {
			return -1
		}
		nameEnd := jsonscan.StringEnd(b, i+1)
		if nameEnd < 0 {
			return -1
		}
		name := b[i+1 : nameEnd]
		if i = jsonscan.Space(b, nameEnd+1); i >= len(b) || b[i] != ':' {
			return -1
		}
		start, inner := jsonscan.Space(b, i+1), len(s.fragments)
		if i = s.value(b, start, depth); i < 0 {
			return -1
		}
		switch {
		case b[start] == '"' && isFragment(name) && len(s.fragments) < maxFragments:
			s.fragments = append(s.fragments, fragment{start + 1, i - 1, xxh3.Hash(name)})
		case b[start] == '{' || b[start] == '[':
			h := xxh3.Hash(name)
			for j := inner; j < len(s.fragments); j++ {
				s.fragments[j].text = mix(s.fragments[j].text, h)
			}
		case isIndex(name):
			index += xxh3.Hash(name) ^ xxh3.Hash(b[start:i])
		}
		i = jsonscan.Space(b, i)
		switch {
		case i < len(b) && b[i] == ',':
			i++
		case i < len(b) && b[i] == '}':
			for j := first; j < len(s.fragments); j++ {
				s.fragments[j].text = mix(s.fragments[j].text, index)
			}
			return i + 1
		default:
			return -1
		}
	}
}

func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// mask collects the edits of the fragments in body, in order. It reports whether there are any.
func (s *streamed) mask(body []byte, r *redact.Redactor) bool {
	if s.events < 2 { // each text is whole
		return false
	}
	slices.SortStableFunc(s.fragments, func(a, b fragment) int { return cmp.Compare(a.text, b.text) })
	for i := 0; i < len(s.fragments); {
		s.joined = s.joined[:0]
		end := i
		for ; end < len(s.fragments) && s.fragments[end].text == s.fragments[i].text; end++ {
			s.joined = append(s.joined, body[s.fragments[end].start:s.fragments[end].end]...)
		}
		if text := s.fragments[i:end]; len(text) > 1 {
			r.Matches(s.joined, func(start, end int, with string) { s.hide(text, start, end, with) })
		}
		i = end
	}
	slices.SortFunc(s.edits, func(a, b edit) int { return a.start - b.start })
	return len(s.edits) > 0
}

// hide replaces the range of a text that consists of fragments.
func (s *streamed) hide(text []fragment, start, end int, with string) {
	at := 0
	for _, f := range text {
		from, to := max(start-at, 0), min(end-at, f.end-f.start)
		if at += f.end - f.start; from < to {
			s.edits = append(s.edits, edit{f.start + from, f.start + to, with})
			with = ""
		}
		if at >= end {
			return
		}
	}
}

// appendEdited appends text[from:to] with its edits to dst. It also returns the edits after to.
func appendEdited(dst, text []byte, from, to int, edits []edit) (result []byte, rest []edit) {
	for len(edits) > 0 && edits[0].start < to {
		e := edits[0]
		edits = edits[1:]
		if e.end <= from { // inside the previous one
			continue
		}
		if e.start >= from {
			dst = append(append(dst, text[from:e.start]...), e.with...)
		}
		from = e.end
	}
	return append(dst, text[from:to]...), edits
}

// A frame is a frame of an AWS event stream whose payload is JSON. Its first fields are indexes in the body.
type frame struct {
	start, end               int
	headers                  int
	payloadStart, payloadEnd int
	textStart, textEnd       int  // the event in the text of all frames
	encoded                  bool // the event is the base64 value of the payload's member bytes: InvokeModelWithResponseStream
}

// appendFrames appends the masked body of an AWS event stream, in which each frame has its length and checksum.
func (s *streamed) appendFrames(dst, body []byte, r *redact.Redactor) []byte {
	s.text, s.frames = s.text[:0], s.frames[:0]
	rest := 0
	for rest < len(body) {
		f, n, err := eventstream.Next(body[rest:])
		if err != nil {
			break
		}
		payload := rest + f.Offset
		fr := frame{
			start: rest, end: rest + n, headers: payload - len(f.Headers), payloadStart: payload, payloadEnd: payload + len(f.Payload), textStart: len(s.text),
		}
		if from, to := encodedEvent(f.Payload); to > 0 {
			if text, err := base64.StdEncoding.AppendDecode(s.text, f.Payload[from:to]); err == nil {
				s.text, fr.encoded = text, true
			}
		}
		if !fr.encoded {
			s.text = append(s.text, f.Payload...)
		}
		fr.textEnd = len(s.text)
		s.event(s.text[:fr.textEnd], fr.textStart)
		s.frames = append(s.frames, fr)
		rest += n
	}
	s.mask(s.text, r)
	edits := s.edits
	var edited, masked []byte
	for _, fr := range s.frames {
		edited, edits = appendEdited(edited[:0], s.text, fr.textStart, fr.textEnd, edits)
		masked = r.Append(masked[:0], edited)
		if bytes.Equal(masked, s.text[fr.textStart:fr.textEnd]) {
			dst = append(dst, body[fr.start:fr.end]...)
			continue
		}
		start, payload := len(dst), body[fr.payloadStart:fr.payloadEnd]
		dst = append(eventstream.Begin(dst), body[fr.headers:fr.payloadStart]...)
		if fr.encoded {
			from, to := encodedEvent(payload)
			dst = base64.StdEncoding.AppendEncode(append(dst, payload[:from]...), masked)
			dst = append(dst, payload[to:]...)
		} else {
			dst = append(dst, masked...)
		}
		dst = eventstream.End(dst, start, fr.payloadStart-fr.headers)
	}
	return r.Append(dst, body[rest:])
}

// encodedEvent returns the range of the base64 value of the member bytes, which is the first one; 0 if there is none.
func encodedEvent(payload []byte) (start, end int) {
	const prefix = `{"bytes":"`
	if !bytes.HasPrefix(payload, []byte(prefix)) {
		return 0, 0
	}
	if end = jsonscan.StringEnd(payload, len(prefix)); end < 0 {
		return 0, 0
	}
	return len(prefix), end
}
