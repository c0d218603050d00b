package analyzer

import (
	"math/bits"
	"slices"
	"time"
	"weak"

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
	tools    map[uint64]*promptcache.ToolSet     // by hash of the captured bytes
	joined   map[uint32]struct{}                 // accounts that share a cache, see Call.Accounts
	texts    map[uint64]weak.Pointer[systemText] // by hash of the system prompt; those that a stage has
	buf      []byte
	call     promptcache.Call // of the newest request
}

func newPrompts(cfg *Config, strings interner) *prompts {
	return &prompts{
		stages:   expiry.NewGenerations[uint64, *stage](min(cfg.SessionLookback, stageTime), maxStages),
		policies: map[uint64]*promptcache.Policy{}, tools: map[uint64]*promptcache.ToolSet{}, joined: map[uint32]struct{}{}, texts: map[uint64]weak.Pointer[systemText]{}, strings: strings,
	}
}

// request compares the request of p with the earlier ones. It must be called once for each request, after the setup was read.
func (m *prompts) request(s *step, p *pending, q *facts.Request, body []byte, minSeq uint64) {
	e, turn, c := &p.row, p.turn, &m.call
	*c = promptcache.Call{Earlier: turn.Earlier(), Lead: turn.Lead(), Marks: c.Marks[:0]}
	setup, now := q.Setup(), &c.Now
	m.marks(c, q)
	said := q.Cache()
	c.Policy = m.policy(p.target, said.Marked())
	if !c.Policy.Known() || len(said.Content) > 0 || said.OnlyMarks {
		return // a cache that the request names is not a prefix of it, and what is cached of one that rules out all but its marks is not known
	}
	shape := e.Capture == event.CaptureShape
	if shape {
		now.Flags |= promptcache.Shaped
	}
	now.Sent, now.Target, now.Version = promptcache.Clip(m.at(s, e).Unix()), m.target(e), uint16(xxh3.HashString(e.Labels.ServiceVersion))
	m.account(c, p.account)
	if len(c.Policy.Parameters) > 0 || c.Policy.KeySeparates {
		now.Parameters = c.Policy.Digest(setup.Parameters, body, said.Key)
	}
	now.Tools = m.toolSet(q, body, shape)
	m.system(c, q, turn, setup.System.Of(body), body, shape)
	if c.Policy.Images && slices.ContainsFunc(q.Messages, func(m facts.Message) bool { return m.Parts&facts.PartImage != 0 }) {
		now.Flags |= promptcache.HasImages
	}
	size, messages := turn.BodySize(q.Stored)
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
			m.buf = slices.Grow(m.buf[:0], len(system))
			system = session.Unmark(m.buf, system)
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

// account sets the account of the request, and compares it with that of the earlier one.
func (m *prompts) account(c *promptcache.Call, account uint16) {
	now, before := &c.Now, &c.Earlier.Prompt
	now.Account = account
	if now.Flags |= before.Flags & promptcache.Switched; before.Apart(now) {
		now.Flags |= promptcache.Switched
		_, c.Joined = m.joined[c.Accounts()]
	}
}

func (*prompts) target(e *Exchange) uint16 {
	return uint16(xxh3.HashStringSeed(e.Server, xxh3.HashString(e.Model)))
}

// policy returns the policy of a target.
func (m *prompts) policy(t wire.Target, marked bool) *promptcache.Policy {
	k := xxh3.HashStringSeed(t.Model, xxh3.HashString(string(t.Variant)))
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
func (m *prompts) toolSet(q *facts.Request, body []byte, shape bool) *promptcache.ToolSet {
	setup := q.Setup()
	if setup.Tools == (facts.Span{}) {
		return nil
	}
	set, ok := m.tools[setup.ToolsHash]
	if !ok {
		declared := func(yield func(string, []byte) bool) {
			for _, at := range setup.Each {
				tool := at.Of(body)
				if !yield(m.strings.name([]byte(facts.ToolName(tool))), session.Unmark(nil, tool)) {
					return
				}
			}
		}
		stable := func(tool []byte) []byte {
			m.buf = appendStable(m.buf[:0], tool, shape)
			return m.buf
		}
		set = put(m.tools, setup.ToolsHash, promptcache.NewToolSet(declared, func(tool []byte) int { return int(textSize(tool, shape)) }, stable))
	}
	return set
}

// marks sets the marks of the request, and what else it says about the cache.
func (m *prompts) marks(c *promptcache.Call, q *facts.Request) {
	now, cache := &c.Now, q.Cache()
	if cache.Marked() {
		now.Flags |= promptcache.Marked
	}
	for _, mark := range cache.Marks {
		at := 0
		if mark.Place == facts.InMessages && mark.Index >= c.Lead {
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

// answered sets what became of the cache in the completed call p, and remembers its prompt.
func (m *prompts) answered(p *pending) {
	e, x := &p.row, &p.cache
	known := x.Policy != nil && accepted(e) && e.CacheReported && e.InputTokens > 0
	if known && measures(p) {
		if x.Settle(&e.Cache, e.InputTokens, e.CachedTokens); x.Joins(&e.Cache, e.CachedTokens) {
			put(m.joined, x.Switch, struct{}{})
		}
	} else {
		e.Cache = promptcache.Verdict{}
	}
	if !known {
		return
	}
	if p.stage != nil {
		p.stage.answered(p.opening)
	}
	if p.turn.Newest() {
		took := uint16(min(max(e.Duration/time.Second, 0), 1<<16-1))
		p.turn.Prompt().Answer(x, e.InputTokens, e.CachedTokens+e.CacheWritten, took)
	}
}
