package session

import (
	"slices"
	"time"
)

// ToolState is the progress of the tool that the agent ran for a call, as its events report.
type ToolState uint8

// The tool states, in order of progress.
const (
	ToolUnknown ToolState = iota
	ToolStarted
	ToolEnded
)

// A ToolEvent reports that the agent started a tool for a call, or that the tool ended.
type ToolEvent struct {
	Service, Conversation string
	Exchange              string // exchange whose answer made the call; "" if the agent does not report it
	CallID                string
	State                 ToolState
	Status                string
	At                    time.Time // time by the agent's clock
}

// earlyToolEvent is an event of a call whose answer is not known yet. A tool may start before the hook has received the last
// bytes of a stream.
type earlyToolEvent struct {
	id uint64
	ev ToolEvent
}

// maxEarly bounds the number of early events of one conversation.
const maxEarly = 32

// Tool records a tool event and returns its call, or nil if the call is not known yet.
func (s *Store) Tool(ev ToolEvent) *Call {
	if ev.CallID == "" {
		return nil
	}
	id := hashName(ev.CallID)
	c := s.convs[key{ev.Service, ev.Conversation}]
	if c == nil && unique(ev.CallID) {
		k := callKey(ev.Service, id, true, 0)
		if c = s.byAnswer[k]; len(s.ambiguous[k]) > 0 {
			c = nil
		}
	}
	if c == nil {
		return nil
	}
	c.tools = true
	call := c.calls[id]
	if call != nil && (ev.Exchange == "" || ev.Exchange == call.Exchange || call.awaits()) {
		call.apply(&ev)
		return call
	}
	if ev.Exchange == "" {
		return nil
	}
	if len(c.early) == maxEarly {
		c.early = slices.Delete(c.early, 0, 1)
	}
	c.early = append(c.early, earlyToolEvent{id, ev})
	return nil
}

// apply applies an event to the call. A repeated start is another attempt and does not change StartedAt.
func (c *Call) apply(ev *ToolEvent) {
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

// applyEarly applies and removes the events that arrived before the answer with the call.
func (c *conversation) applyEarly(call *Call) {
	if len(c.early) == 0 {
		return
	}
	c.early = slices.DeleteFunc(c.early, func(e earlyToolEvent) bool {
		if e.id != call.id || e.ev.Exchange != call.Exchange {
			return false
		}
		call.apply(&e.ev)
		return true
	})
}
