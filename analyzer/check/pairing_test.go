package check

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// history builds a request from a line per message: "u", "s", "a" with the ids it calls, "t" with the id it answers.
func history(messages ...[]string) *facts.Request {
	r := &facts.Request{MessagesKind: facts.Array}
	for _, m := range messages {
		switch m[0] {
		case "u":
			r.Messages = append(r.Messages, facts.Message{Role: facts.RoleUser})
		case "s":
			r.Messages = append(r.Messages, facts.Message{Role: facts.RoleSystem})
		case "a":
			msg := facts.Message{Role: facts.RoleAssistant}
			for _, id := range m[1:] {
				msg.Calls = append(msg.Calls, facts.Call{ID: []byte(id)})
			}
			r.Messages = append(r.Messages, msg)
		case "t":
			r.Messages = append(r.Messages, facts.Message{Role: facts.RoleTool, Replies: []facts.Reply{{ID: []byte(m[1]), IDKind: facts.String}}})
		}
	}
	return r
}

func TestPairing(t *testing.T) {
	u, a, re := []string{"u"}, func(ids ...string) []string { return append([]string{"a"}, ids...) }, func(id string) []string { return []string{"t", id} }
	status := map[ReplyStatus]string{
		ReplyMatched: "ok", ReplyDuplicate: "duplicate", ReplyLate: "late", ReplyUnknown: "unknown",
		ReplyWithoutID: "no id", ReplyBeforeCall: "before call", ReplyOrphan: "orphan",
	}
	p := NewChecker(nil).pairing // one for all: what a request leaves behind must not show in the next
	f := func(r *facts.Request, replies string, unanswered int) {
		t.Helper()
		p.reset(r, wire.Target{Dialect: wire.OpenAIChat}, nil)
		got := ""
		for i := range p.Replies {
			got += fmt.Sprintf("%d %s, ", p.Replies[i].Message, status[p.Replies[i].Status])
		}
		must.Agree(t, cmp.Diff(replies, got), "reply statuses differ")
		n := 0
		for range p.Unanswered() {
			n++
		}
		must.Equal(t, n, unanswered, "calls unanswered")
	}
	// nothing to pair
	f(history(), "", 0)
	f(history(u, a()), "", 0)
	// parallel calls, answered in another order
	f(history(u, a("1", "2"), re("2"), re("1")), "2 ok, 3 ok, ", 0)
	// an id that is used again in a later turn belongs to the later call, even if the earlier one is open
	f(history(u, a("1"), re("1"), u, a("1"), re("1")), "2 ok, 5 ok, ", 0)
	f(history(u, a("1"), u, a("1"), re("1")), "4 ok, ", 1)
	// a missing id takes precedence
	f(history(u, re("")), "1 no id, ", 0)
	f(history(u, a("1"), re("")), "2 no id, ", 1)
	// calls and replies without ids are malformed, but none is missing
	f(history(u, a("", ""), re(""), re("")), "2 no id, 3 no id, ", 0)
	f(history(u, a("", ""), re("")), "2 no id, ", 1)
	f(history(u, a("", "1"), re("1"), re("")), "2 ok, 3 no id, ", 0)
	// a reply to an earlier turn is late, not unknown, also inside an open group
	f(history(u, a("1"), re("1"), a("2"), re("1"), re("2")), "2 ok, 4 late, 5 ok, ", 0)
	f(history(u, a("1"), u, re("1")), "3 late, ", 1)
	// an id that is called only later is before its call, also inside an open group
	f(history(u, a("1"), re("2"), a("2"), re("2")), "2 before call, 4 ok, ", 1)
	f(history(u, a("1"), re("1"), re("2"), a("2")), "2 ok, 3 before call, ", 1)
	f(history(u, a("1"), re("2"), re("1"), a("2"), u), "2 before call, 3 ok, ", 1)
	f(history(u, re("2"), a("2"), re("2")), "1 before call, 3 ok, ", 0)
	// orphans
	f(history(re("1")), "0 orphan, ", 0)
	f(history(u, a(), re("1"), re("2")), "2 orphan, 3 orphan, ", 0)
	// duplicates
	f(history(u, a("1"), re("1"), re("1"), re("1")), "2 ok, 3 duplicate, 4 duplicate, ", 0)
	// one id twice in a message: one reply answers both, as no server can distinguish them
	f(history(u, a("1", "1"), re("1")), "2 ok, ", 0)
	f(history(u, a("1", "1")), "", 2)
}

// Pairing 10,000 calls and replies allocates nothing, and takes far less time than comparing each with each.
func TestPairingIsLinear(t *testing.T) {
	build := func(n int, call, reply func(i int) string) *facts.Request {
		as := []string{"a"}
		for i := range n {
			as = append(as, call(i))
		}
		ms := [][]string{{"u"}, as}
		for i := range n {
			ms = append(ms, []string{"t", reply(i)})
		}
		return history(ms...)
	}
	num := func(i int) string { return fmt.Sprintf("call_%d", i) }
	for name, f := range map[string][2]func(int) string{
		"paired":      {num, num},
		"backwards":   {num, func(i int) string { return num(9999 - i) }},
		"one id":      {func(int) string { return "x" }, func(int) string { return "x" }},
		"without ids": {func(int) string { return "" }, func(int) string { return "" }},
		"unknown":     {num, func(i int) string { return "no" + num(i) }},
	} {
		r := build(10_000, f[0], f[1])
		p := NewChecker(nil).pairing
		p.reset(r, wire.Target{Dialect: wire.OpenAIChat}, nil)
		must.Equal(t, testing.AllocsPerRun(3, func() { p.reset(r, wire.Target{Dialect: wire.OpenAIChat}, nil) }), 0, "%s: allocations", name)
		start := slowtest.Processor(t)
		p.reset(r, wire.Target{Dialect: wire.OpenAIChat}, nil)
		if d := slowtest.Processor(t) - start; d > 200*time.Millisecond {
			t.Errorf("%s: 10,000 calls and replies took %v", name, d)
		}
	}
}

// One request cannot fill memory with findings.
func TestReportIsBounded(t *testing.T) {
	rule := &Rule{ID: "r", Severity: func(wire.Target) Severity { return Style }, Run: func(p *Pass) {
		for i := range 5 * maxPerRule {
			p.Report(i, nil, nil, "", "x")
		}
	}}
	must.Equal(t, len(NewChecker([]*Rule{rule, rule}).Check(history(), wire.Target{}, nil)), 2*maxPerRule, "violations")
}
