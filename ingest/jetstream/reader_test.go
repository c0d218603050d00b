package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestReadCommitReopen(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	c, ctx := n.connect(t)
	publish(t, ctx, c, 1, 11)

	r := openReader(t, ctx, c, "a")
	msgs := readN(t, ctx, r, 10)
	for i, m := range msgs {
		if diff := cmp.Diff(testEvent(i+1, 100), m.Event); diff != "" || m.Seq != uint64(i+1) || m.Replay || m.Err != nil || m.Time.IsZero() {
			t.Fatalf("message %d: %+v\n%s", i, m, diff)
		}
	}
	expectNone(t, ctx, r)
	if r.Pending() != 0 || r.Lost() != 0 || r.Epoch() != 1 || r.Stored() != 0 {
		t.Errorf("pending %d, lost %d, epoch %d, stored %d", r.Pending(), r.Lost(), r.Epoch(), r.Stored())
	}
	must.Do(t, r.Commit(ctx, 8, 4))
	must.Equal(t, r.Stored(), 8, "stored after a commit of 8")
	must.Do(t, r.Close(ctx))
	must.Fail(t, must.Err(r.Next(ctx, 1, time.Second)), "", "a closed reader returned messages")

	// Another process replays 4..8; 9 and 10 are new.
	r = openReader(t, ctx, c, "b")
	var got []string
	for _, m := range readN(t, ctx, r, 7) {
		got = append(got, fmt.Sprint(m.Seq, m.Replay))
	}
	want := []string{"4 true", "5 true", "6 true", "7 true", "8 true", "9 false", "10 false"}
	must.Agree(t, cmp.Diff(want, got))
	expectNone(t, ctx, r)
	if r.Epoch() != 2 || r.Stored() != 8 {
		t.Errorf("epoch %d, stored %d", r.Epoch(), r.Stored())
	}
	must.Do(t, r.Commit(ctx, 10, 0))
	must.Do(t, r.Close(ctx))

	// No replay is needed, so only new events are returned.
	r = openReader(t, ctx, c, "a")
	expectNone(t, ctx, r)
	publish(t, ctx, c, 11, 12)
	if m := readN(t, ctx, r, 1)[0]; m.Seq != 11 || m.Replay {
		t.Errorf("got %+v", m)
	}

	// Of three readers there is one consumer, whose name stays, and a detached reader goes on beside the next one.
	stream := must.Get(c.js.Stream(ctx, event.StreamEvents))(t)
	expectConsumers := func(n int) {
		t.Helper()
		var names []string
		for name := range stream.ConsumerNames(ctx).Name() {
			names = append(names, name)
		}
		if len(names) != n || !slices.Contains(names, "llmtap-0-of-1") {
			t.Errorf("consumers %q, want %d", names, n)
		}
	}
	expectConsumers(1)
	r.Detach()
	next := openReader(t, ctx, c, "a")
	publish(t, ctx, c, 12, 13)
	for seq := uint64(0); seq != 12; {
		seq = readN(t, ctx, next, 1)[0].Seq
	}
	publish(t, ctx, c, 13, 14)
	for seq := uint64(0); seq != 13; {
		seq = readN(t, ctx, r, 1)[0].Seq
	}
	expectConsumers(2)
	must.Do(t, r.Close(ctx))
	must.Do(t, next.Close(ctx))
}

func TestCommitInvalid(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	publish(t, ctx, c, 1, 6)
	r := openReader(t, ctx, c, "a")
	readN(t, ctx, r, 3)
	must.Do(t, r.Commit(ctx, 2, 0))
	for _, bad := range [][2]uint64{{4, 0}, {1, 0}, {3, 5}} {
		must.Fail(t, r.Commit(ctx, bad[0], bad[1]), "", "commit", bad, "succeeded")
	}
}

func TestOpenReaderInvalid(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	for _, cfg := range []ReaderConfig{{}, {Partitions: 1}, {Partition: 1, Partitions: 2, Owner: "a"}} {
		if _, err := c.OpenReader(ctx, cfg); err == nil {
			t.Errorf("opened %+v", cfg)
		}
	}
}

