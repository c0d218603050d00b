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
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/analyzer/toolreply"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// maxOpenCalls limits the tool calls that wait for a reply. The row of an evicted call stays open.
const maxOpenCalls = 200_000

// Details of signals.ReplyNeverArrived.
const (
	replyActive = "active" // the conversation continues without the reply
	replyIdle   = "idle"   // the process expected to run the tool is silent, and another process continues the conversation
	replyEnded  = "ended"  // the run ended in error
)

// caller describes the exchange whose answer made a call. Each call has a pointer to its caller.
type caller struct {
	signals.Subject
	scope        string // see scopeOf
	seq, dropped uint64 // event number of the request in its process; exchanges that the process had dropped by then
}

func newCaller(p *pending) *caller {
	return &caller{p.subject(), p.scope(), p.row.InstanceSeq, p.dropped}
}

func callerOf(c *session.Call) *caller { return c.Context.(*caller) }

type callQueue = expiry.Queue[*session.Call, struct{}]

// toolCalls tracks the tool calls that wait for a reply and counts the outcomes of the calls of each tool.
type toolCalls struct {
	byTool map[string]*callQueue // queues of tools with their own timeout
	rest   *callQueue
	queues []*callQueue // all queues, one per timeout
	stats  toolStats
	reader toolreply.Reader

	sessions  *session.Store
	processes *processes
	strings   interner
}

func newToolCalls(cfg *Config, sessions *session.Store, processes *processes, strings interner) *toolCalls {
	t := &toolCalls{
		byTool: make(map[string]*callQueue), stats: newToolStats(cfg.SessionLookback), sessions: sessions, processes: processes, strings: strings,
	}
	queue := func(timeout time.Duration) *callQueue {
		for _, q := range t.queues {
			if q.Timeout() == timeout {
				return q
			}
		}
		t.queues = append(t.queues, expiry.NewQueue[*session.Call, struct{}](timeout))
		return t.queues[len(t.queues)-1]
	}
	t.rest = queue(min(cfg.ToolReplyTimeout, cfg.SessionLookback))
	for _, tool := range slices.Sorted(maps.Keys(cfg.ToolReplyTimeouts)) {
		t.byTool[tool] = queue(cfg.ToolReplyTimeouts[tool])
	}
	return t
}

func (t *toolCalls) queue(c *session.Call) *callQueue {
	if q := t.byTool[c.Name]; q != nil {
		return q
	}
	return t.rest
}

// next returns the queue with the earliest deadline, and that deadline; nil if no call is due by now.
func (t *toolCalls) next(now time.Time) (next *callQueue, at time.Time) {
	for _, q := range t.queues {
		if d, ok := q.Due(now); ok && (next == nil || d.Before(at)) {
			next, at = q, d
		}
	}
	return next, at
}

// due returns the earliest deadline, or false if no call is due by now.
func (t *toolCalls) due(now time.Time) (time.Time, bool) {
	q, at := t.next(now)
	return at, q != nil
}

func (t *toolCalls) len() (n int) {
	for _, q := range t.queues {
		n += q.Len()
	}
	return n
}

// asked registers the calls of the answer to p, which now wait for their replies.
func (t *toolCalls) asked(s *step, p *pending, calls []*session.Call) {
	for _, c := range calls {
		if p.row.Origin != event.OriginImport && c.Paired() { // a recording may just end; an unpaired call cannot have a reply
			t.queue(c).Add(c, struct{}{}, 0, s.now)
			p.run.wait(c)
		}
		t.emit(s, c, p.row.Seq)
	}
	for t.len() > maxOpenCalls {
		longest := slices.MaxFunc(t.queues, func(a, b *callQueue) int { return a.Len() - b.Len() })
		longest.TakeFirst()
		s.drop(dropOverflow)
	}
}

