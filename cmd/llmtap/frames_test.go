package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A frameStream makes the events of a process whose conversations share a shard, so that frames keep their order.
type frameStream struct {
	events []*event.Event
	at     time.Time
}

func (s *frameStream) add(e event.Event, conversation string, body any) {
	e.Seq, e.Instance, e.Capture, e.Origin = uint64(len(s.events)+1), "i", event.CaptureFull, event.OriginHook
	e.Time = s.at.Add(time.Duration(e.Seq) * time.Millisecond)
	e.Labels = event.Labels{Service: "frames", Stage: "planner", ServiceVersion: "1.0.0", Conversation: conversation, Run: "run of " + conversation}
	if body != nil {
		e.Body, _ = json.Marshal(body)
	}
	s.events = append(s.events, &e)
}

// frameEvents returns the events of conversations that take turns: their runs, calls and tools. Some lose the tool calls of an answer,
// some lose a reply, and some send one twice.
func frameEvents() []*event.Event {
	type object = map[string]any
	const conversations, turns = 12, 6
	var names []string
	for i := 0; len(names) < conversations; i++ {
		if name := fmt.Sprint("c", i); event.ShardOf(name) == event.ShardOf("c0") {
			names = append(names, name)
		}
	}
	s := &frameStream{at: time.Now()}
	for _, c := range names {
		s.add(event.Event{Kind: event.Run, RunStatus: event.StatusStarted}, c, nil)
	}
	histories := make([][]object, conversations)
	for turn := range turns {
		for i, c := range names {
			x, id := fmt.Sprintf("01997b6e-0000-7000-8000-%012d", 100*turn+i), fmt.Sprintf("call_%d_%d", i, turn)
			history := append(histories[i], object{"role": "user", "content": fmt.Sprint("read file ", turn, " of ", c)})
			call := []object{{"id": id, "type": "function", "function": object{"name": "read_file", "arguments": "{}"}}}
			asked := object{"role": "assistant", "content": nil, "tool_calls": call}
			s.add(event.Event{Kind: event.Request, Exchange: x, URL: "https://api.deepseek.com/chat/completions", Method: "POST"}, c, object{"model": "deepseek-chat", "messages": history})
			if i%4 == 1 && turn == 3 {
				s.add(event.Event{Kind: event.Response, Exchange: x, Status: 400, Duration: time.Second}, c, object{"error": object{"message": "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"}})
				histories[i] = nil
				continue
			}
			s.add(event.Event{Kind: event.Response, Exchange: x, Status: 200, Duration: time.Second}, c, object{"id": x, "model": "deepseek-chat", "choices": []object{{"index": 0, "message": asked, "finish_reason": "tool_calls"}}})
			s.add(event.Event{Kind: event.Tool, Exchange: x, ToolCallID: id, ToolStatus: event.StatusStarted}, c, nil)
			s.add(event.Event{Kind: event.Tool, Exchange: x, ToolCallID: id, ToolStatus: event.StatusOK}, c, nil)
			reply := object{"role": "tool", "tool_call_id": id, "content": "PORT=80"}
			switch {
			case i%4 == 1 && turn == 2:
				asked = object{"role": "assistant", "content": "reading"}
			case i%4 == 2 && turn == 4:
				reply = object{"role": "user", "content": "never mind"}
			case i%4 == 3 && turn == 4:
				history = append(history, asked, reply, reply)
			}
			histories[i] = append(history, asked, reply)
		}
	}
	for _, c := range names {
		s.add(event.Event{Kind: event.Run, RunStatus: event.StatusOK}, c, nil)
	}
	return s.events
}

// malformed returns an event that no collector can decode.
func malformed(like *event.Event) event.Message {
	e := event.Event{Kind: event.Request, Exchange: "01997b6e-0000-7000-8000-00000000dead", Labels: like.Labels, Body: []byte("malformed")}
	h := e.Encode()
	delete(h, event.HeaderMsgID)
	h[event.HeaderTime] = []string{"yesterday"}
	return event.Message{Subject: e.Subject(), Header: h, Data: e.Body}
}

// framed returns the messages of events in frames of different sizes. Each third frame is delivered twice, and bad is in the middle of one.
func framed(t *testing.T, events []*event.Event, bad int) (messages []event.Message) {
	for at, n := 0, 0; at < len(events); n++ {
		size := min(2+n%7*5, event.MaxFrameEvents-1, len(events)-at) // the last one may be a single event
		for m, span := range event.Pack(events[at:at+size], event.PartBytes, true) {
			if first := at + span[0]; first < bad && bad < first+span[1] {
				split := must.Get(event.SplitFrame(m.Subject, m.Header, m.Data))(t)
				m.Data = event.JoinFrame(slices.Insert(split, bad-first, malformed(events[bad])))
			}
			messages = append(messages, m)
			if n%3 == 1 {
				again := maps.Clone(m.Header)
				delete(again, event.HeaderMsgID) // as after the window in which JetStream knows it
				messages = append(messages, event.Message{Subject: m.Subject, Header: again, Data: m.Data})
			}
		}
		at += size
	}
	return messages
}

