package reduce

import (
	"maps"
	"slices"

	"github.com/llmtap/llmtap/analyzer/session"
)

// Bounds of Reduce.
const (
	maxChecks = 2000
	maxBytes  = 64 << 20
	maxRounds = 3
)

// A phase removes one kind of parts. A part has a name, which it shares with its copies.
type phase struct {
	parts   func(c *Case) []string
	without func(c *Case, names map[string]bool) *Case
	keep    []string // root causes of errors that depend on the number of these parts
}

var phases = []phase{
	{(*Case).exchanges, (*Case).withoutExchanges, []string{session.Truncated}},
	{(*Case).messages, (*Case).withoutMessages, []string{session.Truncated}},
	{(*Case).calls, (*Case).withoutCalls, []string{session.Truncated, session.CallsTruncated, session.SkippedOrInterrupted}},
	{(*Case).elements, (*Case).withoutElements, []string{session.Truncated, session.CallsTruncated, session.SkippedOrInterrupted}},
	{(*Case).empty, (*Case).withoutEmpty, nil},
	{(*Case).tools, (*Case).withoutTools, nil},
	{(*Case).parameters, (*Case).withoutParameters, nil},
	{(*Case).texts, (*Case).shortened, nil},
}

// Reduce returns the shortest conversation found whose last request still has the fault. The answer with the call that the
// fault concerns is kept.
func Reduce(c *Case, f *Fault) *Case {
	r := &reducer{fault: f, called: c.answers(f.ToolCallID), checks: maxChecks, bytes: maxBytes}
	for range maxRounds {
		removed := false
		for _, p := range phases {
			if slices.Contains(p.keep, f.RootCause) || slices.Contains(p.keep, f.Stored) {
				continue
			}
			var shorter bool
			c, shorter = r.reduce(c, p)
			removed = removed || shorter
		}
		if !removed {
			break
		}
	}
	return c
}

// A reducer looks for a fault in candidates until its budget is spent.
type reducer struct {
	fault         *Fault
	called        bool // an answer of the original case makes the call
	checks, bytes int  // left
}

// reduce removes parts of one kind: all, then halves, then smaller and smaller groups.
func (r *reducer) reduce(c *Case, p phase) (shortest *Case, shorter bool) {
	names := p.parts(c)
	for size := len(names); size > 0; size /= 2 {
		for start := 0; start < len(names); {
			group := names[start:min(start+size, len(names))]
			candidate := p.without(c, set(group))
			if !r.has(candidate) {
				start += size
				continue
			}
			c, shorter = candidate, true
			names = slices.Delete(slices.Clone(names), start, start+len(group))
		}
	}
	return c, shorter
}

// has reports whether the candidate has the fault; false if the budget is spent.
func (r *reducer) has(c *Case) bool {
	if r.checks <= 0 || r.bytes <= 0 || r.called && !c.answers(r.fault.ToolCallID) {
		return false
	}
	r.checks--
	found, size, err := c.Faults()
	r.bytes -= size
	return err == nil && slices.ContainsFunc(found, func(f Fault) bool { return f.same(r.fault) })
}

func set(names []string) map[string]bool {
	s := make(map[string]bool, len(names))
	for _, n := range names {
		s[n] = true
	}
	return s
}

// distinct returns the distinct names in order.
func distinct(names []string) (all []string) {
	seen := map[string]bool{}
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			all = append(all, n)
		}
	}
	return all
}

// answers reports whether an answer makes the call with this id.
func (c *Case) answers(id string) bool {
	for i := range c.Steps {
		for _, m := range c.Steps[i].Answer {
			if id != "" && slices.Contains(callIDs(m), id) {
				return true
			}
		}
	}
	return false
}

// key is the member of a request with the messages.
func (c *Case) key() string { return c.Target.Dialect.Descriptor().Messages }

func (c *Case) history(s *Step) []any {
	all, _ := s.Request[c.key()].([]any)
	return all
}

// edit returns a copy of c with edited requests and answers.
func (c *Case) edit(request func(map[string]any), answer func([]any) []any) *Case {
	edited := &Case{Target: c.Target, Steps: slices.Clone(c.Steps)}
	for i := range edited.Steps {
		s := &edited.Steps[i]
		s.Request = maps.Clone(s.Request)
		request(s.Request)
		if answer != nil && len(s.Answer) > 0 {
			s.Answer = answer(s.Answer)
		}
	}
	return edited
}

// editMessages edits the messages of requests and, if answers is set, of answers.
func (c *Case) editMessages(answers bool, f func([]any) []any) *Case {
	key := c.key()
	edit := func(r map[string]any) {
		if all, ok := r[key].([]any); ok {
			r[key] = f(all)
		}
	}
	if !answers {
		return c.edit(edit, nil)
	}
	return c.edit(edit, f)
}

