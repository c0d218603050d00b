package jetstream

import (
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// lingerTime is how long Publish waits for more events of a frame.
const lingerTime = 20 * time.Millisecond

// A gathered event waits for others, or is part of a message.
type gathered struct {
	event *event.Event
	index int // in its batch
}

// A gatherer collects events that follow each other and may be in one frame. Frames thus do not change the order of events: a
// process that overtakes its own events looks as if it had lost some.
type gatherer struct {
	events []gathered
	size   int  // bytes of the bodies of events
	alone  bool // the stream accepts no frames
	timer  *time.Timer
}

// gather adds an event, and sends the frames that are complete.
func (g *gatherer) gather(e *event.Event, limit int, send func(event.Message, []gathered)) {
	if len(g.events) > 0 && (g.size+len(e.Body) > limit || !e.MayFollow(g.events[0].event)) {
		g.release(limit, send)
	}
	g.events = append(g.events, gathered{event: e})
	if g.size += len(e.Body); len(g.events) == event.MaxFrameEvents || g.size >= limit || g.alone {
		g.release(limit, send)
	}
}

// release sends the events that wait.
func (g *gatherer) release(limit int, send func(event.Message, []gathered)) {
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	all := g.events
	g.events, g.size = nil, 0
	pack(all, limit, !g.alone, send)
}

// pack sends the messages of events that may be in one frame.
func pack(all []gathered, limit int, frames bool, send func(event.Message, []gathered)) {
	events := make([]*event.Event, len(all))
	for i := range all {
		events[i] = all[i].event
	}
	for m, at := range event.Pack(events, limit, frames) {
		send(m, all[at[0]:at[0]+at[1]])
	}
}
