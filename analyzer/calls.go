package analyzer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/wire"
)

// maxWaitingCalls bounds the tool calls that wait for a reply; the row of one beyond stays open.
const maxWaitingCalls = 200_000

// Details of ReplyNeverArrived.
const (
	replyActive = "active" // the conversation goes on without it
	replyIdle   = "idle"   // the process that was asked is silent, and another one goes on
	replyEnded  = "ended"  // the run ended in error
)

// asker is the exchange whose answer asked for a call.
type asker struct {
	subject
	instanceSeq, dropped uint64 // of its request
	memory               string // the name under which its service's conversations are remembered
}

// calls holds the tool calls that wait for a reply, by how long their tools may take, and what is known of the tools.
type calls struct {
	byTool map[string]*expiry.Queue[*session.Call, struct{}]
	rest   *expiry.Queue[*session.Call, struct{}]
	queues []*expiry.Queue[*session.Call, struct{}] // all of them, each once
	stats  toolStats
}

func newCalls(cfg *Config) *calls {
	c := &calls{byTool: make(map[string]*expiry.Queue[*session.Call, struct{}]), stats: newToolStats(cfg.SessionLookback)}
	queue := func(wait time.Duration) *expiry.Queue[*session.Call, struct{}] {
		for _, q := range c.queues {
			if q.Timeout() == wait {
				return q
			}
		}
		c.queues = append(c.queues, expiry.NewQueue[*session.Call, struct{}](wait))
		return c.queues[len(c.queues)-1]
	}
	c.rest = queue(min(cfg.ToolReplyTimeout, cfg.SessionLookback))
	for _, tool := range slices.Sorted(maps.Keys(cfg.ToolReplyTimeouts)) {
		c.byTool[tool] = queue(cfg.ToolReplyTimeouts[tool])
	}
	return c
}

func (c *calls) queue(tool string) *expiry.Queue[*session.Call, struct{}] {
	if q := c.byTool[tool]; q != nil {
		return q
	}
	return c.rest
}

// first is the queue whose first call is due first, if one is due by now, and when that is.
func (c *calls) first(now time.Time) (due *expiry.Queue[*session.Call, struct{}], at time.Time) {
	for _, q := range c.queues {
		if t, ok := q.Due(now); ok && (due == nil || t.Before(at)) {
			due, at = q, t
		}
	}
	return due, at
}

func (c *calls) len() (n int) {
	for _, q := range c.queues {
		n += q.Len()
	}
	return n
}

// asked makes the calls of an answer wait for their replies, and puts out their rows.
func (a *Analyzer) asked(o *open, list []*session.Call, seq uint64) {
	for _, c := range list {
		if o.row.Origin != event.OriginImport && c.Paired() { // the end of a recording says nothing, nor a call that no reply can name
			a.calls.queue(c.Name).Add(c, struct{}{}, 0, a.now)
			a.runWaits(o, c)
		}
		a.putCall(c, seq)
	}
	for a.calls.len() > maxWaitingCalls {
		q := a.calls.queues[0]
		for _, o := range a.calls.queues {
			if o.Len() > q.Len() {
				q = o
			}
		}
		q.TakeFirst()
		a.drop(dropOverflow)
	}
}

// askerOf is what the calls in the answer to o remember of it.
func (a *Analyzer) askerOf(o *open) *asker {
	return &asker{*about(o), o.row.InstanceSeq, o.dropped, memoryOf(o.row.Labels.Service, o.row.Origin, o.row.Instance)}
}

