package sinks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A recorder is a Sink that logs its calls with the time since the start of the test.
type recorder struct {
	mu    sync.Mutex // guards log
	log   []string
	start time.Time
	write func(ctx context.Context, b *Batch) error // if nil, every write succeeds
}

func (r *recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf("%v ", time.Since(r.start))+fmt.Sprintf(format, args...))
}

func (r *recorder) Write(ctx context.Context, b *Batch) error {
	ids := make([]string, 0, b.Rows())
	for _, e := range b.Exchanges {
		ids = append(ids, e.ID)
	}
	r.add("write %s", strings.Join(ids, ","))
	if r.write != nil {
		return r.write(ctx, b)
	}
	return nil
}

func (r *recorder) Close() error { return nil }

func (r *recorder) commit(name string) func(context.Context) error {
	return func(context.Context) error {
		r.add("commit %s", name)
		return nil
	}
}

func (r *recorder) want(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	must.Agree(t, cmp.Diff(want, r.log), "events")
}

func rows(ids ...string) *Batch {
	b := &Batch{}
	for _, id := range ids {
		b.Exchanges = append(b.Exchanges, analyzer.Exchange{ID: id})
	}
	return b
}

// run starts a Batcher in a synctest bubble; stop cancels it and returns the error of Run.
func run(t *testing.T, cfg BatcherConfig, r *recorder) (b *Batcher, stop func() error) {
	t.Helper()
	r.start = time.Now()
	b = NewBatcher(r, cfg, slog.New(slog.DiscardHandler), nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	return b, func() error { cancel(); return <-done }
}

func mustAdd(t *testing.T, b *Batcher, batch *Batch, commit func(context.Context) error) {
	t.Helper()
	must.Do(t, b.Add(t.Context(), batch, commit), "Add")
}

func small(maxRows int) BatcherConfig {
	c := DefaultBatcherConfig()
	c.MaxRows = maxRows
	return c
}

func TestBatcherFlushInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		b, stop := run(t, DefaultBatcherConfig(), r)
		mustAdd(t, b, rows("a"), r.commit("1"))
		time.Sleep(600 * time.Millisecond)
		mustAdd(t, b, rows("b"), r.commit("2"))
		time.Sleep(600 * time.Millisecond)
		// The interval begins with the first row, and only the newest commit is called.
		r.want(t, "1s write a,b", "1s commit 2")
		// Nothing is written while no rows arrive.
		time.Sleep(time.Hour)
		mustAdd(t, b, rows("c"), nil)
		time.Sleep(2 * time.Second)
		must.Do(t, stop())
		r.want(t, "1s write a,b", "1s commit 2", "1h0m2.2s write c")
	})
}

// Under load, a batch waits longer to become larger.
func TestBatcherLargeFlushInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		c := DefaultBatcherConfig()
		c.MaxBytes = 8 * rows("a", "b").Bytes()
		b, stop := run(t, c, r)
		mustAdd(t, b, rows("a", "b"), nil)
		time.Sleep(2 * time.Second)
		r.want(t)
		time.Sleep(2 * time.Second)
		r.want(t, "3s write a,b")
		mustAdd(t, b, rows("c"), nil)
		time.Sleep(2 * time.Second)
		r.want(t, "3s write a,b", "5s write c")
		must.Do(t, stop())
	})
}

func TestBatcherWritesFullBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		b, stop := run(t, small(3), r)
		mustAdd(t, b, rows("a", "b"), nil)
		synctest.Wait()
		r.want(t)
		mustAdd(t, b, rows("c", "d"), nil)
		synctest.Wait()
		r.want(t, "0s write a,b,c,d")

		// A batch is also full by its size.
		big := rows("e")
		big.Exchanges[0].ErrorText = strings.Repeat("x", b.cfg.MaxBytes)
		mustAdd(t, b, big, nil)
		synctest.Wait()
		r.want(t, "0s write a,b,c,d", "0s write e")
		must.Do(t, stop())
	})
}

func TestBatcherCommitWithoutRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		b, stop := run(t, DefaultBatcherConfig(), r)
		mustAdd(t, b, &Batch{}, r.commit("1"))
		mustAdd(t, b, &Batch{}, nil)
		time.Sleep(2 * time.Second)
		r.want(t, "1s commit 1")
		must.Do(t, stop())
	})
}

// Add copies rows, because the caller reuses its batch.
func TestBatcherCopiesRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got map[string]string
		r := &recorder{write: func(_ context.Context, b *Batch) error { got = b.Alerts[0].Labels; return nil }}
		b, stop := run(t, DefaultBatcherConfig(), r)
		batch := rows("a")
		batch.Alerts = []Alert{{ID: "x", Labels: map[string]string{"stage": "planner"}}}
		mustAdd(t, b, batch, nil)
		batch.Exchanges[0].ID = "changed"
		batch.Alerts[0].Labels["stage"] = "changed"
		must.Do(t, stop())
		r.want(t, "0s write a")
		must.Equal(t, got["stage"], "planner", "stored alert has labels %v", got)
	})
}

// While one batch is written, another one is filled; Add blocks when both are full.
func TestBatcherBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{write: func(context.Context, *Batch) error { time.Sleep(time.Minute); return nil }}
		b, stop := run(t, small(2), r)
		mustAdd(t, b, rows("a", "b"), r.commit("1"))
		synctest.Wait()
		mustAdd(t, b, rows("c"), r.commit("2"))
		mustAdd(t, b, rows("d"), r.commit("3"))

		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must.Is(t, b.Add(short, rows("never"), nil), context.DeadlineExceeded, "Add with two full batches")
		mustAdd(t, b, rows("e"), r.commit("4")) // returns when the first batch is stored
		synctest.Wait()                         // the write of c,d has begun
		r.add("added e")
		if err := stop(); err != nil {
			// The write of c,d takes longer than the drain timeout, but this sink ignores its context.
			t.Fatal(err)
		}
		r.want(t, "0s write a,b", "1m0s commit 1", "1m0s write c,d", "1m0s added e", "2m0s commit 3", "2m0s write e", "3m0s commit 4")
	})
}

func TestBatcherRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := time.Now().Add(10 * time.Minute)
		var calls atomic.Int64
		r := &recorder{write: func(context.Context, *Batch) error {
			calls.Add(1)
			if time.Now().Before(up) {
				return &RetryError{Err: errors.New("connection refused")}
			}
			return nil
		}}
		b, stop := run(t, DefaultBatcherConfig(), r)
		mustAdd(t, b, rows("a"), r.commit("1"))
		time.Sleep(9 * time.Minute)
		attempts := calls.Load()
		// The backoff reaches its maximum after 8 attempts; then there are 4 to 8 attempts per minute.
		if attempts < 36 || attempts > 80 {
			t.Errorf("%d attempts in 9 minutes", attempts)
		}
		must.Equal(t, testutil.ToFloat64(b.metrics.retries), float64(attempts), "retries metric")
		time.Sleep(2 * time.Minute)
		r.mu.Lock()
		last := r.log[len(r.log)-1]
		r.mu.Unlock()
		if !strings.HasSuffix(last, "commit 1") {
			t.Errorf("last event: %s", last)
		}
		must.Do(t, stop())
	})
}

func TestBatcherFinalError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("no such column")
		r := &recorder{write: func(context.Context, *Batch) error { time.Sleep(time.Second); return boom }}
		b, stop := run(t, small(1), r)
		mustAdd(t, b, rows("a"), r.commit("1"))
		synctest.Wait()
		mustAdd(t, b, rows("b"), r.commit("2"))
		if err := b.Add(t.Context(), rows("c"), nil); !errors.Is(err, errStopped) || !errors.Is(err, boom) {
			t.Errorf("blocked Add: %v", err)
		}
		err := stop()
		want := "write batch of 1 row: no such column (2 rows not stored; they are read again at the next start)"
		must.Equal(t, fmt.Sprint(err), want, "Run")
		must.Equal(t, testutil.ToFloat64(b.metrics.dropped.WithLabelValues(reasonRejected)), 2, "dropped{reason=rejected}")
		r.want(t, "0s write a")
	})
}

