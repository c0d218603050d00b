package show

import (
	"context"
	"slices"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
)

var timesOf = rows.Statement(`SELECT tool_call_id, state, asked_at, answered_at, started_at, ended_at, tool_status FROM tool_calls FINAL
	WHERE conversation_id = {id:String} AND tool_call_id != '' AND asked_at <= {at:DateTime64(9, 'UTC')} ORDER BY asked_at DESC LIMIT 5000`)

// Outline reads a conversation without texts: n exchanges around the one with id exchange. If exchange is "", these are the
// exchanges around the newest with a violation, else around the newest failed one, else the newest ones. at is the position of
// that exchange in c.Exchanges, or -1.
func (s Store) Outline(ctx context.Context, id, exchange string, n int) (c *Conversation, at int, err error) {
	c, all, known, err := s.turns(ctx, id)
	if err != nil {
		return nil, -1, err
	}
	middle := broken(all)
	if exchange != "" {
		middle = slices.IndexFunc(all, func(t *Turn) bool { return t.ID == exchange })
	}
	if middle < 0 {
		middle = len(all) - 1
	}
	first := max(min(middle-n/2, len(all)-n), 0)
	for i := first; i < min(first+n, len(all)); i++ {
		before := &Turn{Exchange: &Exchange{}}
		if i > 0 {
			before = all[i-1]
		}
		all[i].add(known, before, false)
		c.Exchanges = append(c.Exchanges, all[i])
	}
	return c, slices.IndexFunc(c.Exchanges, func(t *Turn) bool { return t == all[middle] && (exchange == "" || t.ID == exchange) }), nil
}

// broken returns the position of the newest turn with a violation, else of the newest failed one, or -1.
func broken(all []*Turn) int {
	failed := -1
	for i, t := range slices.Backward(all) {
		if slices.ContainsFunc(t.Findings, func(f Finding) bool { return f.Breaks() }) {
			return i
		}
		if failed < 0 && t.Failed() {
			failed = i
		}
	}
	return failed
}

// Repeats reports whether t sends the same messages as the exchange before.
func (t *Turn) Repeats() bool { return t.Kept > 0 && t.Added == 0 && t.Kept == t.Count }

// A Timing is how long a call took.
type Timing struct {
	ToolCallID string
	State      string    // see tool_calls.state
	AskedAt    time.Time // end of the answer with the call
	AnsweredAt time.Time // start of the first request with the reply; zero if there is none
	StartedAt  time.Time // of the tool; zero if the agent does not report it
	EndedAt    time.Time
	Status     string // of the tool; "" if the agent does not report it
}

// TimedExchange is Exchange with the times of the calls that were made before in its conversation, by call id.
func (s Store) TimedExchange(ctx context.Context, id string) (*Exchange, map[string]Timing, error) {
	var times map[string]Timing
	e, err := s.exchangeWith(ctx, id, func(ctx context.Context, e *Exchange) (err error) {
		if e.Conversation != "" {
			times, err = s.timings(ctx, e)
		}
		return err
	})
	return e, times, err
}

// timings returns the times of the calls that were made before e in its conversation, by call id. An id that was used several
// times has no times, because it does not tell which call a message is about.
func (s Store) timings(ctx context.Context, e *Exchange) (map[string]Timing, error) {
	found, err := rows.Read(ctx, s.Q, "tool calls", timesOf, map[string]string{"id": e.Conversation, "at": rows.TimeParam(e.storedAt)})
	if err != nil {
		return nil, err
	}
	all, used := map[string]Timing{}, map[string]bool{}
	for _, r := range found {
		id := r.Text("tool_call_id")
		if used[id] {
			delete(all, id)
			continue
		}
		used[id] = true
		all[id] = Timing{id, r.Text("state"), r.Time("asked_at"), r.Time("answered_at"), r.Time("started_at"), r.Time("ended_at"), r.Text("tool_status")}
	}
	return all, nil
}
