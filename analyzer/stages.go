package analyzer

import (
	"bytes"
	"time"
	"weak"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// A stage is what is remembered of the prompts of a stage at a host with a model, in a generation.
type stage struct {
	openings [maxOpenings]opening // of prompts, newest first
	opened   uint32               // openings so far
	firsts   firsts
	text     *systemText // the newest that was captured in full
	minSeq   uint64
}

// A systemText is the system prompt of all stages, and of all generations of a stage, whose newest one it is.
type systemText struct {
	hash   uint64 // see promptcache.Prompt.System
	text   []byte
	shared bool // by several, so that none of them overwrites it
}

// keep sets the newest system prompt of st, the stage k in its newest generation.
func (m *prompts) keep(k uint64, st *stage, hash uint64, text []byte) {
	if same := m.texts[hash].Value(); same != nil && same.hash == hash && bytes.Equal(same.text, text) {
		same.shared, st.text = true, same
		return
	}
	if st.text == nil { // that of the generation before is not read anymore
		for o := range m.stages.All(k) {
			if o.text != nil {
				st.text, o.text = o.text, nil
			}
		}
	}
	if st.text == nil || st.text.shared {
		st.text = new(systemText)
	} else {
		delete(m.texts, st.text.hash)
	}
	st.text.hash, st.text.text = hash, append(st.text.text[:0], text...)
	put(m.texts, hash, weak.Make(st.text))
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
	account    uint16 // of the newest request
	cacheKey   uint16 // hash of its prompt_cache_key; 0 if it has none
	sent       uint32
	done       bool // a request with it was answered
	flags      promptcache.Flags
	minute     uint32 // Unix time
	calls      uint32 // in this minute
	before     uint32 // in the minute before
	number     uint32 // of openings in its stage, from 1
}

// stageKey returns the key of the stage of p.
func stageKey(p *pending, target uint16) uint64 {
	e := &p.row
	h := xxh3.HashString(p.scope())
	h = xxh3.HashStringSeed(e.Labels.StageOrAgent(), h)
	return h ^ uint64(target)<<48
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
	if st.text == nil || st.text.hash != now.System {
		system = m.systemText(p, q, body)
	}
	switch {
	case p.turn.First() || p.turn.Apart() || c.Earlier.Change == promptcache.Parted:
		m.begin(c, st, k, p.turn, p.turn.First() && !q.Stored, instance, system)
	case system != nil && c.Earlier.Prompt.Known() && !c.SystemSame(): // else nothing is compared, see Compare
		_, c.Detail = promptcache.Changed(m.text(k), system)
	}
	if system != nil {
		m.keep(k, st, now.System, system)
	}
	b, rate := m.see(k, st, now, instance)
	p.stage, p.opening, c.Rate = st, b.number, rate
	if !c.Earlier.Prompt.Known() && c.Policy.Ends&promptcache.EndPrompts != 0 {
		b.whole = p.turn.Whole()
	}
}

// begin compares the first request of a history with the others of its stage k. first reports whether it is the first of its conversation.
func (m *prompts) begin(c *promptcache.Call, st *stage, k uint64, turn *session.Turn, first bool, instance uint32, system []byte) {
	var all firsts
	var sameTools, sameSystem bool
	var before *opening
	var whole uint64
	if first && c.Policy.Ends&promptcache.EndPrompts != 0 {
		whole = turn.Whole()
	}
	for o := range m.stages.All(k) {
		all.calls, all.tools, all.system = all.calls+o.firsts.calls, all.tools+o.firsts.tools, all.system+o.firsts.system
		known := o.known()
		if len(known) > 0 {
			before = &known[0]
		}
		for i := range known {
			b := &known[i]
			tools, system := b.like(&c.Now, instance)
			sameTools, sameSystem = sameTools || tools, sameSystem || system
			if tools && system {
				c.Start.Known, c.Start.Done, c.Start.Whole = true, c.Start.Done || b.done, whole != 0 && b.whole == whole
				c.Start.Apart = b.apart(c)
				c.Start.Sent, c.Start.Flags = max(c.Start.Sent, b.sent), c.Start.Flags|b.flags
			}
		}
	}
	if !first {
		return
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
			text = o.text.text
		}
	}
	return text
}

