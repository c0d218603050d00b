package httpd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"
	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/chdb/engine"
	"github.com/llmtap/llmtap/sinks/sqltext"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A request waits for a slot until the timeout or until its client has disconnected.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Config{MaxConcurrentQueries: 1})
		release := must.Get(h.slot(t.Context()))(t)
		start := time.Now()
		_, err := h.slot(t.Context())
		var ex *engine.Error
		if !errors.As(err, &ex) || ex.Code != int(proto.ErrTooManySimultaneousQueries) || time.Since(start) != slotTimeout {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		must.Is(t, must.Err(h.slot(gone)), context.Canceled)
		time.AfterFunc(time.Second, release)
		release, err = h.slot(t.Context())
		must.Do(t, err)
		release()
	})
}

// Truncated compressed frames are errors, unless they are truncated between frames.
func TestFrameReader(t *testing.T) {
	var frames bytes.Buffer
	ends := map[int]bool{0: true}
	w := compress.NewWriter(compress.LevelZero, compress.LZ4)
	for _, s := range []string{"first frame", "second"} {
		must.Do(t, w.Compress([]byte(s)))
		frames.Write(w.Data)
		ends[frames.Len()] = true
	}
	for cut := range frames.Len() + 1 {
		for name, r := range map[string]io.Reader{
			"whole":    bytes.NewReader(frames.Bytes()[:cut]),
			"by byte":  iotest.OneByteReader(bytes.NewReader(frames.Bytes()[:cut])),
			"with EOF": iotest.DataErrReader(bytes.NewReader(frames.Bytes()[:cut])),
		} {
			_, err := io.Copy(io.Discard, &frameReader{r: r})
			must.Equal(t, ends[cut], err == nil, "%s, truncated at %d: %v", name, cut, err)
		}
	}
}

func TestSetSQL(t *testing.T) {
	q := &request{comment: "c'", settings: []setting{{"a", `x\'; DROP TABLE t`}, {"b", "1"}}}
	must.Equal(t, q.setSQL(), `SET log_comment = 'c\'', a = 'x\\\'; DROP TABLE t', b = '1'`, "setSQL")
	must.Equal(t, q.resetSQL(), "SET log_comment = DEFAULT, a = DEFAULT, b = DEFAULT", "resetSQL")
	must.Equal(t, sqltext.QuoteName("a`b\\"), "`a\\`b\\\\`", "QuoteName")
}