// replies updates the calls that the request q of p answers, contains without a reply, or omits.
func (t *toolCalls) replies(s *step, p *pending, q *session.Request, pairing *check.Pairing, at Position) {
	turn := p.turn
	for _, c := range turn.Changed {
		if p.repliesTo(c) {
			r := &q.Facts.Messages[c.ReplyMessage].Replies[c.ReplyPart]
			read := t.reader.Read(q.Body[r.Start:r.End], r.IsError, r.ContentBytes)
			if c.ReplyError, c.ReplyHash = read.Error, read.Hash; q.Shaped && session.HasNumber(read.Content) {
				c.ReplyHash = 0
			}
		}
	}
	p.loop = turn.Repeats()
	changed := t.misplaced(turn, pairing, check.ReplyDuplicate, session.Duplicate, turn.Changed)
	changed = t.misplaced(turn, pairing, check.ReplyLate, session.Late, changed)
	for _, c := range changed {
		switch c.State {
		case session.Missing:
			t.count(s, c, toolCounts{missing: 1})
			if !pairing.Unknown && !reported(p.findings, c) {
				t.neverArrived(s, c, replyActive, "the next request of its conversation contains the call and no reply", at)
			}
		case session.Answered, session.Late, session.Duplicate:
			if slices.Contains(turn.Changed, c) {
				t.count(s, c, toolCounts{answered: 1})
			}
		}
		t.queue(c).Take(c)
		t.emit(s, c, at.Seq)
	}
	for _, c := range turn.Dropped {
		t.miss(s, c, replyActive, "its conversation continues without the call and without a reply", at)
	}
	for _, c := range turn.Superseded {
		if t.processes.silentSince(callerOf(c).Instance, c.Order()) {
			t.miss(s, c, replyIdle, "the process that was to run it has been silent since, and another one continues its conversation", at)
		}
	}
}

// misplaced appends to changed the calls whose replies have the given status, duplicate or late.
func (t *toolCalls) misplaced(turn *session.Turn, pairing *check.Pairing, status check.ReplyStatus, state string, changed []*session.Call) []*session.Call {
	for r := range pairing.With(status) {
		if r.Call < 0 {
			continue
		}
		if c := turn.Misplaced(pairing.Calls[r.Call].Message, r.Message, r.Part, state); c != nil && !slices.Contains(changed, c) {
			changed = append(changed, c)
		}
	}
	return changed
}

// reported reports whether findings already include the missing reply to c. A signal would repeat the defect, and the
// finding also has the provider's judgment and the root cause.
func reported(findings []judge.Finding, c *session.Call) bool {
	return slices.ContainsFunc(findings, func(f judge.Finding) bool {
		return (f.Rule.ID == "missing_tool_reply" || f.Rule.ID == "previous_response_unresolved") &&
			(f.Call == c || f.ToolCallID == c.CallID && c.CallID != "")
	})
}

// miss sets the state of a call whose reply should have arrived by now: terminal or missing.
func (t *toolCalls) miss(s *step, c *session.Call, detail, why string, at Position) {
	by := callerOf(c)
	if !c.Undecided() || by.Origin == event.OriginImport || by.Degraded || t.processes.lostAfter(by.Instance, by.seq, by.dropped) {
		return // already decided, or the absence of a reply proves nothing
	}
	t.queue(c).Take(c)
	if t.terminal(c) {
		c.End(session.Terminal)
	} else {
		c.End(session.Missing)
		if !c.Excused() {
			t.neverArrived(s, c, detail, why, at)
		}
	}
	t.count(s, c, toolCounts{missing: 1})
	t.emit(s, c, at.Seq)
}

// expire marks the call that is due first as abandoned, because its conversation stopped.
func (t *toolCalls) expire(s *step) {
	q, _ := t.next(s.now)
	c := q.TakeFirst().Key
	if c.Forgotten() || c.State != session.Open {
		return
	}
	by := callerOf(c)
	c.End(session.Abandoned)
	if t.terminal(c) {
		c.End(session.Terminal)
	}
	if !t.processes.lostAfter(by.Instance, by.seq, by.dropped) {
		t.count(s, c, toolCounts{abandoned: 1})
	}
	t.emit(s, c, s.seq)
}

// terminal reports whether no reply to c is expected, because the request forced the call or because calls of the tool
// are hardly ever answered.
func (t *toolCalls) terminal(c *session.Call) bool {
	return c.Forced || t.stats.of(toolKey{callerOf(c).scope, c.Name}).terminal()
}

// count adds the outcome of c to the statistics of its tool.
func (t *toolCalls) count(s *step, c *session.Call, one toolCounts) {
	if by := callerOf(c); by.Origin != event.OriginImport {
		t.stats.add(toolKey{by.scope, c.Name}, one, c.MinSeq(), s.now)
	}
}

