package analyzer

import (
	"bytes"
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
	maxSystem   = 16 << 10  // longer system prompts are compared by their hash
	stageTime   = time.Hour // for which stages are remembered; no provider is known to hold a prefix longer than that
	fewFirsts   = 3         // fewer conversations do not show what differs in each
)

// prompts determines what became of the provider's cache, see package promptcache. The newest request of a history is in its
// conversation; what requests of other conversations have in common is remembered here, per stage.
type prompts struct {
	stages   *expiry.Generations[uint64, *stage]
	policies map[policyKey]*promptcache.Policy
	tools    map[uint64]*promptcache.ToolSet // by hash of the captured bytes
	buf      []byte
}

type policyKey struct {
	target wire.Target
	marked bool
}

// A stage is what is remembered of the prompts of a stage at a host with a model, in a generation.
type stage struct {
	openings   [maxOpenings]opening // of prompts, newest first
	firsts     uint16               // first requests of conversations
	toolsSame  uint16               // of these, those whose tools another conversation had
	systemSame uint16               // those whose system prompt another conversation had
	text       []byte               // the newest system prompt that was captured in full
	textHash   uint64
	minSeq     uint64
}

// An opening is what the prompts of several conversations can share.
type opening struct {
	tools      *promptcache.ToolSet
	system     uint64
	systemSize uint32
	sent       uint32
	done       bool // a request with it was answered
	known      bool
	flags      promptcache.Flags
	minute     uint32 // Unix time
	calls      uint32 // in this minute
	before     uint32 // in the minute before
}

func newPrompts(cfg *Config) *prompts {
	return &prompts{
		stages:   expiry.NewGenerations[uint64, *stage](min(cfg.SessionLookback, stageTime), maxStages),
		policies: map[policyKey]*promptcache.Policy{}, tools: map[uint64]*promptcache.ToolSet{},
	}
}

// request compares the request of p with the earlier ones. It must be called once for each request, after the setup was read.
func (m *prompts) request(s *step, p *pending, q *facts.Request, body []byte, minSeq uint64) {
	e, turn, c := &p.row, p.turn, &p.cache
	c.Earlier, c.Lead = *turn.Earlier(), turn.Lead()
	setup := q.Setup()
	now := &c.Now
	*now = promptcache.Prompt{Sent: promptcache.Clip(m.at(s, e).Unix()), Target: target(e)}
	shape := e.Capture == event.CaptureShape
	if shape {
		now.Flags |= promptcache.Shaped
	}
	m.marks(c, q, turn, setup, body)
	c.Policy = m.policy(p.target, now.Flags&promptcache.Marked != 0)
	if !c.Policy.Known() {
		return
	}
	now.Parameters = c.Policy.Digest(func(name string) []byte {
		for i := range setup.Parameters {
			if setup.Parameters[i].Name == name {
				return setup.Parameters[i].Value.Of(body)
			}
		}
		return nil
	}, nil)
	now.Tools = m.toolSet(q, setup.Tools.Of(body), shape)
	system := session.Unmark(setup.System.Of(body))
	now.System, now.SystemSize = xxh3.Hash(system), uint32(len(system))
	if shape {
		now.SystemSize = uint32(promptcache.Size(system))
	}
	for i := range c.Lead {
		l := &q.Messages[i]
		now.System = bits.RotateLeft64(now.System, 1) ^ turn.Unmarked(i)
		if text := body[l.Start:l.End]; shape {
			now.SystemSize += uint32(promptcache.Size(text))
		} else {
			now.SystemSize += uint32(len(text))
		}
	}
	size, messages := turn.BodySize()
	if q.Stored && c.Earlier.Prompt.Known() {
		size += c.Earlier.SharedBytes
	}
	now.Messages = uint16(min(messages, 1<<16-1))
	now.Bytes = promptcache.Clip(size + int(now.SystemSize))
	if now.Tools != nil {
		now.Bytes += uint32(now.Tools.Size)
	}
	m.stage(s, p, q, body, minSeq)
}

// at returns the time of the request of e, as in session.Request.Seen.
func (m *prompts) at(s *step, e *Exchange) time.Time {
	if e.Origin == event.OriginImport {
		return e.StartedAt
	}
	return s.now
}

func target(e *Exchange) uint32 {
	return uint32(xxh3.HashStringSeed(e.Server, xxh3.HashString(e.Model)))
}

// policy returns the policy of a target.
func (m *prompts) policy(t wire.Target, marked bool) *promptcache.Policy {
	k := policyKey{t, marked}
	p, ok := m.policies[k]
	if !ok {
		p = put(m.policies, k, promptcache.Of(t, marked))
	}
	return p
}

// toolSet returns what is remembered of the tools of a request; nil if there are none.
func (m *prompts) toolSet(q *facts.Request, tools []byte, shape bool) *promptcache.ToolSet {
	if len(tools) == 0 {
		return nil
	}
	key := xxh3.Hash(tools)
	set, ok := m.tools[key]
	if !ok {
		unmarked := session.Unmark(tools)
		set = &promptcache.ToolSet{Hash: xxh3.Hash(unmarked), Size: len(unmarked)}
		set.Stable = set.Hash
		if shape {
			set.Size = promptcache.Size(unmarked)
			m.buf = appendStable(m.buf[:0], unmarked, true)
			set.Stable = xxh3.Hash(m.buf)
		}
		put(m.tools, key, set)
	}
	return set
}

