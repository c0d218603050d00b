package jetstream

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// What is known of spans is read in order, also after somebody has deleted the stream.
func TestSpans(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	read := func(want ...string) {
		t.Helper()
		var got []string
		must.Do(t, c.ReadSpans(ctx, func(payload []byte) { got = append(got, string(payload)) }))
		must.Agree(t, cmp.Diff(want, got))
	}
	read()
	must.Do(t, c.StoreSpans(ctx, []byte("a")))
	must.Do(t, c.StoreSpans(ctx, []byte("b")))
	read("a", "b")
	must.Do(t, c.js.DeleteStream(ctx, event.StreamSpans))
	read()
	if err := c.StoreSpans(ctx, []byte("c")); err == nil {
		t.Error("stored in a stream that does not exist")
	}
	must.Do(t, c.StoreSpans(ctx, []byte("c")))
	read("c")
}
