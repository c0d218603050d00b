package promptcache

// Estimated is the flag of a prompt whose tokens are not known, but estimated from its size.
const Estimated Flags = 1 << 15

// Estimate returns about how many tokens a prompt of this size has.
func Estimate(size uint32) int64 { return max(int64(size)/4, 1) }

// Lost returns why the request cannot read all that it shares with the earlier one of its history, as far as the requests alone show it,
// and the size of what it shares and cannot read. There is no reason if it can, if the histories part, or if the earlier prompt is
// too short for the cache. It must be called after Compare.
func (c *Call) Lost() (v Verdict, lost int) {
	p, b := &c.Earlier.Prompt, c.Broken
	if b.reason == "" || c.Earlier.Change == Parted || Estimate(p.Bytes) < c.Policy.Minimum {
		return v, 0
	}
	if lost = c.kept() - c.before(b); lost <= 0 {
		return v, 0
	}
	b.confidence = Likely
	b.set(&v)
	return v, lost
}

// before returns the size of what comes before the difference b.
func (c *Call) before(b broken) int {
	from := Tools
	switch b.reason {
	case SystemChanged:
		from = System
	case MessageEdited, HistoryCompacted:
		return c.Now.Tools.Bytes() + int(c.Now.SystemSize) + c.Earlier.SharedBytes
	case ParameterChanged:
		from, _ = c.Policy.Parameter(b.element)
	}
	switch from {
	case System:
		return c.Now.Tools.Bytes()
	case Messages:
		return c.Now.Tools.Bytes() + int(c.Now.SystemSize)
	default:
		return 0
	}
}