// replies takes over what the request of o says of earlier calls.
func (a *Analyzer) replies(o *open, at Position) {
	t := o.turn
	changed := t.Changed
	p := a.judging.Pairing()
	changed = a.misplaced(o, p, check.ReplyDuplicate, session.Duplicate, changed)
	changed = a.misplaced(o, p, check.ReplyLate, session.Late, changed)
	for _, c := range changed {
		w := c.Asker.(*asker)
		switch c.State {
		case session.Missing:
			a.learn(w, c, toolCounts{missing: 1})
			if !p.Unknown && !blamed(o.found, c) {
				a.neverArrived(c, replyActive, "the next request of its conversation holds the call and no reply", at)
			}
		case session.Answered, session.Late, session.Duplicate:
			if slices.Contains(t.Changed, c) {
				a.learn(w, c, toolCounts{answered: 1})
			}
		}
		a.calls.queue(c.Name).Take(c)
		a.putCall(c, at.Seq)
	}
	for _, c := range t.Dropped {
		a.miss(c, replyActive, "its conversation goes on without the call and without a reply", at)
	}
	for _, c := range t.Superseded {
		if a.silent(c) {
			a.miss(c, replyIdle, "the process that was to run it is silent since then, and another one goes on with its conversation", at)
		}
	}
}

// misplaced adds to changed the calls whose replies are too many or too late.
func (a *Analyzer) misplaced(o *open, p *check.Pairing, status check.ReplyStatus, state string, changed []*session.Call) []*session.Call {
	for r := range p.With(status) {
		if r.Call < 0 {
			continue
		}
		call := &p.Calls[r.Call]
		if c := o.turn.Misplaced(call.Call.ID, call.Name, p.Nth(r.Call), call.Message, state); c != nil && !slices.Contains(changed, c) {
			changed = append(changed, c)
		}
	}
	return changed
}

// blamed reports whether a rule says already that c has no reply: then a signal would be the same defect once more, and
// the finding says more, because the provider judged it and its root cause is known.
func blamed(found []judge.Finding, c *session.Call) bool {
	for i := range found {
		v := &found[i]
		if (v.Rule.ID == "missing_tool_reply" || v.Rule.ID == "previous_response_unresolved") && (v.ToolCallID == c.CallID || v.ToolName == c.Name && c.CallID == "") {
			return true
		}
	}
	return false
}

// miss decides what it means that no reply to c came, although one could have been expected by now.
func (a *Analyzer) miss(c *session.Call, detail, why string, at Position) {
	w := c.Asker.(*asker)
	if !c.Undecided() || w.origin == event.OriginImport || w.degraded || a.lostAfter(w.instance, w.instanceSeq, w.dropped) {
		return // absence is no evidence
	}
	a.calls.queue(c.Name).Take(c)
	if c.Forced || a.calls.stats.of(toolKey{w.memory, c.Name}).terminal() {
		c.End(session.Terminal)
	} else {
		c.End(session.Missing)
		if !c.Excused() {
			a.neverArrived(c, detail, why, at)
		}
	}
	a.learn(w, c, toolCounts{missing: 1})
	a.putCall(c, at.Seq)
}

// silent reports whether the process that was asked for c sent nothing since.
func (a *Analyzer) silent(c *session.Call) bool {
	it := a.instances.Get(c.Asker.(*asker).instance)
	return a.cfg.Partitions <= 1 && it != nil && it.Value.at <= c.Seq()
}

// giveUpCall ends the wait for the call that is due first: its conversation just stopped.
func (a *Analyzer) giveUpCall() {
	q, _ := a.calls.first(a.now)
	c := q.TakeFirst().Key
	if c.Forgotten() || c.State != session.Open {
		return
	}
	w := c.Asker.(*asker)
	c.End(session.Abandoned)
	if c.Forced || a.calls.stats.of(toolKey{w.memory, c.Name}).terminal() {
		c.End(session.Terminal)
	}
	if !a.lostAfter(w.instance, w.instanceSeq, w.dropped) {
		a.learn(w, c, toolCounts{abandoned: 1})
	}
	a.putCall(c, a.seq)
}

// learn counts what became of c.
func (a *Analyzer) learn(w *asker, c *session.Call, one toolCounts) {
	if w.origin != event.OriginImport {
		a.calls.stats.add(toolKey{w.memory, c.Name}, one, c.Need(), a.now)
	}
}