func (c *Case) exchanges() (names []string) {
	for i := range c.Steps[:len(c.Steps)-1] {
		names = append(names, c.Steps[i].Exchange)
	}
	return names
}

func (c *Case) withoutExchanges(names map[string]bool) *Case {
	return &Case{Target: c.Target, Steps: slices.DeleteFunc(slices.Clone(c.Steps), func(s Step) bool { return names[s.Exchange] })}
}

func (c *Case) messages() (names []string) {
	for i := range c.Steps {
		for _, m := range c.history(&c.Steps[i]) {
			names = append(names, string(Encode(m)))
		}
	}
	return distinct(names)
}

func (c *Case) withoutMessages(names map[string]bool) *Case {
	return c.editMessages(false, func(all []any) []any {
		return slices.DeleteFunc(slices.Clone(all), func(m any) bool { return names[string(Encode(m))] })
	})
}

func (c *Case) calls() (names []string) {
	for i := range c.Steps {
		for _, m := range slices.Concat(c.Steps[i].Answer, c.history(&c.Steps[i])) {
			names = append(names, callIDs(m)...)
		}
	}
	return distinct(names)
}

func (c *Case) withoutCalls(names map[string]bool) *Case {
	return c.editMessages(true, func(all []any) []any {
		return without(all, func(m map[string]any) bool { return names[callID(m)] })
	})
}

func (c *Case) elements() (names []string) {
	for i := range c.Steps {
		for _, message := range slices.Concat(c.Steps[i].Answer, c.history(&c.Steps[i])) {
			m, _ := message.(map[string]any)
			for _, list := range lists {
				all, _ := m[list].([]any)
				for _, e := range all {
					names = append(names, string(Encode(e)))
				}
			}
		}
	}
	return distinct(names)
}

func (c *Case) withoutElements(names map[string]bool) *Case {
	return c.editMessages(true, func(all []any) []any {
		return without(all, func(m map[string]any) bool { return names[string(Encode(m))] })
	})
}

// empty returns the members of messages that are null or empty lists.
func (c *Case) empty() (names []string) {
	for i := range c.Steps {
		for _, v := range slices.Concat(c.Steps[i].Answer, c.history(&c.Steps[i])) {
			m, _ := v.(map[string]any)
			for _, key := range slices.Sorted(maps.Keys(m)) {
				if isEmpty(m[key]) && key != "content" && key != "arguments" {
					names = append(names, key)
				}
			}
		}
	}
	return distinct(names)
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	}
	return false
}

func (c *Case) withoutEmpty(names map[string]bool) *Case {
	return c.editMessages(true, func(all []any) []any {
		copied := make([]any, len(all))
		for i, v := range all {
			copied[i] = v
			if m, ok := v.(map[string]any); ok {
				m = maps.Clone(m)
				maps.DeleteFunc(m, func(key string, v any) bool { return names[key] && isEmpty(v) })
				copied[i] = m
			}
		}
		return copied
	})
}

func (c *Case) tools() (names []string) {
	for i := range c.Steps {
		all, _ := c.Steps[i].Request["tools"].([]any)
		for _, tool := range all {
			names = append(names, string(Encode(tool)))
		}
	}
	return distinct(names)
}

func (c *Case) withoutTools(names map[string]bool) *Case {
	return c.edit(func(r map[string]any) {
		if all, ok := r["tools"].([]any); ok {
			r["tools"] = slices.DeleteFunc(slices.Clone(all), func(tool any) bool { return names[string(Encode(tool))] })
		}
	}, nil)
}

func (c *Case) parameters() (names []string) {
	for i := range c.Steps {
		names = append(names, slices.Sorted(maps.Keys(c.Steps[i].Request))...)
	}
	return slices.DeleteFunc(distinct(names), func(name string) bool { return name == c.key() })
}

func (c *Case) withoutParameters(names map[string]bool) *Case {
	return c.edit(func(r map[string]any) { maps.DeleteFunc(r, func(key string, _ any) bool { return names[key] }) }, nil)
}

func (c *Case) texts() (names []string) {
	for i := range c.Steps {
		for _, v := range []any{c.Steps[i].Request, c.Steps[i].Answer} {
			long(v, func(s string) { names = append(names, s) })
		}
	}
	return distinct(names)
}

func (c *Case) shortened(names map[string]bool) *Case {
	return c.edit(func(r map[string]any) {
		for key, v := range r {
			if !protocol[key] {
				r[key] = shorten(v, names)
			}
		}
	}, func(all []any) []any { return shorten(all, names).([]any) })
}