func TestNextLimitAndContext(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	publish(t, ctx, c, 0, bufferMessages+500) // exceeds the buffer
	r := openReader(t, ctx, c, "a")
	next := uint64(1)
	for next <= bufferMessages+500 {
		msgs, err := r.Next(ctx, 7, time.Second)
		if err != nil || len(msgs) > 7 {
			t.Fatalf("%d messages, %v", len(msgs), err)
		}
		for _, m := range msgs {
			if m.Seq != next {
				t.Fatalf("got %d, want %d", m.Seq, next)
			}
			next++
		}
		if left := bufferMessages + 500 - (next - 1); r.Pending() != left {
			t.Fatalf("pending %d, want %d", r.Pending(), left)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	must.Is(t, must.Err(r.Next(ended, 1, time.Minute)), context.Canceled)
}

func TestLargeBodiesAreBounded(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	p := c.NewPublisher(8)
	p.alone = true
	const size, count = 4 << 20, 10 // 40 MiB: exceeds the buffer and one pull
	for i := range count {
		must.Do(t, p.Publish(ctx, testEvent(i, size)))
	}
	must.Do(t, p.Flush(ctx))
	r := openReader(t, ctx, c, "a")
	for i, m := range readN(t, ctx, r, count) {
		if m.Seq != uint64(i+1) || len(m.Event.Body) != size {
			t.Fatalf("message %d: seq %d, %d bytes", i, m.Seq, len(m.Event.Body))
		}
		r.mu.Lock()
		bytes := r.bytes
		r.mu.Unlock()
		if bytes > bufferBytes {
			t.Errorf("%d bytes are buffered", bytes)
		}
	}
	must.Equal(t, r.bytes, 0, "bytes of an empty buffer")
}

func TestUndecodable(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	send := func(subject string, h nats.Header, body string) {
		t.Helper()
		must.Get(c.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Header: h, Data: []byte(body)}))(t)
	}
	send("llmtap.v1.request.s.00", nats.Header{"Llmtap-Exchange": {"x"}, "Nats-Msg-Id": {"mine"}}, `{"no":"time"}`)
	send("llmtap.v1.embedding.s.00", nil, "")
	send("llmtap.v1.request.s.00", nats.Header{"Status": {"503"}}, "") // looks like a status of the server
	publish(t, ctx, c, 4, 5)

	r := openReader(t, ctx, c, "a")
	msgs := readN(t, ctx, r, 4)
	for i, m := range msgs {
		if bad := i < 3; m.Seq != uint64(i+1) || bad != errors.Is(m.Err, event.ErrMalformed) || bad != (m.Event == nil) {
			t.Errorf("message %d: %+v", i, m)
		}
	}
	dead := must.Get(c.js.Stream(ctx, event.StreamDead))(t)
	f := func(seq uint64, subject, reason, original, body, why string) {
		t.Helper()
		m := must.Get(dead.GetMsg(ctx, seq))(t)
		if m.Subject != subject || m.Header.Get(headerDeadReason) != reason || m.Header.Get(HeaderDeadSubject) != original ||
			m.Header.Get(headerDeadSeq) != fmt.Sprint(seq) || !strings.Contains(m.Header.Get(HeaderDeadError), why) || string(m.Data) != body {
			t.Errorf("dead letter %d: %s %v %q", seq, m.Subject, m.Header, m.Data)
		}
	}
	f(1, "llmtap.dead.bad_header", "bad_header", "llmtap.v1.request.s.00", `{"no":"time"}`, "Llmtap-Time is missing")
	f(2, "llmtap.dead.bad_subject", "bad_subject", "llmtap.v1.embedding.s.00", "", "unknown kind")
	f(3, "llmtap.dead.bad_header", "bad_header", "llmtap.v1.request.s.00", "", "is missing")
	must.Equal(t, testutil.ToFloat64(c.m.dropped.WithLabelValues(reasonBadHeader)), 2, "dropped with bad headers")

	// A replay writes no second dead letter.
	must.Do(t, r.Commit(ctx, 4, 1))
	must.Do(t, r.Close(ctx))
	readN(t, ctx, openReader(t, ctx, c, "a"), 4)
	must.Equal(t, must.Get(dead.Info(ctx))(t).State.LastSeq, 3, "dead letters after a replay")
}

// A dead letter has more headers than its message, so the largest body is truncated.
func TestUndecodableMaxPayload(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	n.s.Shutdown()
	n.cfg.MaxPayload = 1 << 20
	n.start()
	c, ctx := n.connect(t)
	body := strings.Repeat("x", int(c.nc.MaxPayload()))
	must.Get(c.js.Publish(ctx, "llmtap.v1.request.s.00", []byte(body)))(t)
	readN(t, ctx, openReader(t, ctx, c, "a"), 1)
	dead := must.Get(c.js.Stream(ctx, event.StreamDead))(t)
	if m := must.Get(dead.GetMsg(ctx, 1))(t); len(m.Data) < len(body)-2*deadOverhead || !strings.HasPrefix(body, string(m.Data)) {
		t.Errorf("dead letter of %d bytes", len(m.Data))
	}
}

