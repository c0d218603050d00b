package session_test

import (
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// turn adds a Responses request that names an answer and contains replies to these calls.
func turn(store *session.Store, seq uint64, conversation, previous string, replies ...string) *session.Turn {
	r := &facts.Request{MessagesKind: facts.Array, PreviousResponse: []byte(previous), Stored: previous != ""}
	r.Messages = append(r.Messages, facts.Message{Role: facts.RoleUser, Item: facts.ItemMessage, Hash: seq})
	for _, id := range replies {
		r.Messages = append(r.Messages, facts.Message{Role: facts.RoleTool, Item: facts.ItemReply, Replies: []facts.Reply{{ID: []byte(id), IDKind: facts.String}}})
	}
	at := time.Unix(int64(seq), 0)
	return store.Request(session.Request{
		Order: seq, MinSeq: seq, Time: at, Seen: at, Service: "s", Conversation: conversation, Exchange: "x", Target: wire.Target{Dialect: wire.OpenAIResponses}, Facts: r,
	})
}

func TestPreviousResponse(t *testing.T) {
	store := session.New(config())
	answer := func(q *session.Turn, seq uint64, id string, calls ...string) []*session.Call {
		r := &facts.Response{ID: id, Content: facts.Null}
		for _, c := range calls {
			r.Calls = append(r.Calls, facts.ResponseCall{ID: c, Name: "f"})
		}
		return store.Answer(q, session.Answer{Facts: r, Order: seq, MinSeq: seq, At: time.Unix(int64(seq), 0)})
	}
	first := turn(store, 1, "", "")
	if _, known := first.Chained(); known {
		t.Error("a request that names no answer has a chain")
	}
	asked := answer(first, 2, "resp_1", "call_1", "call_2")

	// The next request names the answer: it is the same conversation, and the calls without a reply are missing.
	second := turn(store, 3, "", "resp_1", "call_1")
	calls, known := second.Chained()
	if !known || len(calls) != 2 || calls[0].ID != "call_1" || calls[1].ID != "call_2" {
		t.Errorf("calls %v, known %v", calls, known)
	}
	must.Equal(t, second.Conversation, first.Conversation, "conversation")
	if asked[0].State != session.Answered || asked[1].State != session.Missing {
		t.Errorf("calls are %s and %s", asked[0].State, asked[1].State)
	}
	must.Equal(t, second.RootCause(session.Defect{Rule: "orphan_tool_reply", Message: 1, ToolCallID: "call_1"}).ID, session.NoHistory, "root cause from a history that is not known")

	// An answer that was not seen, or belongs to another service, is unknown.
	if _, known := turn(store, 4, "", "resp_9", "call_1").Chained(); known {
		t.Error("an unseen answer is known")
	}
	// So is one with calls of a kind that is not paired: a reply may answer those.
	other := &facts.Response{ID: "resp_8", Content: facts.Null, OtherCalls: true}
	store.Answer(turn(store, 4, "", ""), session.Answer{Facts: other, Order: 4, MinSeq: 4, At: time.Unix(4, 0)})
	if _, known := turn(store, 4, "", "resp_8", "call_shell").Chained(); known {
		t.Error("all calls of an answer with others are known")
	}
	// Two requests may build on one answer.
	if _, known := turn(store, 5, "given", "resp_1").Chained(); !known {
		t.Error("a resumed conversation does not know the answer")
	}
	// A forgotten answer is unknown.
	store.Expire(time.Unix(1_000_000, 0))
	if _, known := turn(store, 1_000_001, "", "resp_1").Chained(); known || store.Len() != 1 {
		t.Errorf("known %v after it was forgotten, %d conversations", known, store.Len())
	}
}

func TestSignedCopy(t *testing.T) {
	store := session.New(config())
	ask := func(seq uint64, messages ...facts.Message) *session.Turn {
		for i := range messages {
			messages[i].Hash = uint64(i + 1)
		}
		at := time.Unix(int64(seq), 0)
		r := &facts.Request{MessagesKind: facts.Array, Messages: messages}
		return store.Request(session.Request{Order: seq, MinSeq: seq, Time: at, Seen: at, Service: "s", Conversation: "c", Exchange: "x", Target: wire.Target{Dialect: wire.Anthropic}, Facts: r})
	}
	user := facts.Message{Role: facts.RoleUser}
	first := ask(1, user)
	if _, at := first.Signed(); at != -1 {
		t.Errorf("copy at %d of no answer", at)
	}
	store.Answer(first, session.Answer{
		Facts: &facts.Response{Content: facts.Null, Calls: []facts.ResponseCall{{ID: "toolu_1"}}, Signed: []facts.Signed{{Hash: 7}}}, Order: 2, MinSeq: 2, At: time.Unix(2, 0),
	})
	call := facts.Message{Role: facts.RoleAssistant, Calls: []facts.Call{{ID: []byte("toolu_1")}}, Signed: 8}
	signed, at := ask(3, user, call, facts.Message{Role: facts.RoleUser, Replies: []facts.Reply{{ID: []byte("toolu_1")}}}).Signed()
	if at != 1 || len(signed) != 1 || signed[0].Hash != 7 {
		t.Errorf("signed %v, copy at %d", signed, at)
	}
}

// The answers of a message thread are named like those of previous_response_id; other answers of the dialect are not.
func TestMessageThread(t *testing.T) {
	store := session.New(config())
	ask := func(seq uint64, previous string, threaded bool) *session.Turn {
		at := time.Unix(int64(seq), 0)
		r := &facts.Request{MessagesKind: facts.Array, PreviousResponse: []byte(previous), Stored: previous != "", Threaded: threaded}
		r.Messages = []facts.Message{{Role: facts.RoleUser, Hash: seq}}
		if previous != "" {
			r.Messages[0].Replies = []facts.Reply{{ID: []byte("toolu_1"), IDKind: facts.String}}
		}
		return store.Request(session.Request{Order: seq, MinSeq: seq, Time: at, Seen: at, Service: "s", Exchange: "x", Target: wire.Target{Dialect: wire.Anthropic}, Facts: r})
	}
	answer := func(q *session.Turn, seq uint64, id string) []*session.Call {
		r := &facts.Response{ID: id, Content: facts.Null, Calls: []facts.ResponseCall{{ID: "toolu_1", Name: "f"}}}
		return store.Answer(q, session.Answer{Facts: r, Order: seq, MinSeq: seq, At: time.Unix(int64(seq), 0)})
	}
	first := ask(1, "", true)
	asked := answer(first, 2, "msg_1")
	second := ask(3, "msg_1", true)
	if calls, known := second.Chained(); !known || len(calls) != 1 || second.Conversation != first.Conversation {
		t.Errorf("calls %v, known %v, conversation %s, want %s", calls, known, second.Conversation, first.Conversation)
	}
	must.Equal(t, asked[0].State, session.Answered, "state of the call")
	answer(ask(4, "", false), 5, "msg_4")
	if _, known := ask(6, "msg_4", true).Chained(); known {
		t.Error("an answer outside a thread is known by its id")
	}
}
