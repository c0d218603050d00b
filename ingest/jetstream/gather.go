package jetstream

import (
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// lingerTime is how long Publish waits for more events of a frame.
const lingerTime = 20 * time.Millisecond

// Bounds of the events that wait for more events of their frames.
const (
	maxHeld      = 4096
	maxHeldBytes = 8 << 20
)

// A shardKey identifies the events that may be in one frame.
type shardKey struct {
	service string
	shard   byte
}

func keyOf(e *event.Event) shardKey { return shardKey{e.Labels.Service, e.Shard()} }

// A gathered event waits for others, or is part of a message.
type gathered struct {
	event *event.Event
	index int // in its batch
}

// A gatherer collects events for frames. The order of the events of a shard does not change.
type gatherer struct {
	shards map[shardKey]*shardEvents
	order  []shardKey // of shards, in the order of their first events
	held   int        // events in shards
	bytes  int        // of their bodies
	alone  bool       // the stream accepts no frames
	timer  *time.Timer
}

// shardEvents are events that become a frame.
type shardEvents struct {
	events []gathered
	bytes  int
}

// gather adds an event, and sends the frames that are full.
func (g *gatherer) gather(e *event.Event, index, limit int, send func(event.Message, []gathered)) {
	k := keyOf(e)
	s := g.shards[k]
	if s == nil {
		if g.shards == nil {
			g.shards = make(map[shardKey]*shardEvents)
		}
		s = &shardEvents{}
		g.shards[k], g.order = s, append(g.order, k)
	}
	if s.bytes+len(e.Body) > limit {
		g.release(k, limit, send)
	}
	s.events = append(s.events, gathered{e, index})
	s.bytes += len(e.Body)
	g.held++
	g.bytes += len(e.Body)
	if len(s.events) == event.MaxFrameEvents || s.bytes >= limit || g.alone {
		g.release(k, limit, send)
	}
	if g.held >= maxHeld || g.bytes >= maxHeldBytes {
		g.releaseAll(limit, send)
	}
}

// release sends the events of k.
func (g *gatherer) release(k shardKey, limit int, send func(event.Message, []gathered)) {
	s := g.shards[k]
	if s == nil || len(s.events) == 0 {
		return
	}
	events := s.events
	g.held -= len(events)
	g.bytes -= s.bytes
	s.events, s.bytes = nil, 0
	pack(events, limit, !g.alone, send)
}

// releaseAll sends all events.
func (g *gatherer) releaseAll(limit int, send func(event.Message, []gathered)) {
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	for _, k := range g.order {
		g.release(k, limit, send)
	}
	clear(g.shards)
	g.order = g.order[:0]
}

// pack sends the messages of the events of a shard.
func pack(all []gathered, limit int, frames bool, send func(event.Message, []gathered)) {
	events := make([]*event.Event, len(all))
	for i := range all {
		events[i] = all[i].event
	}
	for m, at := range event.Pack(events, limit, frames) {
		send(m, all[at[0]:at[0]+at[1]])
	}
}