// settled takes over that the request of o was answered: the replies in it arrived, or not.
func (a *Analyzer) settled(o *open) {
	if o.turn == nil {
		return
	}
	e := &o.row
	for _, c := range o.turn.Settle(e.Status >= 200 && e.Status < 300 && !e.Failed, refused(e)) {
		a.putCall(c, e.Seq)
	}
}

// refused reports whether the provider refused the request for what it is, so that it would refuse it again: not for
// want of capacity, credit or a key.
func refused(e *Exchange) bool {
	return e.Failed && e.Status >= 400 && !wire.RetryableStatus(e.Status) && e.CauseClass != "access" && e.CauseClass != "policy" && e.CauseClass != "provider"
}

// neverArrived puts out that no reply to c came, where replies to its tool are usual or the agent said that it ran.
func (a *Analyzer) neverArrived(c *session.Call, detail, why string, at Position) {
	w := c.Asker.(*asker)
	if w.origin == event.OriginImport || c.StartedAt.IsZero() && !a.calls.stats.of(toolKey{w.memory, c.Name}).replied() {
		return
	}
	s := w.subject
	s.seenAt = at.Time
	ran := ""
	switch {
	case !c.EndedAt.IsZero():
		ran = "; the tool ended (" + c.ToolStatus + ")"
	case !c.StartedAt.IsZero():
		ran = "; the tool started and did not end"
	}
	a.put(&s, &signal{
		id: ReplyNeverArrived, detail: detail, message: -1, callID: c.CallID, tool: c.Name, key: c.Exchange + " " + strconv.Itoa(c.Position),
		summary:  fmt.Sprintf("no reply to call %s of %s ever came", limit.Text(c.CallID, limit.NameBytes), limit.Name(c.Name)),
		evidence: fmt.Sprintf("the answer of exchange %s asked for it; %s%s", c.Exchange, why, ran),
		fix:      "Append a reply for every call, also when the tool fails, is skipped or is lost with its process: say in it what happened.",
	}, at.Seq, c.Need())
}

// tool takes over that the agent ran a tool: whether it started tells a call that was skipped from one whose reply was
// lost.
func (a *Analyzer) tool(ev *event.Event, at Position) {
	if len(ev.ToolCallID) > limit.CallIDBytes {
		return
	}
	state := session.ToolEnded
	if ev.ToolStatus == event.StatusStarted {
		state = session.ToolStarted
	}
	c := a.sessions.Tool(session.ToolEvent{
		Service: a.strings.string(memoryOf(ev.Labels.Service, ev.Origin, ev.Instance)), Conversation: a.strings.string(ev.Labels.Conversation),
		Exchange: a.strings.string(ev.Exchange), CallID: strings.Clone(ev.ToolCallID), State: state, Status: a.strings.string(limit.Name(ev.ToolStatus)), At: ev.Time,
	})
	if c == nil {
		return
	}
	q := a.calls.queue(c.Name)
	if it := q.Get(c); it != nil { // a sign of life
		q.Renew(it, a.now)
	}
	a.putCall(c, at.Seq)
}

// putCall puts out a version of a tool call's row.
func (a *Analyzer) putCall(c *session.Call, seq uint64) {
	if !a.emit {
		return
	}
	id := identity.Of(c.Exchange, strconv.Itoa(c.Position), c.CallID)
	row := ToolCall{
		ID: id.ID(), Seq: seq, Conversation: c.Conversation, Exchange: c.Exchange, CallID: c.CallID,
		Name: c.Name, State: c.State, AskedAt: c.AskedAt, AnsweredAt: c.AnsweredAt, AnsweredBy: c.AnsweredBy,
		StartedAt: c.StartedAt, EndedAt: c.EndedAt, ToolStatus: c.ToolStatus,
	}
	if w, ok := c.Asker.(*asker); ok {
		row.Labels = w.labels
	}
	a.metrics.calls.Inc()
	a.out.ToolCalls = append(a.out.ToolCalls, row)
}
