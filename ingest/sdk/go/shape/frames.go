package shape

import "github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"

const maxHeader = 4 << 10 // maximum length of the value of a retained header

// A frame contains the ends of the headers and of the payload of a frame in out.
type frame struct{ headers, payload int32 }

// frames shapes an AWS event stream up to the first incomplete or invalid frame. reframe encodes the result as
// frames.
func (s *Shaper) frames(t *table) {
	for at := 0; len(s.out) <= s.limit; {
		f, n, err := eventstream.Next(s.body[at:])
		if err != nil {
			break
		}
		s.headers(f.Headers)
		headers := len(s.out)
		if len(f.Payload) > 0 && !s.events(t, f.Payload, at+f.Offset) {
			s.out = s.appendBad(s.out, f.Payload)
		}
		s.framed = append(s.framed, frame{int32(headers), int32(len(s.out))})
		at += n
	}
	if len(s.framed) == 0 {
		s.out = s.appendBad(s.out[:0], s.body)
	}
}

// headers copies the headers that describe the frame and drops the others.
func (s *Shaper) headers(b []byte) {
	for {
		h, ok := eventstream.NextHeader(b)
		if !ok {
			return
		}
		if h.Describes() && len(h.Value) <= maxHeader {
			s.out = append(s.out, h.Raw...)
		}
		b = b[len(h.Raw):]
	}
}

// reframe applies the patches to the output of frames and encodes it as frames.
func (s *Shaper) reframe() {
	dst, patches, from := s.whole[:0], s.patches, 0
	for _, f := range s.framed {
		start := len(dst)
		dst = append(eventstream.Begin(dst), s.out[from:f.headers]...)
		dst, patches = s.patched(dst, int(f.headers), int(f.payload), patches)
		dst = eventstream.End(dst, start, int(f.headers)-from)
		from = int(f.payload)
	}
	s.whole = dst
}
