package payload

import (
	"bytes"
	"fmt"

	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// EventBytes is the approximate size of an event without its body.
const EventBytes = 1024

// Parts contains the parts of a body that have arrived so far.
type Parts struct {
	head  event.Event // newest part, without its body
	parts [][]byte
	have  int
	bytes int
}

// NewParts returns an empty Parts for the body to which the part ev belongs.
func NewParts(ev *event.Event) *Parts {
	return &Parts{head: *ev, parts: make([][]byte, min(ev.Parts, event.MaxParts))}
}

// Size returns the approximate memory of p.
func (p *Parts) Size() int { return EventBytes + 24*len(p.parts) + p.bytes }

// Add adds a copy of the body of ev. An error means that the parts can never form a whole body.
func (p *Parts) Add(ev *event.Event) error {
	first := p.head
	p.head = *ev
	p.head.Body = nil
	switch n := p.bytes + len(ev.Body); {
	case ev.Part < 1 || ev.Part > ev.Parts || ev.Parts > event.MaxParts:
		return fmt.Errorf("part %d of %d", ev.Part, ev.Parts)
	case ev.Parts != len(p.parts) || ev.BodyBytes != first.BodyBytes:
		return fmt.Errorf("one part announces %d parts and %d bytes, another %d and %d", len(p.parts), first.BodyBytes, ev.Parts, ev.BodyBytes)
	case p.parts[ev.Part-1] != nil:
		if !bytes.Equal(p.parts[ev.Part-1], ev.Body) {
			return fmt.Errorf("two parts %d of %d differ", ev.Part, ev.Parts)
		}
		return nil // the part was published twice
	case n > limit.BodyBytes || ev.BodyBytes > limit.BodyBytes && ev.Capture != event.CaptureCut:
		return fmt.Errorf("%w: %d bytes in %d parts", ErrTooLarge, max(n, ev.BodyBytes), ev.Parts)
	}
	p.parts[ev.Part-1] = append(make([]byte, 0, max(len(ev.Body), 1)), ev.Body...)
	p.have++
	p.bytes += len(ev.Body)
	if p.Complete() && p.bytes != ev.BodyBytes && ev.Capture != event.CaptureCut {
		return fmt.Errorf("%d parts have %d bytes together, not %d", ev.Parts, p.bytes, ev.BodyBytes)
	}
	return nil
}

// Complete reports whether all parts have arrived.
func (p *Parts) Complete() bool { return p.have == len(p.parts) }

// Whole returns the event with the joined body.
func (p *Parts) Whole() *event.Event {
	p.head.Body, p.head.Part, p.head.Parts = bytes.Join(p.parts, nil), 1, 1
	return &p.head
}

// Discard drops the parts and returns the event without a body.
func (p *Parts) Discard() *event.Event {
	p.parts, p.bytes = nil, 0
	p.head.Part, p.head.Parts = 1, 1
	return &p.head
}

// Missing returns an error that describes the parts that have not arrived.
func (p *Parts) Missing() error {
	return fmt.Errorf("parts of the body did not arrive: %d of %d arrived", p.have, len(p.parts))
}
