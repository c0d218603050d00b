package session

import "slices"

// A shortfall is an answer of which the agent replied to the first k calls only.
type shortfall struct {
	answer  uint64 // sequence of the answer's request
	k       int
	missing uint64 // hash of the function of the first call without a reply
	several bool   // the calls without a reply are to several functions, or to one that the agent ran for this answer
	asked   bool   // the user wrote next, and may have interrupted the tools
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
	several := slices.ContainsFunc(a.calls[k:], func(o *Call) bool { return o.Name != a.calls[k].Name || sameTool(a.calls[:k], o) })
	c.shortfalls = append(c.shortfalls, shortfall{a.seq, k, hashName(a.calls[k].Name), several, asked})
	s.account(c)
}

// limited returns the confidence that the agent of c runs only the first k of several calls; "" if that is unknown. It shows in
// several conversations of its service, none of which has more replies to one answer. If the calls without a reply are always
// to one function that the agent never ran, it may not have that function. The decision depends on these conversations.
func (s *Store) limited(c *conversation, k int) string {
	list := s.byParallel[c.key.service]
	var with []*conversation
	missing, several, alone := uint64(0), false, false
	for _, o := range slices.Backward(list) {
		if o.most > k {
			c.made.Lower(o.minSeq())
			return ""
		}
		for _, f := range o.shortfalls {
			if f.k != k {
				continue
			}
			several = several || f.several || missing != 0 && missing != f.missing || o.ran(f.missing)
			alone = alone || !f.asked
			missing = f.missing
			if !slices.Contains(with, o) {
				with = append(with, o)
			}
		}
	}
	if len(with) < constantIn || !alone {
		return ""
	}
	for _, o := range with {
		c.made.Lower(o.minSeq())
	}
	if several {
		return High
	}
	for _, o := range list {
		if o.skipped(missing, k) {
			c.made.Lower(o.minSeq())
			return ""
		}
	}
	return Medium
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

// skipped reports whether one of the newest calls of c to a function is among the first k of its answer and has no reply, so
// that a limit of k calls does not explain why.
func (c *conversation) skipped(name uint64, k int) bool {
	for i := len(c.order) - 1; i >= max(0, len(c.order)-maxNewest); i-- {
		if call := c.calls[c.order[i]]; call != nil && call.State == Missing && call.Position < k && hashName(call.Name) == name {
			return true
		}
	}
	return false
}
