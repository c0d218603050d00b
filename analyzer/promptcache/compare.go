package promptcache

// Estimated is the flag of a prompt whose tokens are not known. Its Input is an estimate, for Call.Compare only.
const Estimated Flags = 1 << 15

// bytesPerToken is the size of a token that an estimate assumes.
const bytesPerToken = 4

// Estimate sets the tokens of p from its size.
func (p *Prompt) Estimate() {
	p.Input, p.Held = max(p.Bytes/bytesPerToken, 1), 0
	p.Flags |= Estimated
}

// Compare returns why the request cannot read all that it shares with the earlier one of its history, as far as the requests alone show
// it, and the size of what it shares and cannot read. There is no reason if it can, if the history went another way, or if the
// earlier prompt is too short for the cache.
func (c *Call) Compare() (v Verdict, lost int) {
	p := &c.Earlier.Prompt
	if !c.Policy.Known() || !p.Known() || c.Earlier.Change == Parted || int64(p.Bytes/bytesPerToken) < c.Policy.Minimum {
		return v, 0
	}
	b := c.difference()
	if b.reason == "" {
		return v, 0
	}
	if lost = c.kept() - c.before(b); lost <= 0 {
		return v, 0
	}
	return Verdict{Reason: b.reason, Element: b.element, Detail: b.detail, Confidence: Likely}, lost
}

// before returns the size of what comes before the difference b.
func (c *Call) before(b broken) int {
	from := Tools
	switch b.reason {
	case SystemChanged:
		from = System
	case MessageEdited, HistoryCompacted:
		return c.Now.Tools.size() + int(c.Now.SystemSize) + c.Earlier.SharedBytes
	case ParameterChanged:
		from, _ = c.Policy.Parameter(b.element)
	}
	switch from {
	case System:
		return c.Now.Tools.size()
	case Messages:
		return c.Now.Tools.size() + int(c.Now.SystemSize)
	default:
		return 0
	}
}
