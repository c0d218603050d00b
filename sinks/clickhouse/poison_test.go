package clickhouse_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// A deadLetterLog collects dead letters.
type deadLetterLog struct {
	mu   sync.Mutex // guards rows
	rows []sinks.DeadRow
}

func (l *deadLetterLog) add(_ context.Context, d sinks.DeadRow) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = append(l.rows, d)
	return nil
}

func (l *deadLetterLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rows)
}

// runBatcher runs a Batcher on s until the test ends. add returns a channel that is closed when the rows are stored.
func runBatcher(t *testing.T, s sinks.Sink) (b *sinks.Batcher, dead *deadLetterLog, add func(*sinks.Batch) (stored <-chan struct{})) {
	t.Helper()
	cfg := sinks.DefaultBatcherConfig()
	cfg.FlushInterval, cfg.MaxBackoff = 10*time.Millisecond, 200*time.Millisecond
	b, dead = sinks.NewBatcher(s, cfg, slog.New(slog.DiscardHandler), nil), &deadLetterLog{}
	b.DeadLetter = dead.add
	must.Run(t, b.Run)
	return b, dead, func(rows *sinks.Batch) <-chan struct{} {
		stored := make(chan struct{})
		must.Do(t, b.Add(t.Context(), rows, func(context.Context) error { close(stored); return nil }))
		return stored
	}
}

func wait(t *testing.T, stored <-chan struct{}) {
	t.Helper()
	select {
	case <-stored:
	case <-time.After(5 * time.Minute):
		t.Fatal("not stored")
	}
}

func counts(t *testing.T, s *clickhouse.Sink) map[string]uint64 {
	t.Helper()
	return must.Get(s.Counts(t.Context()))(t)
}

// Rows that violate a constraint become dead letters; the other rows of the batch are stored.
func TestPoisonRows(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, sql := range []string{
		"ALTER TABLE exchanges ADD CONSTRAINT sane_tokens CHECK input_tokens < 1000000",
		"ALTER TABLE findings ADD CONSTRAINT has_summary CHECK summary != ''",
	} {
		must.Do(t, s.Exec(t.Context(), sql))
	}
	_, dead, add := runBatcher(t, s)
	rows := sinktest.Rows(0, 2000)
	rows.Exchanges[3].InputTokens, rows.Exchanges[1999].InputTokens, rows.Findings[700].Summary = 1<<40, 1<<41, ""
	want := []string{"findings " + rows.Findings[700].ID, "exchanges " + rows.Exchanges[3].ID, "exchanges " + rows.Exchanges[1999].ID}
	begun := time.Now()
	wait(t, add(rows))
	t.Logf("3 poison rows of 8,000 rows found in %v", time.Since(begun).Round(time.Millisecond))

	var got []string
	for _, d := range dead.rows {
		got = append(got, d.Table+" "+d.ID)
		if !strings.Contains(d.Err.Error(), "VIOLATED_CONSTRAINT") && !strings.Contains(d.Err.Error(), "is violated") || !strings.Contains(string(d.Row), d.ID) {
			t.Errorf("dead letter: %v %s", d.Err, d.Row)
		}
	}
	must.Agree(t, cmp.Diff(want, got), "dead letters")
	if n := counts(t, s); n["exchanges"] != 1998 || n["findings"] != 1999 || n["tool_calls"] != 2000 || n["alerts"] != 2000 {
		t.Errorf("stored: %v", n)
	}
}

// No row is lost if a table is altered: the batcher retries, reports the required action, and stores all rows once the table is repaired.
func TestChangedTable(t *testing.T) {
	t.Parallel()
	f := func(what, breaks, repairs, health string) {
		t.Helper()
		s := open(t)
		b, dead, add := runBatcher(t, s)
		wait(t, add(sinktest.Rows(0, 10)))
		must.Do(t, s.Exec(t.Context(), breaks), what)
		stored := add(sinktest.Rows(10, 500))
		must.Wait(t, what, func() bool { return b.Health() != nil })
		if err := b.Health(); err == nil || !strings.Contains(err.Error(), health) || !strings.Contains(err.Error(), "the change to the table") {
			t.Errorf("%s: health %v, want %q in it", what, err, health)
		}
		must.Do(t, s.Exec(t.Context(), repairs), what)
		wait(t, stored)
		n := counts(t, s)
		if n["exchanges"] != 510 || n["alerts"] != 510 || dead.count() != 0 || b.Health() != nil {
			t.Errorf("%s: stored %v, %d dead letters, health %v", what, n, dead.count(), b.Health())
		}
	}
	f("missing column", "ALTER TABLE exchanges RENAME COLUMN path TO old_path", "ALTER TABLE exchanges RENAME COLUMN old_path TO path", "path")
	f("missing table", "RENAME TABLE exchanges TO old", "RENAME TABLE old TO exchanges", "exchanges")
	f("constraint that no row satisfies", "ALTER TABLE exchanges ADD CONSTRAINT no CHECK status = 7", "ALTER TABLE exchanges DROP CONSTRAINT no", "`no`")
	f("materialised view that throws",
		"CREATE MATERIALIZED VIEW broken ENGINE = Memory AS SELECT throwIf(status > 0) AS x FROM exchanges", "DROP TABLE broken", "throwIf")
}

// ClickHouse converts the values if the type of a column was changed.
func TestChangedType(t *testing.T) {
	t.Parallel()
	s := open(t)
	must.Do(t, s.Write(t.Context(), sinktest.Rows(0, 10)))
	must.Do(t, s.Exec(t.Context(), "ALTER TABLE exchanges MODIFY COLUMN status String"))
	must.Do(t, s.Write(t.Context(), sinktest.Rows(10, 10)))
	n := counts(t, s)
	must.Equal(t, n["exchanges"], 20, "stored: %v", n)
}

// A column that cannot be filled is not an error of the network, which would be retried without a hint.
func TestUnfillableColumn(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	s := openDSN(t, dsn)
	must.Do(t, s.Exec(t.Context(), "ALTER TABLE exchanges MODIFY COLUMN tools String"))
	err := s.Write(t.Context(), sinktest.Rows(0, 3))
	if refused, ok := errors.AsType[*sinks.RowError](err); !ok || refused.Table != "exchanges" || err.Error() != "insert 3 exchanges: column tools is a String in ClickHouse" {
		t.Errorf("%T %v", err, err)
	}
}

// Write returns a RowError for refused rows and a RetryError with a hint for a changed table.
func TestWriteErrors(t *testing.T) {
	t.Parallel()
	s := open(t)
	must.Do(t, s.Exec(t.Context(), "ALTER TABLE exchanges ADD CONSTRAINT c CHECK status != 200"))
	err := s.Write(t.Context(), sinktest.Rows(0, 3))
	if refused, ok := errors.AsType[*sinks.RowError](err); !ok || refused.Table != "exchanges" || !strings.HasPrefix(err.Error(), "insert 3 exchanges: ") {
		t.Errorf("Write with a violated constraint: %T %v", err, err)
	}
	must.Do(t, s.Exec(t.Context(), "ALTER TABLE exchanges DROP CONSTRAINT c"))
	must.Do(t, s.Exec(t.Context(), "ALTER TABLE alerts DROP COLUMN summary"))
	err = s.Write(t.Context(), sinktest.Rows(0, 1))
	if later, ok := errors.AsType[*sinks.RetryError](err); !ok || later.Hint == "" || !strings.Contains(err.Error(), "insert 1 alerts: ") || !strings.Contains(err.Error(), "summary") {
		t.Errorf("Write with a missing column: %T %v", err, err)
	}
}