// like reports whether a request has the tools and the system prompt of b. Shapes of two processes with the same lengths count as equal.
func (b *opening) like(now *promptcache.Prompt, instance uint32) (tools, system bool) {
	loose := b.instance != instance
	return now.Tools.Alike(b.tools, loose), b.system == now.System || loose && b.systemSize == now.SystemSize
}

// apart reports whether the newest request with b does not share a cache with the call.
func (b *opening) apart(c *promptcache.Call) bool {
	return c.Policy.KeySeparates && b.cacheKey != c.Now.CacheKey() || b.account != 0 && c.Now.Account != 0 && b.account != c.Now.Account
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
	equal, behind := int(now.SystemSize), 0
	if !same {
		equal, behind = shared(before, now, text, system)
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
		s.Equal, s.Behind = before.tools.Common(now.Tools)+equal, behind
	default:
		return
	}
	s.Varies, s.Known, s.Apart = true, false, before.apart(c)
	s.Sent, s.Flags = before.sent, before.flags
}

// seldom reports whether n of all is next to nothing.
func seldom(n, all uint32) bool { return 5*n <= all }

// shared returns the size of what two different system prompts share: what is before and after the difference, and of these what is
// after it. If their texts are unknown because they are shapes, they are taken to share all but the difference of their lengths, if that
// is small.
func shared(before *opening, now *promptcache.Prompt, text, system []byte) (equal, behind int) {
	if text != nil && system != nil {
		start := 0
		for start < min(len(text), len(system)) && text[start] == system[start] {
			start++
		}
		end := 0
		for end < min(len(text), len(system))-start && text[len(text)-1-end] == system[len(system)-1-end] {
			end++
		}
		return start + end, end
	}
	least, most := min(before.systemSize, now.SystemSize), max(before.systemSize, now.SystemSize)
	if now.Flags&promptcache.Shaped == 0 || most-least > 64 {
		return 0, 0
	}
	return int(least), 0
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

// see records a request of the stage k, and returns its opening and how many requests with it there were within a minute; 0
// if the time is unknown.
func (m *prompts) see(k uint64, st *stage, now *promptcache.Prompt, instance uint32) (*opening, int64) {
	i, b := st.find(now, instance)
	var o opening
	if b != nil {
		o = *b
	} else {
		st.opened++
		o = opening{number: st.opened, tools: now.Tools, system: now.System, systemSize: now.SystemSize, instance: instance}
		for earlier := range m.stages.All(k) {
			if _, old := earlier.find(now, instance); old != nil { // of the generation before, which may have ended a moment ago
				o.minute, o.calls, o.before = old.minute, old.calls, old.before
			}
		}
	}
	i = min(i, len(st.openings)-1)
	copy(st.openings[1:i+1], st.openings[:i])
	st.openings[0], b = o, &st.openings[0]
	b.account, b.cacheKey = now.Account, now.CacheKey()
	b.sent, b.flags = max(b.sent, now.Sent), b.flags|now.Flags
	if now.Sent == 0 {
		return b, 0
	}
	if minute := now.Sent / 60; minute != b.minute {
		if b.before = 0; minute == b.minute+1 {
			b.before = b.calls
		}
		b.minute, b.calls = minute, 0
	}
	b.calls++
	return b, int64(max(b.calls, b.before))
}

// known returns the openings of the stage, newest first.
func (st *stage) known() []opening { return st.openings[:min(int(st.opened), len(st.openings))] }

// answered records that a request with the opening of this number was answered, unless the opening is forgotten.
func (st *stage) answered(number uint32) {
	for i := range st.known() {
		if b := &st.openings[i]; b.number == number {
			b.done = true
		}
	}
}

// find returns the opening of a request and its index; nil and the number of openings if there is none.
func (st *stage) find(now *promptcache.Prompt, instance uint32) (int, *opening) {
	known := st.known()
	for i := range known {
		if tools, system := known[i].like(now, instance); tools && system {
			return i, &known[i]
		}
	}
	return len(known), nil
}
