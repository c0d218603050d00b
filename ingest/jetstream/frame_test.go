package jetstream

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// publishFrame publishes the events from..to-1 of a conversation in one message.
func publishFrame(t testing.TB, ctx context.Context, c *Conn, from, to int, conversation string) {
	t.Helper()
	var events []*event.Event
	for i := from; i < to; i++ {
		e := testEvent(i, 100)
		e.Labels.Conversation = conversation
		events = append(events, e)
	}
	before := must.Get(c.js.Stream(ctx, event.StreamEvents))(t).CachedInfo().State.LastSeq
	p := c.NewPublisher(0)
	for _, e := range events {
		must.Do(t, p.Publish(ctx, e))
	}
	must.Do(t, p.Flush(ctx))
	must.Equal(t, must.Get(c.js.Stream(ctx, event.StreamEvents))(t).CachedInfo().State.LastSeq-before, 1, "messages of %d events", to-from)
}

// publishMixed publishes events of conversations of one shard, which take turns, in one message, as another publisher may.
func publishMixed(t testing.TB, ctx context.Context, c *Conn, from, to int, conversations ...string) {
	t.Helper()
	var events []*event.Event
	for i := from; i < to; i++ {
		e := testEvent(i, 100)
		e.Labels.Conversation = conversations[i%len(conversations)]
		events = append(events, e)
	}
	for m := range event.Pack(events, event.PartBytes, true) {
		must.Get(c.js.PublishMsg(ctx, &nats.Msg{Subject: m.Subject, Header: nats.Header(m.Header), Data: m.Data}))(t)
	}
}

// inShard returns n conversations of one shard.
func inShard(n int) (names []string) {
	for i := 0; len(names) < n; i++ {
		if name := fmt.Sprintf("c%d", i); len(names) == 0 || event.ShardOf(name) == event.ShardOf(names[0]) {
			names = append(names, name)
		}
	}
	return names
}

// positions returns "sequence.index exchange", with an r for replays.
func positions(msgs []Message) string {
	var list []string
	for _, m := range msgs {
		s := fmt.Sprintf("%d.%d ", m.Seq, m.Index)
		switch {
		case m.Event != nil:
			s += m.Event.Exchange
		default:
			s += "malformed"
		}
		if m.Replay {
			s += " r"
		}
		list = append(list, s)
	}
	return strings.Join(list, ", ")
}

// The events of a frame are returned together, with its sequence, and replayed together.
func TestReadFrames(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	publish(t, ctx, c, 0, 1)
	publishFrame(t, ctx, c, 1, 4, "c1")
	publishFrame(t, ctx, c, 4, 6, "c1")
	r := openReader(t, ctx, c, "a")
	must.Equal(t, positions(readN(t, ctx, r, 2)), "1.0 x000000, 2.0 x000001, 2.1 x000002, 2.2 x000003", "first messages")
	must.Do(t, r.Commit(ctx, 2, 2))
	must.Equal(t, positions(must.Get(r.Next(ctx, 1, time.Second))(t)), "3.0 x000004, 3.1 x000005", "next messages")
	must.Equal(t, r.Pending(), 0, "pending messages")
	must.Do(t, r.Close(ctx))
	r = openReader(t, ctx, c, "a")
	must.Equal(t, positions(readN(t, ctx, r, 5)), "2.0 x000001 r, 2.1 x000002 r, 2.2 x000003 r, 3.0 x000004, 3.1 x000005", "after a restart")
	must.Equal(t, r.Lost(), 0, "lost events")
	expectNone(t, ctx, r)
}

// A frame that leaves the stream unread is one lost message.
func TestLostFrame(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	publishFrame(t, ctx, c, 0, 5, "c1")
	publishFrame(t, ctx, c, 5, 7, "c1")
	r := openReader(t, ctx, c, "a")
	readN(t, ctx, r, 7)
	must.Do(t, r.Commit(ctx, 2, 0))
	must.Do(t, r.Close(ctx))
	publishFrame(t, ctx, c, 7, 9, "c1")
	publish(t, ctx, c, 9, 10)
	must.Do(t, must.Get(c.js.Stream(ctx, event.StreamEvents))(t).Purge(ctx, natsjs.WithPurgeSequence(4)))
	r = openReader(t, ctx, c, "a")
	readN(t, ctx, r, 1)
	must.Equal(t, r.Lost(), 1, "lost messages")
}

// Publishers send frames of events of a shard that follow each other, keep the order, and split what does not fit.
func TestPublishFrames(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	names := []string{"a", "b", "c"}
	var events []*event.Event
	for i := range 300 {
		size := 100
		if i%50 == 20 && i < 200 {
			size = 700_000 // two parts
		}
		e := testEvent(i, size)
		e.Labels.Conversation = names[i/10%3]
		events = append(events, e)
	}
	must.Get(c.PublishBatch(ctx, events[:200]))(t)
	p := c.NewPublisher(0)
	for _, e := range events[200:] {
		must.Do(t, p.Publish(ctx, e))
	}
	must.Do(t, p.Flush(ctx))
	must.Equal(t, p.Acked(), 100, "acknowledged events")
	last := ""
	msgs := readN(t, ctx, openReader(t, ctx, c, "r"), 304)
	for _, m := range msgs {
		must.Do(t, m.Err)
		if x := m.Event.Exchange; x < last || x == last && m.Event.Part < 2 {
			t.Fatalf("%s part %d after %s", x, m.Event.Part, last)
		}
		last = m.Event.Exchange
	}
	if n := msgs[len(msgs)-1].Seq - 204; n > 30 { // those of the batch are alone
		t.Errorf("%d messages of 100 events", n)
	}
}