func TestBatcherCommitError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("lease is lost")
		r := &recorder{}
		b, stop := run(t, DefaultBatcherConfig(), r)
		attempts := 0
		mustAdd(t, b, rows("a"), func(context.Context) error {
			if attempts++; attempts < 3 {
				return &RetryError{Err: errors.New("nats: timeout")}
			}
			return lost
		})
		time.Sleep(time.Minute)
		if err := stop(); !errors.Is(err, lost) || attempts != 3 {
			t.Errorf("Run: %v after %d attempts, want %v after 3", err, attempts, lost)
		}
		must.Equal(t, testutil.ToFloat64(b.metrics.dropped.WithLabelValues(reasonRejected)), 0, "dropped, although the row was stored")
	})
}

// When its context is done, Run stores the remaining rows.
func TestBatcherDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{write: func(ctx context.Context, _ *Batch) error {
			select {
			case <-time.After(5 * time.Second):
				return nil
			case <-ctx.Done():
				return &RetryError{Err: ctx.Err()}
			}
		}}
		b, stop := run(t, small(1), r)
		mustAdd(t, b, rows("a"), r.commit("1"))
		synctest.Wait()
		mustAdd(t, b, rows("b"), r.commit("2"))
		must.Do(t, stop())
		r.want(t, "0s write a", "5s commit 1", "5s write b", "10s commit 2")
		must.Is(t, b.Add(t.Context(), rows("c"), nil), errStopped, "Add after Run")
	})
}

func TestBatcherDrainTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{write: func(ctx context.Context, _ *Batch) error {
			<-ctx.Done()
			return &RetryError{Err: ctx.Err()}
		}}
		b, stop := run(t, small(1), r)
		mustAdd(t, b, rows("a"), r.commit("1"))
		synctest.Wait()
		mustAdd(t, b, rows("b"), r.commit("2"))
		err := stop()
		if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "store the last 2 rows within 10s") {
			t.Errorf("Run: %v", err)
		}
		must.Equal(t, time.Since(r.start), b.cfg.DrainTimeout, "Run ended after")
		must.Equal(t, testutil.ToFloat64(b.metrics.dropped.WithLabelValues(reasonShutdown)), 2, "dropped{reason=shutdown}")
		r.want(t, "0s write a")
	})
}

// Every row of concurrent Adds is written once.
func TestBatcherConcurrentAdds(t *testing.T) {
	var written int
	r := &recorder{start: time.Now(), write: func(_ context.Context, b *Batch) error { written += b.Rows(); return nil }}
	b := NewBatcher(r, small(7), slog.New(slog.DiscardHandler), nil)
	stop := must.Run(t, b.Run)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				if err := b.Add(t.Context(), rows("x", "y"), nil); err != nil {
					t.Errorf("Add: %v", err)
				}
			}
		})
	}
	wg.Wait()
	stop()
	must.Equal(t, written, 8000, "rows written")
}

func TestBatcherConfigValidate(t *testing.T) {
	f := func(change func(*BatcherConfig), want string) {
		t.Helper()
		c := DefaultBatcherConfig()
		change(&c)
		got := ""
		if err := c.Validate(); err != nil {
			got = err.Error()
		}
		must.Equal(t, got, want, "Validate")
	}
	f(func(*BatcherConfig) {}, "")
	f(func(c *BatcherConfig) { c.MaxRows = 0 }, "max_rows: 0 is not above 0")
	f(func(c *BatcherConfig) { c.FlushInterval = -1 }, "flush_interval: -1ns is not above 0")
	f(func(c *BatcherConfig) { c.LargeFlushInterval = 1 }, "large_flush_interval: 1ns is below flush_interval (1s)")
	f(func(c *BatcherConfig) { c.MaxBackoff = time.Millisecond }, "max_backoff: 1ms is below min_backoff (100ms)")
}

func TestMetricsLint(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newMetrics(reg)
	countRows(m.received, rows("a"), nil)
	countRows(m.written, rows("a"), nil)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}