func TestLost(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	s := must.Get(c.js.Stream(ctx, event.StreamEvents))(t)
	publish(t, ctx, c, 1, 11)
	if err := s.DeleteMsg(ctx, 1); err != nil { // before the first reader: no loss
		t.Fatal(err)
	}
	r := openReader(t, ctx, c, "a")
	readN(t, ctx, r, 9)
	if r.Lost() != 0 || r.Stored() != 1 {
		t.Errorf("first reader: lost %d, stored %d", r.Lost(), r.Stored())
	}
	must.Do(t, r.Commit(ctx, 5, 3))
	must.Do(t, r.Close(ctx))
	// 6 and 7 are dropped while no reader is open, 9 leaves a gap.
	must.Get(c.js.PublishMsg(ctx, nats.NewMsg("llmtap.v1.run.s.00")))(t)
	for _, seq := range []uint64{2, 3, 4, 5, 6, 7, 9} {
		must.Do(t, s.DeleteMsg(ctx, seq))
	}
	r = openReader(t, ctx, c, "a")
	msgs := readN(t, ctx, r, 3)
	if msgs[0].Seq != 8 || msgs[0].Replay || msgs[1].Seq != 10 || msgs[2].Seq != 11 {
		t.Errorf("got %+v", msgs)
	}
	if r.Lost() != 3 || testutil.ToFloat64(c.m.dropped.WithLabelValues(reasonLost)) != 3 {
		t.Errorf("lost %d, want 6, 7 and 9", r.Lost())
	}
}

func TestStreamRecreated(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	publish(t, ctx, c, 1, 11)
	r := openReader(t, ctx, c, "a")
	readN(t, ctx, r, 10)
	must.Do(t, r.Commit(ctx, 10, 0))
	must.Do(t, c.js.DeleteStream(ctx, event.StreamEvents))
	must.Do(t, c.Ensure(ctx))
	publish(t, ctx, c, 20, 23)
	for {
		msgs, err := r.Next(ctx, 1, time.Second)
		if len(msgs) > 0 || ctx.Err() != nil {
			t.Fatalf("got %+v, %v", msgs, err)
		}
		if errors.Is(err, errReplaced) {
			break
		}
	}
	must.Do(t, r.Close(ctx))
	r = openReader(t, ctx, c, "a")
	if m := readN(t, ctx, r, 3)[0]; m.Seq != 1 || m.Replay {
		t.Errorf("got %+v", m)
	}
}

// After a power failure the stream may end before the checkpoint; later events must not be treated as replays.
func TestFit(t *testing.T) {
	t.Parallel()
	c, _ := startNATS(t).connect(t)
	now := time.Now().UTC()
	f := func(cp checkpoint, first, last uint64, want checkpoint, wantLost uint64) {
		t.Helper()
		lost := c.fit(&cp, now, first, last, rewind{})
		want.Stream = now
		if diff := cmp.Diff(want, cp); diff != "" || lost != wantLost {
			t.Errorf("lost %d, want %d; %s", lost, wantLost, diff)
		}
	}
	f(checkpoint{}, 0, 0, checkpoint{Stored: 0, ReplayFrom: 1}, 0)
	f(checkpoint{}, 500, 900, checkpoint{Stored: 499, ReplayFrom: 500}, 0)
	f(checkpoint{Stored: 10, ReplayFrom: 5, Stream: now}, 1, 20, checkpoint{Stored: 10, ReplayFrom: 5}, 0)
	f(checkpoint{Stored: 10, ReplayFrom: 5, Stream: now}, 8, 20, checkpoint{Stored: 10, ReplayFrom: 8}, 0)
	f(checkpoint{Stored: 10, ReplayFrom: 5, Stream: now}, 11, 20, checkpoint{Stored: 10, ReplayFrom: 11}, 0)
	f(checkpoint{Stored: 10, ReplayFrom: 5, Stream: now}, 14, 20, checkpoint{Stored: 13, ReplayFrom: 14}, 3)
	f(checkpoint{Stored: 10, ReplayFrom: 5, Stream: now}, 21, 20, checkpoint{Stored: 20, ReplayFrom: 21}, 10) // all aged out
	f(checkpoint{Stored: 10, ReplayFrom: 9, Stream: now}, 1, 7, checkpoint{Stored: 7, ReplayFrom: 8}, 0)
	f(checkpoint{Stored: 10, ReplayFrom: 9, Epoch: 4, Stream: now.Add(-time.Hour)}, 1, 70, checkpoint{Stored: 0, ReplayFrom: 1, Epoch: 4}, 0)
}
