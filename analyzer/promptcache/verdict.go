package promptcache

import (
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/zeebo/xxh3"
)

// A Change is what became of the messages of an earlier prompt.
type Change uint8

// The changes.
const (
	Continued Change = iota // all of them are there
	Edited                  // one of them changed, and those after it are there
	Compacted               // some are gone or much shorter, and those after them are there
	Parted                  // the history went another way: nothing of what follows is there
)

// An Earlier is an earlier prompt of the same history, and what a request has in common with it.
type Earlier struct {
	Prompt      Prompt // its Input is 0 if there is none
	Loose       bool   // the prompts are shapes of two processes, whose texts cannot be compared
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
}

// A Call is what is known about a request when it is made, to tell later what became of the cache.
type Call struct {
	Policy  *Policy
	Now     Prompt // the request; its tokens are not known yet
	Marks   []int  // blocks up to each mark
	Lead    int    // leading system messages
	Earlier Earlier
	Start   Start
	Detail  string // class of a changed system prompt
	Rate    int64  // calls a minute with the same tools and system prompt
}

// Digest returns the hash of parameters that are part of the prefix by policy: a byte for each of the first six, and two for key, the
// prompt_cache_key. value returns the raw value of a parameter, which is empty if the request has none.
func (p *Policy) Digest(value func(name string) []byte, key []byte) (d uint64) {
	for i := range p.Parameters[:min(len(p.Parameters), maxDigest)] {
		if v := value(p.Parameters[i].Name); len(v) > 0 {
			d |= (xxh3.Hash(v)%255 + 1) << (8 * i)
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

// broken is the first difference between two prompts, in the order of the provider.
type broken struct{ reason, element, detail, confidence string }

// difference returns the first difference between the request and the earlier one; an empty reason if there is none.
func (c *Call) difference() broken {
	p, q := &c.Earlier.Prompt, &c.Now
	if p.Target != q.Target {
		return broken{ModelSwitched, "model", "", Certain}
	}
	if b := c.toolsDiffer(); b.reason != "" {
		return b
	}
	changed := bits.TrailingZeros64(p.Parameters^q.Parameters) / 8
	from := func(e Element) bool {
		return changed < min(len(c.Policy.Parameters), maxDigest) && c.Policy.Parameters[changed].From == e
	}
	if c.Policy.KeySeparates && changed < 8 && p.Parameters>>keyShift != q.Parameters>>keyShift {
		return broken{ParameterChanged, "prompt_cache_key", "", Certain}
	}
	if from(Tools) {
		return broken{ParameterChanged, c.Policy.Parameters[changed].Name, "", Certain}
	}
	if !c.systemSame() {
		return broken{SystemChanged, "system", c.Detail, Certain}
	}
	if from(System) || from(Messages) {
		return broken{ParameterChanged, c.Policy.Parameters[changed].Name, "", Certain}
	}
	element := "messages[" + strconv.Itoa(c.Lead+c.Earlier.Shared) + "]"
	switch c.Earlier.Change {
	case Edited:
		if c.Earlier.Loose {
			return broken{MessageEdited, element, "", Likely}
		}
		return broken{MessageEdited, element, "", Certain}
	case Compacted:
		return broken{HistoryCompacted, element, "", Certain}
	default:
		return broken{}
	}
}

func (c *Call) systemSame() bool {
	p, q := &c.Earlier.Prompt, &c.Now
	return p.System == q.System || c.Earlier.Loose && p.SystemSize == q.SystemSize
}

func (c *Call) toolsSame() bool { return c.Now.Tools.same(c.Earlier.Prompt.Tools, c.Earlier.Loose) }

func (t *ToolSet) same(o *ToolSet, loose bool) bool {
	return t.Same(o) || loose && t != nil && o != nil && t.Stable == o.Stable
}

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

// Difference returns the first tool of to that is not at its place in from, as an element with its name, and whether only
// the order of the tools differs.
func Difference(from, to *ToolSet) (element, name string, reordered bool) {
	if from == nil || to == nil {
		return "tools", "", false
	}
	reordered = from.Set == to.Set && len(from.Each) == len(to.Each)
	for i := range max(len(from.Each), len(to.Each)) {
		if i < len(from.Each) && i < len(to.Each) && from.Each[i] == to.Each[i] {
			continue
		}
		name = to.name(i)
		if i < len(from.Each) && !slices.Contains(to.Each, from.Each[i]) && !slices.Contains(to.Names, from.name(i)) {
			name = from.name(i) // it was removed
		}
		return "tools[" + strconv.Itoa(i) + "]", name, reordered
	}
	return "tools", "", reordered
}

func (t *ToolSet) name(i int) string {
	if i < len(t.Names) {
		return t.Names[i]
	}
	return ""
}

// kept returns the size of what the request still has of the earlier prompt.
func (c *Call) kept() (n int) {
	p, q := &c.Earlier.Prompt, &c.Now
	if !c.toolsSame() {
		n += p.Tools.common(q.Tools)
	} else {
		n += p.Tools.size()
	}
	if least, most := min(p.SystemSize, q.SystemSize), max(p.SystemSize, q.SystemSize); c.systemSame() || least > most/2 {
		n += int(least)
	}
	return n + c.Earlier.SharedBytes + c.Earlier.EqualBytes
}

// common returns the size of the tools that both have, if all are of one size.
func (t *ToolSet) common(o *ToolSet) int {
	if t == nil || o == nil || len(t.Each) == 0 {
		return 0
	}
	if t.Set == o.Set {
		return min(t.Size, o.Size)
	}
	n := 0
	for _, h := range t.Each {
		if slices.Contains(o.Each, h) {
			n++
		}
	}
	return t.Size * n / len(t.Each)
}

// An Answer is what an answer says about the cache.
type Answer struct{ Input, Cached int64 }

// Verdict returns what became of the cache in the call, as far as its answer tells.
func (c *Call) Verdict(a Answer) Verdict {
	v := Verdict{Reusable: a.Cached}
	if !c.Policy.Known() {
		return v
	}
	if c.Earlier.Prompt.Known() {
		if held, ok := c.ofHistory(a, &v); ok || held {
			return v
		}
	}
	if v.Missed == 0 {
		c.ofStage(a, &v)
	}
	return v
}

// margin is the number of tokens at the end of a prompt that a provider may add, such as the beginning of the answer.
const margin = 8

// ofHistory compares the call with the earlier request of its history. held reports whether the provider could still have it,
// ok whether the comparison has a result.
func (c *Call) ofHistory(a Answer, v *Verdict) (held, ok bool) {
	p, e, pol := &c.Earlier.Prompt, &c.Earlier, c.Policy
	b := c.difference()
	marks := pol.Ends&(EndUnits|EndPrompts) == 0
	base := int64(p.Input)
	if marks && c.Now.Flags&Marked != 0 {
		base = int64(p.Held)
	}
	exact := b.reason == "" && e.Change == Continued
	switch {
	case e.Change == Parted && b.reason == "" && pol.Ends&EndUnits == 0:
		return false, false // what ends inside an earlier prompt may not have been held
	case !exact:
		if kept := int64(c.kept()); p.Bytes > 0 && kept < int64(p.Bytes) {
			base = base * kept / int64(p.Bytes)
		}
	case pol.Ends&EndUnits != 0:
		base -= margin
	}
	reusable := min(pol.Reusable(base), pol.Reusable(a.Input))
	short := reusable == 0 && a.Input < pol.Minimum && exact && (!marks || c.Now.Flags&Marked != 0)
	if short {
		reusable = min(base-base%max(pol.Unit, 1), a.Input)
	}
	missed := reusable - a.Cached
	least := max(pol.Unit, 16, reusable/20) // fewer tokens say nothing
	if !exact {
		least = max(pol.Unit, 64, reusable/8)
	}
	if b.reason == "" && e.Change == Parted {
		least = max(2*pol.Unit, reusable/4)
	}
	if missed < least {
		if exact {
			v.Reusable = max(reusable, a.Cached)
		}
		return true, false
	}
	reason := c.unexplained(p, b, short, marks)
	if reason.reason == "" {
		return true, true
	}
	v.Reusable, v.Missed = reusable, missed
	v.Reason, v.Element, v.Detail, v.Confidence = reason.reason, reason.element, reason.detail, reason.confidence
	return true, true
}

// unexplained returns why tokens of p were not read, where b is the first difference; none if nothing is to be told.
func (c *Call) unexplained(p *Prompt, b broken, short, marks bool) broken {
	pol, gap := c.Policy, c.Now.Sent-min(p.Sent, c.Now.Sent)
	ttl := pol.TTL
	if p.Flags&Longer != 0 && pol.Longer > 0 {
		ttl = pol.Longer
	}
	switch {
	case ttl > 0 && seconds(gap) > ttl:
		return broken{Idle, "", "", Certain}
	case b.reason != "":
		return b
	case marks && c.Now.Flags&Marked == 0:
		return broken{MarkMissing, "", "", Certain}
	case short:
		return broken{TooShort, "", "", Certain}
	case marks && c.Now.Marks < p.Marks:
		return broken{MarkMoved, "", "", Certain}
	case marks && pol.Lookback > 0 && !c.found(int(p.Marks)):
		return broken{BeyondLookback, "", "", Certain}
	case pol.Settle > 0 && seconds(gap) < pol.Settle+seconds(uint32(p.Took)):
		return broken{}
	case ttl == 0 && seconds(gap) > 5*time.Minute:
		return broken{Idle, "", "", Likely}
	case pol.KeyRoutes && c.Now.Flags&Keyed == 0 && pol.Rate > 0 && c.Rate > pol.Rate:
		return broken{RoutingMissing, "prompt_cache_key", "", Likely}
	}
	return broken{Evicted, "", "", Likely}
}

func seconds(n uint32) time.Duration { return time.Duration(n) * time.Second }

// found reports whether a mark of the request finds what was cached up to the earlier mark, n blocks from the start.
func (c *Call) found(n int) bool {
	return slices.ContainsFunc(c.Marks, func(m int) bool { return m >= n && m-n < c.Policy.Lookback })
}

// ofStage compares the first call of a history with others of the stage.
func (c *Call) ofStage(a Answer, v *Verdict) {
	s, q, pol := &c.Start, &c.Now, c.Policy
	marks := pol.Ends&(EndUnits|EndPrompts) == 0
	tokens := func(size int) int64 {
		if q.Bytes == 0 {
			return 0
		}
		return pol.Reusable(min(a.Input*int64(size)/int64(q.Bytes), a.Input) - margin)
	}
	var b broken
	var reusable int64
	switch {
	case s.Varies:
		reusable = tokens(s.Equal)
		b = broken{Varies, s.Element, s.Detail, Likely}
	case !s.Known:
		return
	default:
		reusable = tokens(q.Tools.size() + int(q.SystemSize))
		switch {
		case marks && q.Flags&Marked == 0:
			b = broken{MarkMissing, "", "", Certain}
		case pol.Ends&EndUnits == 0 && (!marks || q.Flags&s.Flags&MarkedSetup == 0):
			return
		case !s.Done:
			b = broken{Parallel, "", "", Certain}
		default:
			b = c.unexplained(&Prompt{Sent: s.Sent, Flags: s.Flags, Marks: 0}, broken{}, false, false)
		}
	}
	missed := reusable - a.Cached
	if b.reason == "" || missed < max(2*pol.Unit, 64, reusable/4) {
		return
	}
	*v = Verdict{Reusable: reusable, Missed: missed, Reason: b.reason, Element: b.element, Detail: b.detail, Confidence: b.confidence}
}