// What waits for more events is sent after a moment without Flush.
func TestPublisherLingers(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	p := c.NewPublisher(0)
	must.Do(t, p.Publish(ctx, testEvent(0, 10)))
	must.Do(t, p.Publish(ctx, testEvent(1, 10)))
	msgs := readN(t, ctx, openReader(t, ctx, c, "r"), 2)
	must.Equal(t, positions(msgs), "1.0 x000000, 1.1 x000001", "messages")
}

// A stream that refuses large messages gets the events of a frame one by one, and only those that are too large are rejected.
func TestFrameTooLargeForStream(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	s := must.Get(c.js.Stream(ctx, event.StreamEvents))(t)
	cfg := s.CachedInfo().Config
	cfg.MaxMsgSize = 4000
	must.Get(c.js.UpdateStream(ctx, cfg))(t)
	var events []*event.Event
	for i := range 40 {
		events = append(events, testEvent(i, 1000))
	}
	events[7].Body = make([]byte, 8000)
	p := c.NewPublisher(0)
	for _, e := range events {
		must.Do(t, p.Publish(ctx, e))
	}
	must.Fail(t, p.Flush(ctx), "message size exceeds", "an event is too large for the stream")
	must.Equal(t, p.Failed(), 1, "rejected events")
	got := map[string]bool{}
	for _, m := range readN(t, ctx, openReader(t, ctx, c, "r"), 39) {
		got[m.Event.Exchange] = true
	}
	must.Equal(t, len(got), 39, "events stored")
}

// An event of a frame that is malformed, and the end of a frame that is, become dead letters; the others do not.
func TestDeadLettersOfFrames(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	lines := "Llmtap-Exchange:x\nLlmtap-Service:checkout\nLlmtap-Time:2026-11-21T03:04:05Z\n"
	entry := func(lines, body string) string {
		return fmt.Sprintf("request %d %d\n%s%s", len(lines), len(body), lines, body)
	}
	subject := event.SubjectPrefix + "frame.checkout.07"
	send := func(version, data string) {
		must.Get(c.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Header: nats.Header{event.HeaderFrame: {version}}, Data: []byte(data)}))(t)
	}
	send("1", entry(lines, "a")+entry("Llmtap-Time:no\n", "b")+entry(lines, "c"))
	send("1", entry(lines, "a")+"request 5 99\n")
	send("2", entry(lines, "a"))
	r := openReader(t, ctx, c, "r")
	must.Equal(t, positions(readN(t, ctx, r, 6)), "1.0 x, 1.1 malformed, 1.2 x, 2.0 x, 2.1 malformed, 3.0 malformed", "messages")
	var letters []string
	must.Do(t, scan(ctx, must.Get(c.js.Stream(ctx, event.StreamDead))(t), ephemeralConsumer(natsjs.DeliverAllPolicy, nil), 10, func(batch []natsjs.Msg, _ uint64) error {
		for _, m := range batch {
			h := m.Headers()
			letters = append(letters, fmt.Sprintf("%s %s.%s %s %q", m.Subject(), h.Get(headerDeadSeq), h.Get(headerDeadIndex), h.Get(HeaderDeadSubject), m.Data()))
		}
		return nil
	}))
	want := []string{
		`llmtap.dead.bad_header 1.1 llmtap.v1.request.checkout.07 "b"`,
		fmt.Sprintf("llmtap.dead.bad_header 2.1 %s %q", subject, entry(lines, "a")+"request 5 99\n"),
		fmt.Sprintf("llmtap.dead.bad_header 3. %s %q", subject, entry(lines, "a")),
	}
	must.Agree(t, cmp.Diff(want, letters), "dead letters")
}

// An erasure deletes the frames of its target. A frame that also has events of others, which no publisher of ours sends, is deleted
// once they are stored.
func TestEraseFrames(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	names := inShard(2)
	publishFrame(t, ctx, c, 0, 3, names[0])
	publishFrame(t, ctx, c, 3, 6, names[1])
	publishMixed(t, ctx, c, 6, 10, names...)
	r := openReader(t, ctx, c, "a")
	readN(t, ctx, r, 10)
	erase := func(dry bool) (Erased, error) {
		return c.Erase(ctx, ErasureSubject{Conversation: names[0]}, dry, func(uint64, uint64) {})
	}
	must.Equal(t, must.Get(erase(true))(t).Events, 5, "events")
	erased := make(chan error, 1)
	go func() { erased <- must.Err(erase(false)) }()
	s := must.Get(c.js.Stream(ctx, event.StreamEvents))(t)
	must.Wait(t, "the first frame is deleted", func() bool { return must.Get(s.Info(ctx))(t).State.Msgs <= 2 })
	select {
	case err := <-erased:
		t.Fatalf("erased before the other events were stored: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	must.Do(t, r.Commit(ctx, 3, 1))
	must.Do(t, <-erased)
	must.Do(t, r.Close(ctx))
	r = openReader(t, ctx, c, "a")
	must.Equal(t, positions(readN(t, ctx, r, 3)), "2.0 x000003 r, 2.1 x000004 r, 2.2 x000005 r", "after a restart")
	must.Equal(t, r.Lost(), 0, "lost events")
	expectNone(t, ctx, r)
	must.Equal(t, must.Get(erase(false))(t).Events, 0, "events")
}
