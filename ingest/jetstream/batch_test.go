package jetstream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A batch returns its own rejections, by index; the other events and other batches are stored.
func TestPublishBatch(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	s, err := c.js.Stream(ctx, event.StreamEvents)
	must.Do(t, err)
	cfg := s.CachedInfo().Config
	cfg.MaxMsgSize = 10_000
	must.Get(c.js.UpdateStream(ctx, cfg))(t)

	batch := []*event.Event{testEvent(0, 100), testEvent(1, 20_000), testEvent(2, 100), testEvent(3, event.PartBytes*2), testEvent(4, 100)}
	rejected := must.Get(c.PublishBatch(ctx, batch))(t)
	var api *natsjs.APIError
	if len(rejected) != 2 || rejected[0].Index != 1 || rejected[1].Index != 3 || !errors.As(rejected[0].Err, &api) || api.ErrorCode != codeMessageTooLarge {
		t.Fatalf("rejected %+v", rejected)
	}
	rejected, err = c.PublishBatch(ctx, []*event.Event{testEvent(5, 100)})
	if err != nil || len(rejected) > 0 {
		t.Errorf("rejected %+v, %v", rejected, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	must.Is(t, must.Err(c.PublishBatch(ended, []*event.Event{testEvent(6, 100)})), context.Canceled)
	r := openReader(t, ctx, c, "a")
	var got []string
	for _, m := range readN(t, ctx, r, 4) {
		got = append(got, m.Event.Exchange)
	}
	slices.Sort(got) // what the stream refused as a frame is sent again behind later events
	must.Equal(t, strings.Join(got, " "), "x000000 x000002 x000004 x000005", "stored events")
	expectNone(t, ctx, r)
}
