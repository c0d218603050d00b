package session_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// openMany returns a store with conversations of 30 messages: a system message, then repeatedly a user's turn, an answer with
// two calls, their replies and an answer with text.
func openMany(b *testing.B, n int, given bool) *session.Store {
	b.Helper()
	store := session.New(session.Config{Lookback: 1 << 62, Bytes: 1 << 40})
	var r facts.Request
	var a facts.Response
	seq := uint64(0)
	for c := range n {
		id := ""
		if given {
			id = fmt.Sprintf("conversation-%d", c)
		}
		messages := []facts.Message{{Role: facts.RoleSystem, Hash: 1, Kind: facts.Object}}
		ask := func() *session.Turn {
			seq++
			r = facts.Request{MessagesKind: facts.Array, Messages: messages}
			return store.Request(session.Request{
				Order: seq, MinSeq: seq, Time: start, Seen: start, Service: "service", Conversation: id, Exchange: fmt.Sprintf("018f0000-0000-7000-8000-%012d", seq),
				Instance: "i", Target: wire.Target{Dialect: wire.OpenAIChat}, Facts: &r,
			})
		}
		for len(messages) < 30 {
			messages = append(messages, facts.Message{Role: facts.RoleUser, Hash: seq + 1<<40})
			t := ask()
			seq++
			one, two := fmt.Sprintf("call_%024d", seq), fmt.Sprintf("call_%023d0", seq)
			a = facts.Response{Content: facts.Null, Calls: []facts.ResponseCall{
				{ID: one, Name: "read_file", Arguments: "{}", ArgsKind: facts.String}, {ID: two, Name: "read_file", Arguments: "{}", ArgsKind: facts.String},
			}}
			store.Answer(t, session.Answer{Facts: &a, Order: seq, MinSeq: seq, At: start, Context: new([128]byte)})
			messages = append(messages,
				facts.Message{Role: facts.RoleAssistant, Hash: seq + 2<<40, Calls: []facts.Call{{ID: []byte(one)}, {ID: []byte(two)}}},
				facts.Message{Role: facts.RoleTool, Hash: seq + 3<<40, Replies: []facts.Reply{{ID: []byte(one)}}},
				facts.Message{Role: facts.RoleTool, Hash: seq + 4<<40, Replies: []facts.Reply{{ID: []byte(two)}}})
			t = ask()
			a = facts.Response{Content: facts.String, ContentBytes: 100, ContentHash: seq + 5<<40}
			store.Answer(t, session.Answer{Facts: &a, Order: seq, MinSeq: seq, At: start})
			messages = append(messages, facts.Message{Role: facts.RoleAssistant, Hash: seq + 6<<40, ContentHash: seq + 5<<40, ContentBytes: 100, Content: facts.String})
		}
		ask()
	}
	return store
}

// BenchmarkOpenConversations reports the memory of 100,000 open conversations of 30 messages, and the store's estimate of it.
func BenchmarkOpenConversations(b *testing.B) {
	for _, given := range []bool{true, false} {
		b.Run(fmt.Sprintf("given=%v", given), func(b *testing.B) {
			const n = 100_000
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				store := openMany(b, n, given)
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
				b.ReportMetric(float64(store.Bytes())/(1<<20), "MiB-accounted")
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/conversation")
				runtime.KeepAlive(store)
			}
		})
	}
}
