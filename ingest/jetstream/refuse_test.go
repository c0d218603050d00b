package jetstream

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A stream that refuses events keeps those that it has, and the error of a publisher is temporary.
func TestRefuseEvents(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	c, ctx := n.connect(t)
	publish(t, ctx, c, 0, 3)
	r := openReader(t, ctx, c, "a")
	must.Do(t, c.RefuseEvents(ctx, true))
	must.Do(t, c.Ensure(ctx)) // a role that starts again
	e := testEvent(3, 0)
	_, err := c.js.PublishMsg(ctx, &nats.Msg{Subject: e.Subject(), Header: nats.Header(e.Encode()), Data: e.Body})
	var api *natsjs.APIError
	if !errors.As(err, &api) || !IsTransient(err) || api.Description != "maximum messages exceeded" {
		t.Errorf("publish: %v", err) // hooks explain this description
	}
	readN(t, ctx, r, 3)
	must.Do(t, r.Commit(ctx, 3, 0))
	must.Do(t, c.RefuseEvents(ctx, false))
	publish(t, ctx, c, 3, 5)
	readN(t, ctx, r, 2)
	s := must.Get(c.js.Stream(ctx, event.StreamEvents))(t)
	if st := s.CachedInfo().State; st.Msgs != 5 || st.LastSeq != 5 {
		t.Errorf("%+v", st)
	}
}