// streamRows are the rows that a collector stored, without versions and the time of the stream, its tallies and its dead letters.
type streamRows struct {
	Rows    map[string][]string
	Tallies map[string]uint64
	Dead    []string
}

func readRows(t *testing.T, s *store, js natsjs.JetStream) (all streamRows, err error) {
	t.Helper()
	all.Rows = map[string][]string{}
	for table, columns := range map[string]string{
		"exchanges":  "* EXCEPT (seq, stored_at, lead, marked, parameters, answer)", // ids of contents begin with a number of the process
		"findings":   "* EXCEPT (seq, stored_at, first_seen)",
		"tool_calls": "* EXCEPT (seq, stored_at, asked_at, answered_at)",
		"runs":       "* EXCEPT (seq, seen_at)",
		"history":    "* EXCEPT (seq, seen_at, exchange_id, message_id), substring(message_id, 9)", // after a start, a later exchange may store it again
		"messages":   "substring(id, 9), kind, bytes, body",
	} {
		res, err := s.query(t.Context(), fmt.Sprintf("SELECT toString(tuple(%s)) AS row FROM %s_final ORDER BY row", columns, table))
		if err != nil {
			return all, err
		}
		for _, r := range res.Rows {
			all.Rows[table] = append(all.Rows[table], r[0].(string))
		}
	}
	if all.Tallies, err = countTallies(t.Context(), js); err != nil {
		return all, err
	}
	err = replayStream(t.Context(), js, event.StreamDead, func(m natsjs.Msg, _ *natsjs.MsgMetadata) error {
		all.Dead = append(all.Dead, fmt.Sprintf("%s %s %s %q", m.Subject(), m.Headers().Get(jetstream.HeaderDeadSubject), m.Headers().Get(event.HeaderExchange), m.Data()))
		return nil
	})
	return all, err
}

// The same events, sent one by one and in frames, give the same rows, findings, ids, tallies and dead letters, although frames are
// delivered twice, a frame has a malformed event, and the collector is killed while it reads them.
func TestFrames(t *testing.T) {
	t.Parallel()
	needClickHouse(t)
	events := frameEvents()
	bad := len(events) / 3
	send := func(js natsjs.JetStream, m event.Message) {
		for start := time.Now(); ; {
			_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: nats.Header(m.Header), Data: m.Data})
			if err == nil {
				return
			}
			if time.Since(start) > 5*time.Minute {
				t.Fatal(err)
			}
		}
	}

	up := startUp(t)
	up.ready(t)
	js, rows := streams(t, up.url()), up.rows()
	defer rows.close()
	for i, e := range events {
		if i == bad {
			send(js, malformed(e))
		}
		for part := range e.Messages(event.PartBytes) {
			send(js, event.Message{Subject: part.Subject(), Header: part.Encode(), Data: part.Body})
		}
	}
	const calls = 72
	var want streamRows
	complete := func(s *streamRows) bool {
		return len(s.Rows["exchanges"]) == calls && s.Tallies[analyzer.MetricCalls] == calls && len(s.Rows["runs"]) == 12 && len(s.Dead) == 1
	}
	waitFor(t, up, "the calls", func() (done bool) {
		want = must.Get(readRows(t, rows, js))(t)
		return complete(&want)
	})
	t.Log(len(events), "events:", len(want.Rows["findings"]), "findings,", len(want.Rows["tool_calls"]), "tool calls,", len(want.Rows["messages"]), "messages", want.Tallies, want.Dead)
	rows.close()
	up.kill(t)

	up = startUp(t)
	up.ready(t)
	js, rows = streams(t, up.url()), up.rows()
	defer rows.close()
	messages := framed(t, events, bad)
	for i, m := range messages {
		send(js, m)
		if i == len(messages)/4 {
			waitFor(t, up, "the first rows", func() bool { return rows.newest(t.Context()).Year() > 2000 })
		}
		if i == len(messages)*3/4 { // some rows are stored, others are not
			up.kill(t)
			up.start(t)
			up.ready(t)
		}
	}
	var diff string
	must.Wait(t, fmt.Sprintf("rows of %d messages are the same", len(messages)), func() bool {
		got, err := readRows(t, rows, js)
		if diff = cmp.Diff(want, got); err != nil {
			diff = err.Error()
		}
		return diff == ""
	}, func() any { return diff })
	for _, table := range []string{"exchanges", "findings", "tool_calls", "runs"} {
		id := map[string]string{"exchanges": "exchange_id", "findings": "finding_id"}[table]
		if id == "" {
			id = "id"
		}
		res := must.Get(rows.query(t.Context(), fmt.Sprintf("SELECT %[1]s, seq FROM %[2]s GROUP BY %[1]s, seq HAVING uniqExact(toString(tuple(* EXCEPT (stored_at)))) > 1", id, table)))(t)
		must.Equal(t, len(res.Rows), 0, "versions of %s with several contents", table)
	}
	t.Log(len(messages), "messages")
}
