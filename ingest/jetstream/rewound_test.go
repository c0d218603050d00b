package jetstream

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The stream loses its end, as if its files had not been synced to disk, and hooks publish other events under the same sequences
// before it is read. All of them are read, whether the reader ran meanwhile or not.
func TestStreamRewound(t *testing.T) {
	t.Parallel()
	for _, others := range []int{3, 10} { // less and more than the lost ones
		t.Run(strconv.Itoa(others), func(t *testing.T) { streamRewound(t, others) })
	}
}

func streamRewound(t *testing.T, others int) {
	n := startNATS(t)
	c, ctx := n.connect(t)
	publish(t, ctx, c, 0, 3)
	stream := filepath.Join(n.cfg.Dir, "jetstream", "$G", "streams", event.StreamEvents)
	saved := filepath.Join(t.TempDir(), "saved")
	n.s.Shutdown()
	must.Do(t, os.CopyFS(saved, os.DirFS(stream)))
	n.start()

	publish(t, ctx, c, 3, 8)
	stopped := openReader(t, ctx, c, "a")
	readN(t, ctx, stopped, 8)
	must.Do(t, stopped.Commit(ctx, 8, 0))
	must.Do(t, stopped.Close(ctx))
	running := must.Get(c.OpenReader(ctx, ReaderConfig{Partition: 0, Partitions: 1, Owner: "b"}))(t)
	t.Cleanup(func() { running.stop(); running.done.Wait() })
	publish(t, ctx, c, 8, 9)
	readN(t, ctx, running, 1)

	n.s.Shutdown()
	must.Do(t, os.RemoveAll(stream))
	must.Do(t, os.CopyFS(stream, os.DirFS(saved)))
	n.start()
	other, _ := n.connect(t)
	publish(t, ctx, other, 100, 100+others)
	for end := time.Now().Add(5 * time.Minute); ; {
		msgs, err := running.Next(ctx, 10, time.Second)
		if err != nil {
			break // the stream is not the one that it read
		}
		if len(msgs) > 0 || time.Now().After(end) {
			t.Fatalf("the running reader goes on with %+v", msgs)
		}
	}
	must.Do(t, running.Close(ctx))
	r := openReader(t, ctx, c, "a")
	msgs := readN(t, ctx, r, others)
	if msgs[0].Seq != 4 || msgs[0].Replay || msgs[0].Event.Exchange != testEvent(100, 0).Exchange {
		t.Errorf("read from %+v", msgs[0])
	}
	must.Do(t, r.Commit(ctx, uint64(3+others), 0))
}
