package session

import "slices"

// A shortfall is an answer of which the agent replied to the first k calls only.
type shortfall struct {
	answer   uint64 // sequence of the answer's request
	k        int
	missing  uint64 // hash of the function of the first call without a reply
	repeated bool   // one of the replies is to the same function
	asked    bool   // the user wrote next, and may have interrupted the tools
}

const (
	maxParallel   = 64 // conversations of a service whose parallel calls are remembered, the newest ones
	maxShortfalls = 16 // per conversation, the newest ones
	constantIn    = 3  // conversations in which a limit of k calls must show
)

// parallel records that a request replies to n calls of one answer with several calls.
func (s *Store) parallel(c *conversation, n int) {
	c.most = max(c.most, n)
	list := s.byParallel[c.key.service]
	if c.forgotten || slices.Contains(list, c) {
		return
	}
	if len(list) == maxParallel {
		list = append(list[:0], list[1:]...)
	}
	s.byParallel[c.key.service] = append(list, c)
}

// forgetParallel removes c from the conversations whose parallel calls are remembered.
func (s *Store) forgetParallel(c *conversation) {
	list, ok := s.byParallel[c.key.service]
	if !ok {
		return
	}
	list = slices.DeleteFunc(list, func(o *conversation) bool { return o == c })
	if s.byParallel[c.key.service] = list; len(list) == 0 {
		delete(s.byParallel, c.key.service)
	}
}

// shortfall records that only the first k calls of a have replies.
func (s *Store) shortfall(c *conversation, a *answer, k int, asked bool) {
	if slices.ContainsFunc(c.shortfalls, func(o shortfall) bool { return o.answer == a.seq }) {
		return
	}
	if len(c.shortfalls) == maxShortfalls {
		c.shortfalls = append(c.shortfalls[:0], c.shortfalls[1:]...)
	}
	c.shortfalls = append(c.shortfalls, shortfall{a.seq, k, hashName(a.calls[k].Name), sameTool(a.calls[:k], a.calls[k]), asked})
	s.account(c)
}

// limited reports whether the agent of c runs only the first k of several calls: that shows in several conversations of its
// service, none of which has more replies to one answer. The decision depends on these conversations.
func (s *Store) limited(c *conversation, k int) bool {
	list := s.byParallel[c.key.service]
	var with []*conversation
	missing, tools, alone := uint64(0), false, false // tools: the call without a reply is not always to one tool that the agent never runs
	for _, o := range slices.Backward(list) {
		if o.most > k {
			c.made.Lower(o.minSeq())
			return false
		}
		for _, f := range o.shortfalls {
			if f.k != k {
				continue
			}
			tools = tools || f.repeated || missing != 0 && missing != f.missing || o.ran(f.missing)
			alone = alone || !f.asked
			missing = f.missing
			if !slices.Contains(with, o) {
				with = append(with, o)
			}
		}
	}
	if len(with) < constantIn || !tools || !alone {
		return false
	}
	for _, o := range with {
		c.made.Lower(o.minSeq())
	}
	return true
}

// ran reports whether one of the newest calls of c to a function has a reply.
func (c *conversation) ran(name uint64) bool {
	for i := len(c.order) - 1; i >= max(0, len(c.order)-maxNewest); i-- {
		if call := c.calls[c.order[i]]; call != nil && call.AnsweredBy != "" && hashName(call.Name) == name {
			return true
		}
	}
	return false
}
