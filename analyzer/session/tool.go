package session

import (
	"slices"
	"time"
)

// ToolState is how far a tool came that the agent ran for a call, as its events say.
type ToolState uint8

// The states, in their order.
const (
	ToolUnknown ToolState = iota
	ToolStarted
	ToolEnded
)

// A ToolEvent says that the agent started a tool for a call, or that the tool ended.
type ToolEvent struct {
	Service, Conversation string
	Exchange              string // whose answer asked for it; "" when the agent does not say
	CallID                string
	State                 ToolState
	Status                string
	At                    time.Time // by the agent's clock
}

// ahead is an event of a call whose answer is not known yet: a tool may start while the last bytes of a stream are on
// their way to the hook.
type ahead struct {
	id uint64
	ev ToolEvent
}

// maxAhead bounds these of one conversation.
const maxAhead = 32

// Tool notes that a tool ran. It returns the call when it is known.
func (s *Store) Tool(ev ToolEvent) *Call {
	if ev.CallID == "" {
		return nil
	}
	id := hashName(ev.CallID)
	c := s.convs[key{ev.Service, ev.Conversation}]
	if c == nil && unique(ev.CallID) {
		k := callKey(ev.Service, id, true, 0)
		if c = s.found[k]; len(s.crowd[k]) > 0 {
			c = nil
		}
	}
	if c == nil {
		return nil
	}
	c.tools = true
	call := c.calls[id]
	if call != nil && (ev.Exchange == "" || ev.Exchange == call.Exchange || call.waits()) {
		call.ran(&ev)
		return call
	}
	if ev.Exchange == "" {
		return nil
	}
	if len(c.ahead) == maxAhead {
		c.ahead = slices.Delete(c.ahead, 0, 1)
	}
	c.ahead = append(c.ahead, ahead{id, ev})
	return nil
}

// ran takes over an event of the call. Another start is another attempt.
func (c *Call) ran(ev *ToolEvent) {
	c.tool = max(c.tool, ev.State)
	switch {
	case ev.State == ToolEnded:
		c.EndedAt, c.ToolStatus = ev.At, ev.Status
	case c.StartedAt.IsZero():
		c.StartedAt = ev.At
		if c.EndedAt.IsZero() {
			c.ToolStatus = ev.Status
		}
	}
}

// begun takes over the events that came before the answer that asked for the call.
func (c *conversation) begun(call *Call) {
	if len(c.ahead) == 0 {
		return
	}
	c.ahead = slices.DeleteFunc(c.ahead, func(a ahead) bool {
		if a.id != call.id || a.ev.Exchange != call.Exchange {
			return false
		}
		call.ran(&a.ev)
		return true
	})
}
