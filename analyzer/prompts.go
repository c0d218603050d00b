package analyzer

import (
	"math/bits"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

const (
	maxStages   = 1024      // stages in all generations
	maxOpenings = 4         // different openings of the prompts of a stage, in a generation
	maxSystem   = 64 << 10  // longer system prompts are compared by their hash only
	stageTime   = time.Hour // for which stages are remembered; no provider is known to hold a prefix longer than that
	fewFirsts   = 3         // fewer conversations do not show what differs in each
)

// prompts determines what became of the provider's cache, see package promptcache. The newest request of a history is in its
// conversation; what requests of other conversations have in common is remembered here, per stage.
type prompts struct {
	stages   *expiry.Generations[uint64, *stage]
	policies map[uint64]*promptcache.Policy // by hash of the target and whether something is marked
	strings  interner
	tools    map[uint64]*promptcache.ToolSet // by hash of the captured bytes
	buf      []byte
	call     promptcache.Call // of the newest request
}

// A stage is what is remembered of the prompts of a stage at a host with a model, in a generation.
type stage struct {
	openings [maxOpenings]*opening // of prompts, newest first
	firsts   firsts
	text     []byte // the newest system prompt that was captured in full
	textHash uint64
	minSeq   uint64
}

// firsts counts the first requests of conversations, those whose tools another request of the stage had, and those whose system
// prompt another one had.
type firsts struct{ calls, tools, system uint32 }

func (f *firsts) add(sameTools, sameSystem bool) {
	f.calls++
	if sameTools {
		f.tools++
	}
	if sameSystem {
		f.system++
	}
}

// An opening is what the prompts of several conversations can share.
type opening struct {
	tools      *promptcache.ToolSet
	system     uint64
	whole      uint64 // hash of the messages of the newest one
	systemSize uint32
	instance   uint32 // hash of the process, if the prompt is a shape
	sent       uint32
	done       bool // a request with it was answered
	flags      promptcache.Flags
	minute     uint32 // Unix time
	calls      uint32 // in this minute
	before     uint32 // in the minute before
}

func newPrompts(cfg *Config, strings interner) *prompts {
	return &prompts{
		stages:   expiry.NewGenerations[uint64, *stage](min(cfg.SessionLookback, stageTime), maxStages),
		policies: map[uint64]*promptcache.Policy{}, tools: map[uint64]*promptcache.ToolSet{}, strings: strings,
	}
}

// request compares the request of p with the earlier ones. It must be called once for each request, after the setup was read.
func (m *prompts) request(s *step, p *pending, q *facts.Request, body []byte, minSeq uint64) {
	e, turn, c := &p.row, p.turn, &m.call
	*c = promptcache.Call{Earlier: turn.Earlier(), Lead: turn.Lead(), Marks: c.Marks[:0]}
	setup, now := q.Setup(), &c.Now
	m.marks(c, q)
	c.Policy = m.policy(p.target, now.Flags&promptcache.Marked != 0)
	if said := q.Cache(); !c.Policy.Known() || len(said.Content) > 0 || said.OnlyMarks {
		return // a cache that the request names is not a prefix of it, and what is cached of one that rules out all but its marks is not known
	}
	shape := e.Capture == event.CaptureShape
	if shape {
		now.Flags |= promptcache.Shaped
	}
	now.Sent, now.Target = promptcache.Clip(m.at(s, e).Unix()), m.target(e)
	if len(c.Policy.Parameters) > 0 || c.Policy.KeySeparates {
		now.Parameters = c.Policy.Digest(setup.Parameters, body, q.Cache().Key)
	}
	now.Tools = m.toolSet(q, setup.Tools.Of(body), body, shape)
	m.system(c, q, turn, setup.System.Of(body), body, shape)
	if c.Policy.Images && slices.ContainsFunc(q.Messages, func(m facts.Message) bool { return m.Parts&facts.PartImage != 0 }) {
		now.Flags |= promptcache.HasImages
	}
	size, messages := turn.BodySize()
	if q.Stored {
		size += c.Earlier.SharedBytes
	}
	now.Messages = uint16(min(messages, 1<<16-1))
	now.Bytes = promptcache.Clip(size + int(now.SystemSize) + now.Tools.Bytes())
	m.stage(s, p, q, body, minSeq)
	differs := c.Compare()
	p.cache, e.Cache = c.Expect()
	turn.Prompt().Begin(now, differs)
}

// system sets the system prompt of the request.
func (m *prompts) system(c *promptcache.Call, q *facts.Request, turn *session.Turn, system, body []byte, shape bool) {
	now := &c.Now
	if len(system) > 0 {
		if now.Flags&promptcache.MarkedSetup != 0 {
			system = session.Unmark(system)
		}
		now.System, now.SystemSize = xxh3.Hash(system), textSize(system, shape)
	}
	for i, l := range q.Messages[:c.Lead] {
		now.System = bits.RotateLeft64(now.System, 1) ^ turn.Unmarked(i)
		now.SystemSize += textSize(body[l.Start:l.End], shape)
	}
}

func textSize(text []byte, shape bool) uint32 {
	if shape {
		return promptcache.Clip(promptcache.Size(text))
	}
	return promptcache.Clip(len(text))
}

// at returns the time of the request of e, as in session.Request.Seen.
func (*prompts) at(s *step, e *Exchange) time.Time {
	if e.Origin == event.OriginImport {
		return e.StartedAt
	}
	return s.now
}

func (*prompts) target(e *Exchange) uint32 {
	return uint32(xxh3.HashStringSeed(e.Server, xxh3.HashString(e.Model)))
}

// policy returns the policy of a target.
func (m *prompts) policy(t wire.Target, marked bool) *promptcache.Policy {
	k := xxh3.HashStringSeed(t.Model, xxh3.HashStringSeed(string(t.Variant), uint64(len(t.Dialect))))
	if marked {
		k = ^k
	}
	p, ok := m.policies[k]
	if !ok {
		p = put(m.policies, k, promptcache.Of(t, marked))
	}
	return p
}

// toolSet returns what is remembered of the tools of a request; nil if there are none.
func (m *prompts) toolSet(q *facts.Request, tools, body []byte, shape bool) *promptcache.ToolSet {
	if len(tools) == 0 {
		return nil
	}
	key := xxh3.Hash(tools)
	set, ok := m.tools[key]
	if !ok {
		declared := func(yield func(string, []byte) bool) {
			for _, at := range q.Setup().Each {
				tool := at.Of(body)
				if !yield(m.strings.name([]byte(facts.ToolName(tool))), session.Unmark(tool)) {
					return
				}
			}
		}
		stable := func(tool []byte) []byte {
			m.buf = appendStable(m.buf[:0], tool, shape)
			return m.buf
		}
		set = put(m.tools, key, promptcache.NewToolSet(declared, func(tool []byte) int { return int(textSize(tool, shape)) }, stable))
	}
	return set
}

// marks sets the marks of the request, and what else it says about the cache.
func (m *prompts) marks(c *promptcache.Call, q *facts.Request) {
	now, cache := &c.Now, q.Cache()
	for _, mark := range cache.Marks {
		at := 0
		if now.Flags |= promptcache.Marked; mark.Place == facts.InMessages && mark.Index >= c.Lead {
			at = q.BlocksTo(mark)
		} else {
			now.Flags |= promptcache.MarkedSetup
		}
		if mark.Hour {
			now.Flags |= promptcache.Longer
		}
		c.Marks = append(c.Marks, at)
	}
	if cache.Automatic {
		now.Flags |= promptcache.Marked
		if cache.AutomaticHour {
			now.Flags |= promptcache.Longer
		}
		if n := len(q.Messages); n > 0 {
			c.Marks = append(c.Marks, q.BlocksTo(facts.Mark{Place: facts.InMessages, Index: n - 1, Part: max(q.Messages[n-1].PartCount, 1) - 1}))
		}
	}
	if len(c.Marks) > 0 {
		now.Marks = uint16(min(slices.Max(c.Marks), 1<<16-1))
	}
	if len(cache.Key) > 0 {
		now.Flags |= promptcache.Keyed
	}
	if len(cache.Retention) > 0 && string(cache.Retention) != "in_memory" {
		now.Flags |= promptcache.Longer
	}
}

// stageKey returns the key of the stage of p.
func stageKey(p *pending, target uint32) uint64 {
	e := &p.row
	h := xxh3.HashString(p.scope())
	h = xxh3.HashStringSeed(e.Labels.StageOrAgent(), h)
	return h ^ uint64(target)<<32
}

// stage compares the request with those of other conversations of its stage, and remembers it.
func (m *prompts) stage(s *step, p *pending, q *facts.Request, body []byte, minSeq uint64) {
	c, now := &m.call, &m.call.Now
	k := stageKey(p, now.Target)
	st := m.newest(k, min(minSeq, p.turn.MinSeq()), s.now)
	instance := uint32(0)
	if now.Flags&promptcache.Shaped != 0 {
		instance = uint32(xxh3.HashString(p.row.Instance))
	}
	var system []byte
	if st.textHash != now.System || st.text == nil {
		system = m.systemText(p, q, body)
	}
	switch {
	case p.turn.First() || p.turn.Apart() || c.Earlier.Change == promptcache.Parted:
		m.begin(c, st, k, p.turn, p.turn.First() && !q.Stored, instance, system)
	case system != nil && !c.SystemSame():
		_, c.Detail = promptcache.Changed(m.text(k), system)
	}
	if system != nil {
		st.text, st.textHash = append(st.text[:0], system...), now.System
	}
	p.opening, c.Rate = st.see(now, instance)
	if !c.Earlier.Prompt.Known() && c.Policy.Ends&promptcache.EndPrompts != 0 {
		p.opening.whole = p.turn.Whole()
	}
}

// begin compares the first request of a history with the others of its stage k. first reports whether it is the first of its conversation.
func (m *prompts) begin(c *promptcache.Call, st *stage, k uint64, turn *session.Turn, first bool, instance uint32, system []byte) {
	var all firsts
	var sameTools, sameSystem bool
	var before *opening
	for o := range m.stages.All(k) {
		all.calls, all.tools, all.system = all.calls+o.firsts.calls, all.tools+o.firsts.tools, all.system+o.firsts.system
		if o.openings[0] != nil {
			before = o.openings[0]
		}
		for _, b := range o.openings {
			if b == nil {
				break
			}
			tools, system := b.like(&c.Now, instance)
			sameTools, sameSystem = sameTools || tools, sameSystem || system
			if tools && system {
				c.Start.Known, c.Start.Done = true, c.Start.Done || b.done
				c.Start.Sent, c.Start.Flags = max(c.Start.Sent, b.sent), c.Start.Flags|b.flags
			}
		}
	}
	if !first {
		return
	}
	if c.Policy.Ends&promptcache.EndPrompts != 0 && before != nil {
		c.Start.Whole = c.Start.Known && before.whole == turn.Whole()
	}
	if size, answered := turn.Answered(); answered && !turn.Inferred {
		c.Start.Forgotten = true
		c.Start.Equal = size + int(c.Now.SystemSize) + c.Now.Tools.Bytes()
	}
	if all.calls >= fewFirsts && before.done {
		varies(c, before, all, m.text(k), system, instance)
	}
	st.firsts.add(sameTools, sameSystem)
}

// text returns the newest system prompt of the stage k whose text is known.
func (m *prompts) text(k uint64) (text []byte) {
	for o := range m.stages.All(k) {
		if o.text != nil {
			text = o.text
		}
	}
	return text
}

// like reports whether a request has the tools and the system prompt of b. Shapes of two processes with the same lengths count as equal.
func (b *opening) like(now *promptcache.Prompt, instance uint32) (tools, system bool) {
	loose := b.instance != instance
	return now.Tools.Alike(b.tools, loose), b.system == now.System || loose && b.systemSize == now.SystemSize
}

// systemText returns the system prompt with the leading system messages, as captured; nil if its text is unknown or too long.
func (m *prompts) systemText(p *pending, q *facts.Request, body []byte) []byte {
	if p.row.Capture != event.CaptureFull || m.call.Now.SystemSize > maxSystem {
		return nil
	}
	m.buf = append(m.buf[:0], q.Setup().System.Of(body)...)
	for _, l := range q.Messages[:m.call.Lead] {
		m.buf = append(m.buf, body[l.Start:l.End]...)
	}
	return m.buf
}

// varies sets what differs in each conversation of a stage. before is the newest other prompt, whose system prompt is text if it is known,
// as is that of the call.
func varies(c *promptcache.Call, before *opening, all firsts, text, system []byte, instance uint32) {
	s, now := &c.Start, &c.Now
	sameTools, same := before.like(now, instance)
	equal := int(now.SystemSize)
	if !same {
		equal = shared(before, now, text, system)
	}
	switch {
	case !sameTools && seldom(all.tools, all.calls):
		var name string
		var reordered bool
		s.Element, name, reordered = promptcache.Difference(before.tools, now.Tools)
		if s.Detail = name; reordered {
			s.Detail = "order"
		}
		s.Equal = before.tools.Common(now.Tools) + equal
	case !same && seldom(all.system, all.calls):
		s.Element = "system"
		if text != nil && system != nil {
			_, s.Detail = promptcache.Changed(text, system)
		}
		s.Equal = before.tools.Common(now.Tools) + equal
	default:
		return
	}
	s.Varies, s.Known = true, false
	s.Sent, s.Flags = before.sent, before.flags
}

// seldom reports whether n of all is next to nothing.
func seldom(n, all uint32) bool { return 5*n <= all }

// shared returns the size of what two different system prompts share: what is before and after the difference. If their texts are
// unknown because they are shapes, they are taken to share all but the difference of their lengths, if that is small.
func shared(before *opening, now *promptcache.Prompt, text, system []byte) int {
	if text != nil && system != nil {
		start := 0
		for start < min(len(text), len(system)) && text[start] == system[start] {
			start++
		}
		end := 0
		for end < min(len(text), len(system))-start && text[len(text)-1-end] == system[len(system)-1-end] {
			end++
		}
		return start + end
	}
	least, most := min(before.systemSize, now.SystemSize), max(before.systemSize, now.SystemSize)
	if now.Flags&promptcache.Shaped == 0 || most-least > 64 {
		return 0
	}
	return int(least)
}

// newest returns the stage of the generation of now.
func (m *prompts) newest(k, minSeq uint64, now time.Time) *stage {
	st := m.stages.Newest(k, now)
	if st == nil || minSeq < st.minSeq {
		if st == nil {
			st = &stage{minSeq: minSeq}
		}
		st.minSeq = min(st.minSeq, minSeq)
		m.stages.Put(k, st, minSeq, now)
	}
	return st
}

// see records a request, and returns its opening and how many requests with it there were within a minute.
func (st *stage) see(now *promptcache.Prompt, instance uint32) (*opening, int64) {
	i, found := 0, false
	for ; i < len(st.openings) && st.openings[i] != nil && !found; i++ {
		tools, system := st.openings[i].like(now, instance)
		found = tools && system
	}
	var b *opening
	if found {
		i--
		b = st.openings[i]
	} else {
		i = min(i, len(st.openings)-1)
		b = &opening{tools: now.Tools, system: now.System, systemSize: now.SystemSize, instance: instance}
	}
	copy(st.openings[1:i+1], st.openings[:i])
	st.openings[0] = b
	b.sent, b.flags = max(b.sent, now.Sent), b.flags|now.Flags
	if minute := now.Sent / 60; minute != b.minute {
		if b.before = 0; minute == b.minute+1 {
			b.before = b.calls
		}
		b.minute, b.calls = minute, 0
	}
	b.calls++
	return b, int64(max(b.calls, b.before))
}

// answered sets what became of the cache in the completed call p, and remembers its prompt.
func (m *prompts) answered(p *pending) {
	e, x := &p.row, &p.cache
	known := x.Policy != nil && accepted(e) && e.CacheReported && e.InputTokens > 0
	if known && measures(e) {
		x.Settle(&e.Cache, e.InputTokens, e.CachedTokens)
	} else {
		e.Cache = promptcache.Verdict{}
	}
	if !known {
		return
	}
	if p.opening != nil {
		p.opening.done = true
	}
	if p.turn.Newest() {
		took := uint16(min(max(e.Duration/time.Second, 0), 1<<16-1))
		p.turn.Prompt().Answer(x, e.InputTokens, e.CachedTokens+e.CacheWritten, took)
	}
}
