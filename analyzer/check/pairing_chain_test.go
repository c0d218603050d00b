package check

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

var responses = wire.Target{Dialect: wire.OpenAIResponses, Variant: wire.OpenAIResponses.Variants()[0]}

// chainOf returns the answer with calls of these ids.
func chainOf(ids ...string) *Chain {
	c := &Chain{}
	for _, id := range ids {
		c.Calls = append(c.Calls, facts.ResponseCall{ID: id})
	}
	return c
}

func TestChain(t *testing.T) {
	p := NewChecker(nil).pairing // one for all: what a request leaves behind must not show in the next
	f := func(chain *Chain, replies []string, unanswered []string, orphans int) {
		t.Helper()
		r := history()
		for _, id := range replies {
			r.Messages = append(r.Messages, history([]string{"t", id}).Messages...)
		}
		r.Stored = true
		p.reset(r, responses, chain)
		var got []string
		for _, c := range p.Chained {
			got = append(got, c.ID)
		}
		must.Agree(t, cmp.Diff(unanswered, got), "unanswered calls differ")
		n := 0
		for range p.With(ReplyOrphan) {
			n++
		}
		must.Equal(t, n, orphans, "orphans")
	}
	f(chainOf("1", "2", "3"), []string{"3", "1"}, []string{"2"}, 0)
	f(chainOf("1"), []string{"1", "1"}, nil, 0)
	f(chainOf("1"), []string{"2"}, []string{"1"}, 1)
	f(chainOf(), []string{"1"}, nil, 1)
	f(chainOf("1", "1"), nil, []string{"1", "1"}, 0)
	f(chainOf("1", "1"), []string{"1"}, nil, 0)
	f(chainOf("", "1"), []string{"", "1"}, nil, 0)
}

// The most calls of an answer and the most replies of a request: 4,096 and 65,536, none of which answers a call.
func BenchmarkChain(b *testing.B) {
	chain, r := &Chain{}, history()
	for i := range 4096 {
		chain.Calls = append(chain.Calls, facts.ResponseCall{ID: fmt.Sprintf("call_%08d", i)})
	}
	for i := range 65_536 {
		r.Messages = append(r.Messages, history([]string{"t", fmt.Sprintf("none_%08d", i)}).Messages...)
	}
	p := NewChecker(nil).pairing
	b.ReportAllocs()
	for b.Loop() {
		p.reset(r, responses, chain)
	}
}