var cacheControl = []byte(`"cache_control"`)

// marks sets the marks of the request.
func (m *prompts) marks(c *promptcache.Call, q *facts.Request, turn *session.Turn, setup *facts.Setup, body []byte) {
	blocks := 0
	c.Marks = c.Marks[:0]
	for i := range q.Messages {
		r := &q.Messages[i]
		if i >= c.Lead {
			blocks += max(r.PartCount, 1)
		}
		if r.Fields&facts.FieldCacheControl == 0 {
			continue
		}
		c.Marks = append(c.Marks, blocks)
		c.Now.Flags |= promptcache.Marked
		if i < c.Lead {
			c.Now.Flags |= promptcache.MarkedSetup
		}
	}
	if bytes.Contains(setup.System.Of(body), cacheControl) || bytes.Contains(setup.Tools.Of(body), cacheControl) {
		c.Marks = append(c.Marks, 0)
		c.Now.Flags |= promptcache.Marked | promptcache.MarkedSetup
	}
	if len(c.Marks) > 0 {
		c.Now.Marks = uint32(slices.Max(c.Marks))
	}
}

// stageKey returns the key of the stage of p.
func stageKey(p *pending) uint64 {
	e := &p.row
	h := xxh3.HashString(p.scope())
	h = xxh3.HashStringSeed(e.Labels.StageOrAgent(), h)
	return h ^ uint64(target(e))<<32
}

// stage compares the request with those of other conversations of its stage, and remembers it.
func (m *prompts) stage(s *step, p *pending, q *facts.Request, body []byte, minSeq uint64) {
	c, now, k := &p.cache, &p.cache.Now, stageKey(p)
	minSeq = min(minSeq, p.turn.MinSeq())
	st := m.newest(k, minSeq, s.now)
	first := !c.Earlier.Prompt.Known() && p.turn.Branch == "" && !q.Stored && p.turn.First()
	var firsts, toolsSame, systemSame int
	var sameTools, sameSystem bool
	var text []byte
	for o := range m.stages.All(k) {
		firsts, toolsSame, systemSame = firsts+int(o.firsts), toolsSame+int(o.toolsSame), systemSame+int(o.systemSame)
		if o.text != nil {
			text = o.text
		}
		for i := range o.openings {
			b := &o.openings[i]
			if !b.known {
				break
			}
			tools, system := b.tools.Same(now.Tools), b.system == now.System
			sameTools, sameSystem = sameTools || tools, sameSystem || system
			if tools && system {
				c.Start.Known, c.Start.Done = true, c.Start.Done || b.done
				c.Start.Sent, c.Start.Flags = max(c.Start.Sent, b.sent), c.Start.Flags|b.flags
			}
		}
	}
	if first {
		if firsts >= fewFirsts && !c.Start.Known {
			m.varies(c, st, firsts, toolsSame, systemSame, text, q, body)
		}
		st.firsts++
		if sameTools {
			st.toolsSame++
		}
		if sameSystem {
			st.systemSame++
		}
	}
	c.Rate = st.see(now)
}

// varies finds what differs in each conversation of the stage.
func (m *prompts) varies(c *promptcache.Call, st *stage, firsts, toolsSame, systemSame int, text []byte, q *facts.Request, body []byte) {
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

// see records a request, and returns how many with the same opening there were within a minute.
func (st *stage) see(now *promptcache.Prompt) int64 {
	i := slices.IndexFunc(st.openings[:], func(b opening) bool {
		return b.known && b.system == now.System && b.tools.Same(now.Tools)
	})
	if i < 0 {
		i = len(st.openings) - 1
		st.openings[i] = opening{tools: now.Tools, system: now.System, systemSize: now.SystemSize, known: true}
	}
	b := st.openings[i]
	copy(st.openings[1:i+1], st.openings[:i])
	b.sent, b.flags = max(b.sent, now.Sent), b.flags|now.Flags
	if minute := now.Sent / 60; minute != b.minute {
		if b.before = 0; minute == b.minute+1 {
			b.before = b.calls
		}
		b.minute, b.calls = minute, 0
	}
	b.calls++
	st.openings[0] = b
	return int64(max(b.calls, b.before))
}

// answered sets what became of the cache in the completed call p, and remembers its prompt.
func (m *prompts) answered(s *step, p *pending) {
	e, c := &p.row, &p.cache
	if c.Policy == nil || !accepted(e) || !e.CacheReported || e.InputTokens <= 0 {
		return
	}
	if measures(e) {
		e.Cache = c.Verdict(promptcache.Answer{Input: e.InputTokens, Cached: e.CachedTokens})
	}
	now := &c.Now
	now.Input, now.Held = promptcache.Clip(e.InputTokens), promptcache.Clip(e.CachedTokens+e.CacheWritten)
	now.Took = uint16(min(max(e.Duration/time.Second, 0), 1<<16-1))
	p.turn.Cached(now)
	for st := range m.stages.All(stageKey(p)) {
		for i := range st.openings {
			if b := &st.openings[i]; b.known && b.system == now.System && b.tools.Same(now.Tools) {
				b.done = true
			}
		}
	}
}