// repliesTo reports whether the request of p is the first with a reply to c.
func (p *pending) repliesTo(c *session.Call) bool {
	return c.AnsweredBy == p.row.ID && c.ReplyMessage >= 0
}

// settle updates the calls whose replies are in the completed request of p: replies in an accepted request arrived,
// replies in a refused one did not. It returns the calls that may have a reply in the request, see repliesTo; none if it was refused.
func (t *toolCalls) settle(s *step, p *pending) (replied [2][]*session.Call) {
	refused := refused(&p.row)
	changed := p.turn.Settle(accepted(&p.row), refused)
	for _, c := range changed {
		t.emit(s, c, p.row.Seq)
	}
	if refused {
		return replied
	}
	return [...][]*session.Call{p.turn.Changed, changed}
}

// neverArrived emits the signal that no reply to c arrived, if calls of the tool are usually answered or the agent
// reported that the tool ran.
func (t *toolCalls) neverArrived(s *step, c *session.Call, detail, why string, at Position) {
	by := callerOf(c)
	if by.Origin == event.OriginImport || c.StartedAt.IsZero() && !t.stats.of(toolKey{by.scope, c.Name}).replied() {
		return
	}
	x := by.Subject
	x.SeenAt = at.Time
	ran := ""
	switch {
	case !c.EndedAt.IsZero():
		ran = "; the tool ended (" + c.ToolStatus + ")"
	case !c.StartedAt.IsZero():
		ran = "; the tool started and did not end"
	}
	s.emitSignal(&x, &signals.Signal{
		ID: signals.ReplyNeverArrived, Detail: detail, Message: -1, CallID: c.CallID, Tool: c.Name, Key: c.Exchange + " " + strconv.Itoa(c.Position),
		Summary:  fmt.Sprintf("no reply to call %s of %s ever arrived", limit.Text(c.CallID, limit.NameBytes), limit.Name(c.Name)),
		Evidence: fmt.Sprintf("the answer of LLM call %s made it; %s%s", c.Exchange, why, ran),
		Fix:      "Append a reply for every call, even if the tool fails, is skipped or is lost with its process: say in it what happened.",
	}, at.Seq, c.MinSeq())
}

// ran processes a tool event. Tool events distinguish lost replies from skipped calls.
func (t *toolCalls) ran(s *step, ev *event.Event, at Position) {
	if len(ev.ToolCallID) > limit.CallIDBytes {
		return
	}
	state := session.ToolEnded
	if ev.ToolStatus == event.StatusStarted {
		state = session.ToolStarted
	}
	in := t.strings
	c := t.sessions.Tool(session.ToolEvent{
		Service: in.string(scopeOf(ev.Labels.Service, ev.Origin, ev.Instance)), Conversation: in.string(ev.Labels.Conversation),
		Exchange: in.string(ev.Exchange), CallID: strings.Clone(ev.ToolCallID), State: state, Status: in.string(limit.Name(ev.ToolStatus)), At: ev.Time,
	})
	if c == nil {
		return
	}
	q := t.queue(c)
	if e := q.Get(c); e != nil { // the agent is still working on the call
		q.Renew(e, s.now)
	}
	t.emit(s, c, at.Seq)
}

// emit emits the current version of the row of c.
func (t *toolCalls) emit(s *step, c *session.Call, seq uint64) {
	if !s.emit {
		return
	}
	id := identity.Of(c.Exchange, strconv.Itoa(c.Position), c.CallID)
	row := ToolCall{
		ID: id.ID(), Seq: seq, Conversation: c.Conversation, Exchange: c.Exchange, CallID: c.CallID,
		Name: c.Name, State: c.State, AskedAt: c.AskedAt, AnsweredAt: c.AnsweredAt, AnsweredBy: c.AnsweredBy,
		StartedAt: c.StartedAt, EndedAt: c.EndedAt, ToolStatus: c.ToolStatus, ReplyError: c.ReplyError,
	}
	if by, ok := c.Context.(*caller); ok {
		row.Labels, row.Attrs = by.Labels, by.Attrs
	}
	s.emitToolCall(&row)
}
