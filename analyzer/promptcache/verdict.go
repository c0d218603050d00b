package promptcache

import (
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// A Change is what became of the messages of an earlier prompt.
type Change uint8

// The changes.
const (
	Continued Change = iota // all of them are there
	Edited                  // one of them changed, and those after it are there
	Compacted               // some are gone or much shorter, and those after them are there
	Parted                  // the history went another way: nothing of what follows is there
	Replaced                // a shorter history of the same conversation, with nothing of the earlier one
)

// An Earlier is an earlier prompt of the same history, and what a request has in common with it.
type Earlier struct {
	Prompt      Prompt // its Input is 0 if there is none
	Loose       bool   // the prompts are shapes of two processes, whose texts cannot be compared, nor the keys and schemas of parameters
	Change      Change
	Shared      int // messages at the start that both have, after the leading system messages
	SharedBytes int // size of these
	EqualBytes  int // size of the messages after the change that both have, and of what a changed one kept at most
}

// A Start is what is known of other requests of the stage when the first request of a history is made.
type Start struct {
	Known bool // another request had the same tools and the same system prompt
	Sent  uint32
	Done  bool // one of them was answered before
	Flags Flags

	// Of a stage whose conversations have not begun alike so far.
	Varies  bool
	Element string
	Detail  string
	Equal   int // size of what is equal in each of them
	Behind  int // of these, what is known to be behind the difference

	Apart     bool // the newest of them had another account, or another prompt_cache_key where these have caches of their own
	Whole     bool // another request had the same messages too
	Forgotten bool // the history has answers, and no request before is known: it was idle for longer than conversations are remembered
}

// A Call is what is known about a request when it is made.
type Call struct {
	Policy  *Policy
	Now     Prompt // the request; its tokens are not known yet
	Marks   []int  // blocks up to each mark
	Lead    int    // leading system messages
	Earlier *Earlier
	Start   Start
	Detail  string // class of a changed system prompt
	Rate    int64  // calls a minute with the same tools and system prompt
	Joined  bool   // the accounts of the request and of the earlier one are known to share a cache
	Broken  broken // see Compare
}

// Digest returns the hash of the parameters that are part of the prefix by policy: a byte for each of the first six, and two for
// key, the prompt_cache_key.
func (p *Policy) Digest(parameters []facts.Parameter, body, key []byte) (d uint64) {
	for _, have := range parameters {
		for i := range p.Parameters[:min(len(p.Parameters), maxDigest)] {
			if p.Parameters[i].Name == have.Name {
				d |= (xxh3.Hash(have.Value.Of(body))%255 + 1) << (8 * i)
			}
		}
	}
	if len(key) > 0 {
		d |= (xxh3.Hash(key)%(1<<16-1) + 1) << keyShift
	}
	return d
}

const (
	maxDigest = 6
	keyShift  = 8 * maxDigest
)

// CacheKey returns the hash of the prompt_cache_key; 0 if there is none, or the policy does not know it.
func (p *Prompt) CacheKey() uint16 { return uint16(p.Parameters >> keyShift) }

// broken is the first difference between two prompts, in the order of the provider.
type broken struct{ reason, element, detail, confidence string }

// Compare finds the first difference between the request and the earlier one of its history, and reports whether there is one.
func (c *Call) Compare() bool {
	c.Broken = broken{}
	if c.Earlier.Prompt.Known() {
		c.Broken = c.difference()
	}
	return c.Broken.reason != ""
}

// difference returns the first difference between the request and the earlier one; an empty reason if there is none.
func (c *Call) difference() broken {
	p, q := &c.Earlier.Prompt, &c.Now
	if p.Target != q.Target {
		return broken{ModelSwitched, "model", "", Certain}
	}
	if b := c.toolsDiffer(); b.reason != "" {
		return b
	}
	changed := 8 // none
	if !c.Earlier.Loose {
		changed = bits.TrailingZeros64(p.Parameters^q.Parameters) / 8
	}
	from := func(e Element) bool {
		return changed < min(len(c.Policy.Parameters), maxDigest) && c.Policy.Parameters[changed].From == e
	}
	if c.Policy.KeySeparates && changed < 8 && p.CacheKey() != q.CacheKey() {
		return broken{ParameterChanged, "prompt_cache_key", "", Certain}
	}
	if from(Tools) {
		return broken{ParameterChanged, c.Policy.Parameters[changed].Name, "", Certain}
	}
	if !c.SystemSame() {
		return broken{SystemChanged, "system", c.Detail, Certain}
	}
	if c.Policy.Images && p.Flags&HasImages == 0 && q.Flags&HasImages != 0 {
		return broken{ParameterChanged, "images", "", Certain}
	}
	if from(System) || from(Messages) {
		return broken{ParameterChanged, c.Policy.Parameters[changed].Name, "", Certain}
	}
	b := broken{MessageEdited, "", "", Certain}
	switch c.Earlier.Change {
	case Edited:
		if c.Earlier.Loose {
			b.confidence = Likely
		}
	case Compacted, Replaced:
		b.reason = HistoryCompacted
	default:
		return broken{}
	}
	b.element = "messages[" + strconv.Itoa(c.Lead+c.Earlier.Shared) + "]"
	return b
}

// SystemSame reports whether the system prompt is that of the earlier request.
func (c *Call) SystemSame() bool {
	p, q := &c.Earlier.Prompt, &c.Now
	return p.System == q.System || c.Earlier.Loose && p.SystemSize == q.SystemSize
}

func (c *Call) toolsSame() bool { return c.Now.Tools.Alike(c.Earlier.Prompt.Tools, c.Earlier.Loose) }

// toolsDiffer returns how the tools of the request differ from the earlier ones.
func (c *Call) toolsDiffer() broken {
	if c.toolsSame() {
		return broken{}
	}
	element, name, reordered := Difference(c.Earlier.Prompt.Tools, c.Now.Tools)
	if reordered {
		return broken{ToolsReordered, element, name, Certain}
	}
	return broken{ToolsChanged, element, name, Certain}
}

// kept returns the size of what the request still has of the earlier prompt.
func (c *Call) kept() (n int) {
	p, q := &c.Earlier.Prompt, &c.Now
	if !c.toolsSame() {
		n += p.Tools.Common(q.Tools)
	} else {
		n += p.Tools.Bytes()
	}
	if least, most := min(p.SystemSize, q.SystemSize), max(p.SystemSize, q.SystemSize); c.SystemSame() || least > most/2 {
		n += int(least)
	}
	return n + c.Earlier.SharedBytes + c.Earlier.EqualBytes
}

// An Expected is what is kept of a call until its answer, to tell what became of the cache.
type Expected struct {
	Policy   *Policy // nil if no verdict is possible
	Bytes    uint32  // size of the prompt
	Sent     uint32
	Marks    uint16 // blocks up to the last mark
	Messages uint16
	Flags    Flags
	Switch   uint32 // the accounts of the request and of the earlier one, if they are the first two of the history; 0 if not
	of       basis
}

// Joins reports whether a call whose verdict is v shows that the accounts of Switch share a cache: the second one read all that the first
// one had left, and had not been used in this history before.
func (x *Expected) Joins(v *Verdict, cached int64) bool {
	return x.Switch != 0 && x.of == ofWhole && v.Reason == "" && v.Reusable > 0 && cached >= v.Reusable
}

// basis is what a call is compared with.
type basis uint8

const (
	ofNothing basis = iota
	ofWhole         // the whole earlier prompt of its history
	ofPart          // what it has in common with that prompt, although something changed
	ofStart         // the first part of that prompt, where the histories part
	ofStage         // other requests of the stage; the size is known, and not the tokens
	ofVaried        // the same, and a good part of what they share is behind what differs
)

// Expect compares the request with earlier ones. It returns what the answer is needed for, and a verdict in which Reusable is the
// number of tokens, or bytes, of the prefix, and the reason is right if they are missed.
func (c *Call) Expect() (x Expected, v Verdict) {
	now := &c.Now
	x = Expected{Policy: c.Policy, Bytes: now.Bytes, Marks: now.Marks, Sent: now.Sent, Messages: now.Messages, Flags: now.Flags}
	if p := &c.Earlier.Prompt; p.Known() && p.Apart(now) && p.Flags&Switched == 0 {
		x.Switch = c.Accounts()
	}
	if !c.Earlier.Prompt.Known() || !c.ofHistory(&x, &v) {
		c.ofStage(&x, &v)
	}
	return x, v
}

// Accounts returns the accounts of the request and of the earlier one in one number, which is the same in both orders.
func (c *Call) Accounts() uint32 {
	p, q := c.Earlier.Prompt.Account, c.Now.Account
	return uint32(min(p, q))<<16 | uint32(max(p, q))
}

// marksOnly reports whether the provider caches only what is marked.
func (p *Policy) marksOnly() bool { return p.Ends&(EndUnits|EndPrompts) == 0 }

// margin is the number of tokens at the end of a prompt that a provider may add, such as the beginning of the answer.
const margin = 8

// ofHistory compares the call with the earlier request of its history, and reports whether the provider could still have it.
func (c *Call) ofHistory(x *Expected, v *Verdict) bool {
	p, pol := &c.Earlier.Prompt, c.Policy
	b := c.Broken
	base := int64(p.Input)
	if pol.marksOnly() && c.Now.Flags&Marked != 0 {
		base = int64(p.Held)
	}
	switch x.of = ofPart; {
	case b.reason != "" && c.Earlier.Change == Parted, b.reason != HistoryCompacted && c.Earlier.Change == Replaced:
		x.of = ofNothing
		return false // another agent, which shares the first messages
	case b.reason == "" && c.Earlier.Change == Continued:
		if x.of = ofWhole; pol.Ends&EndUnits != 0 {
			base -= margin
		}
	case b.reason == "" && pol.Ends&EndUnits == 0:
		x.of = ofNothing
		return false // what ends inside an earlier prompt may not have been held
	case b.reason == "":
		x.of = ofStart
	}
	if x.of != ofWhole && c.Earlier.Change != Replaced {
		if kept := int64(c.kept()); kept < int64(p.Bytes) {
			base = share(base, kept, int64(p.Bytes))
		}
	}
	v.Reusable = max(base, 0)
	c.unexplained(p, b).set(v)
	return true
}

// ttl returns how long a prefix of a request can be expected to be held.
func (p *Policy) ttl(f Flags) time.Duration {
	if f&Longer != 0 && p.Longer > 0 {
		return p.Longer
	}
	return p.TTL
}

// set sets the reason of v.
func (b broken) set(v *Verdict) {
	v.Reason, v.Element, v.Detail, v.Confidence = b.reason, b.element, b.detail, b.confidence
}

// unexplained returns why tokens of p are not read, if they are not, where b is the first difference; none if nothing is to be told.
func (c *Call) unexplained(p *Prompt, b broken) broken {
	pol, gap := c.Policy, seconds(c.Now.Sent-min(p.Sent, c.Now.Sent))
	ttl := pol.ttl(p.Flags)
	marks := pol.marksOnly()
	switch {
	case ttl > 0 && gap > ttl:
		return broken{Idle, "", "", Certain}
	case b.reason != "" && b.reason != HistoryCompacted && p.Known() && p.Version != c.Now.Version:
		return broken{VersionChanged, b.element, b.detail, b.confidence} // once for each conversation of a deployment
	case b.reason != "":
		return b
	case marks && c.Now.Flags&Marked == 0:
		return broken{MarkMissing, "", "", Certain}
	case marks && c.Now.Marks < p.Marks:
		return broken{MarkMoved, "", "", Certain}
	case marks && pol.Lookback > 0 && !c.found(int(p.Marks)):
		return broken{BeyondLookback, "", "", Certain}
	case pol.Settle > 0 && gap < pol.Settle+seconds(uint32(p.Took)):
		return broken{}
	case ttl == 0 && gap > 5*time.Minute:
		return broken{Idle, "", "", Likely}
	case pol.KeyRoutes && c.Now.Flags&Keyed == 0 && pol.Rate > 0 && c.Rate > pol.Rate:
		return broken{RoutingMissing, "prompt_cache_key", "", Likely}
	case p.Apart(&c.Now) && !c.Joined:
		return broken{AccountChanged, "", "", Likely} // all providers share the cache among the keys of an organization
	}
	return broken{Evicted, "", "", Likely}
}

func seconds(n uint32) time.Duration { return time.Duration(n) * time.Second }

// found reports whether a mark of the request finds what was cached up to the earlier mark, n blocks from the start.
func (c *Call) found(n int) bool {
	return slices.ContainsFunc(c.Marks, func(m int) bool { return m >= n && m-n < c.Policy.Lookback })
}

// ofStage compares the first call of a history with others of the stage.
func (c *Call) ofStage(x *Expected, v *Verdict) {
	s, q, pol := &c.Start, &c.Now, c.Policy
	marks := pol.marksOnly()
	size := q.Tools.Bytes() + int(q.SystemSize)
	var b broken
	switch {
	case s.Varies && s.Apart:
		return
	case s.Varies:
		if pol.Ends&EndUnits == 0 && pol.Ends != EndPrompts && q.Flags&MarkedSetup == 0 {
			return
		}
		size = s.Equal
		if b = c.unexplained(&Prompt{Sent: s.Sent, Flags: s.Flags}, broken{Varies, s.Element, s.Detail, Likely}); b.reason != Varies {
			return
		}
	case s.Forgotten && (!marks || q.Flags&Marked != 0):
		size, b = s.Equal, broken{Idle, "", "", Likely}
	case !s.Known:
		return
	case marks && q.Flags&Marked == 0:
		b = broken{MarkMissing, "", "", Certain}
	case s.Apart:
		return
	case s.Whole && pol.Ends&EndPrompts != 0:
		if size = int(q.Bytes); s.Done {
			return
		}
		b = broken{Parallel, "", "", Certain}
	case pol.Ends&EndUnits == 0 && (!marks || q.Flags&s.Flags&MarkedSetup == 0):
		return
	case !s.Done:
		b = broken{Parallel, "", "", Certain}
	default:
		b = c.unexplained(&Prompt{Sent: s.Sent, Flags: s.Flags}, broken{})
	}
	if x.of, v.Reusable = ofStage, int64(size); s.Varies && size <= 8*s.Behind {
		x.of = ofVaried
	}
	b.set(v)
}

// Settle turns v, the verdict of Expect, into that of a call whose answer reports that the provider read cached of input tokens.
func (x *Expected) Settle(v *Verdict, input, cached int64) {
	pol, expected := x.Policy, *v
	*v = Verdict{Reusable: cached}
	if x.of == ofNothing {
		return
	}
	base := expected.Reusable
	if x.of >= ofStage {
		base = share(input, base, max(int64(x.Bytes), 1)) - margin
	}
	base = min(base, input)
	reusable := pol.Reusable(base)
	if reusable == 0 && x.of == ofWhole && input < pol.Minimum && (!pol.marksOnly() || x.Flags&Marked != 0) {
		reusable = base - base%max(pol.Unit, 1)
		if expected.Reason != Idle {
			broken{TooShort, "", "", Certain}.set(&expected)
		}
	}
	missed := reusable - cached
	if missed < x.least(reusable) || expected.Reason == "" {
		if x.of == ofWhole && expected.Reason != "" {
			v.Reusable = max(reusable, cached)
		}
		return
	}
	*v = expected
	v.Reusable, v.Missed = reusable, missed
}

// share returns part/whole of n, whose product with part may not be an int64 if a body lies about its size or its tokens.
func share(n, part, whole int64) int64 { return int64(float64(n) * float64(part) / float64(whole)) }

// least returns how many of the reusable tokens must be missed, because fewer say nothing: an estimate is not exact.
func (x *Expected) least(reusable int64) int64 {
	unit := x.Policy.Unit
	switch x.of {
	case ofWhole:
		return max(unit, 16, reusable/20)
	case ofPart:
		return max(unit, 64, reusable/20)
	case ofVaried:
		return max(2*unit, 64, reusable/8)
	default:
		return max(2*unit, 64, reusable/4)
	}
}
