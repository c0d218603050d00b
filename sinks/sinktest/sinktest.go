// Package sinktest tests the contract of sinks.Sink.
package sinktest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"

	"github.com/llmtap/llmtap/sinks"
)

// Run runs the contract tests. open returns a new empty sink; count returns the number of rows in each table as seen by
// a reader of the sink, counting each id once. Tables without rows may be omitted.
func Run(t *testing.T, open func(t *testing.T) sinks.Sink, count func(t *testing.T, s sinks.Sink) map[string]uint64) {
	write := func(t *testing.T, s sinks.Sink, b *sinks.Batch) {
		t.Helper()
		must.Do(t, s.Write(t.Context(), b), "Write")
	}
	want := func(t *testing.T, s sinks.Sink, want map[string]uint64) {
		t.Helper()
		got := map[string]uint64{}
		for table, n := range count(t, s) {
			if n > 0 {
				got[table] = n
			}
		}
		must.Agree(t, cmp.Diff(want, got), "rows")
	}
	run := func(name string, test func(t *testing.T, s sinks.Sink)) {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			defer closeSink(t, s)
			test(t, s)
		})
	}

	run("write", func(t *testing.T, s sinks.Sink) {
		write(t, s, Rows(0, 10))
		want(t, s, all(10))
		write(t, s, Rows(10, 5))
		want(t, s, all(15))
	})

	run("write does not keep the batch", func(t *testing.T, s sinks.Sink) {
		b := Rows(0, 3)
		write(t, s, b)
		for i := range b.Exchanges {
			b.Exchanges[i].ID = "changed"
		}
		want(t, s, all(3))
	})

	run("writing twice duplicates nothing", func(t *testing.T, s sinks.Sink) {
		b := Rows(0, 10)
		write(t, s, b)
		write(t, s, b)
		want(t, s, all(10))
		// Half of the rows again, in a batch with other rows.
		write(t, s, Rows(5, 10))
		want(t, s, all(15))
		// The same rows twice in one batch.
		twice := Rows(20, 5)
		twice.Append(Rows(20, 5))
		write(t, s, twice)
		want(t, s, all(20))
	})

	run("newer version replaces row", func(t *testing.T, s sinks.Sink) {
		write(t, s, Rows(0, 10))
		write(t, s, Later(Rows(0, 10)))
		want(t, s, all(10))
		write(t, s, Rows(0, 10)) // the old version again
		want(t, s, all(10))
	})

	run("empty batch", func(t *testing.T, s sinks.Sink) {
		write(t, s, &sinks.Batch{})
		want(t, s, map[string]uint64{})
	})

	run("one table only", func(t *testing.T, s sinks.Sink) {
		write(t, s, &sinks.Batch{Findings: Rows(0, 4).Findings})
		want(t, s, map[string]uint64{"findings": 4})
	})

	run("cancelled", func(t *testing.T, s sinks.Sink) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must.Is(t, s.Write(ctx, Rows(0, 10)), context.Canceled, "Write with a cancelled context")
		write(t, s, Rows(0, 10))
		want(t, s, all(10))
	})

	// Writing the batch again completes an interrupted write.
	run("cancelled mid-write", func(t *testing.T, s sinks.Sink) {
		b := Rows(0, 500)
		for _, d := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			_ = s.Write(ctx, b) // may or may not complete
			cancel()
		}
		write(t, s, b)
		want(t, s, all(500))
	})

	run("big batch", func(t *testing.T, s sinks.Sink) {
		write(t, s, Rows(0, 3000))
		want(t, s, all(3000))
	})

	run("strings", func(t *testing.T, s sinks.Sink) {
		b := Rows(0, len(Strings))
		for i, text := range Strings {
			b.Exchanges[i].ErrorText, b.Exchanges[i].Labels.Stage, b.Exchanges[i].Labels.Service = text, text, text
			b.Findings[i].Summary, b.Findings[i].Evidence, b.Findings[i].ToolName = text, text, text
			b.ToolCalls[i].CallID, b.ToolCalls[i].Name, b.ToolCalls[i].ToolStatus = text, text, text
			b.Contents[i].Body, b.Contents[i].Kind = text, text
			b.History[i].Role, b.History[i].Service = text, text
			b.Runs[i].Labels.Run, b.Runs[i].Status, b.Runs[i].LastExchange = text, text, text
			b.Alerts[i].Summary, b.Alerts[i].Labels = text, map[string]string{"stage": text, text: "x"}
			b.Actions[i].Comment, b.Actions[i].Actor, b.Actions[i].Via = text, text, text
		}
		write(t, s, b)
		write(t, s, b)
		want(t, s, all(uint64(len(Strings))))
	})

	// Ids are compared byte by byte, including NUL.
	run("ids", func(t *testing.T, s sinks.Sink) {
		b := Rows(0, 4)
		for i, id := range []string{"a", "a\x00", "a\x00b", "A"} {
			b.Exchanges[i].ID, b.Findings[i].ID, b.ToolCalls[i].ID, b.Runs[i].ID, b.Alerts[i].ID = id, id, id, id, id
			b.Contents[i].ID, b.History[i].Branch, b.Actions[i].ID = id, id, id
		}
		write(t, s, b)
		want(t, s, all(4))
	})

	// Values from a broken agent or clock must not stop the pipeline.
	run("values out of range", func(t *testing.T, s sinks.Sink) {
		b := Rows(0, 3)
		for i, at := range []time.Time{{}, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC)} {
			b.Exchanges[i].StartedAt, b.Exchanges[i].StoredAt = at, at
			b.Exchanges[i].Status, b.Exchanges[i].Retry, b.Exchanges[i].Messages = -1, 1<<40, -7
			b.Exchanges[i].InputTokens, b.Exchanges[i].Duration = -1<<63, -time.Hour
			b.Findings[i].FirstSeen, b.Findings[i].StoredAt, b.Findings[i].Message = at, at, -1
			b.ToolCalls[i].AskedAt, b.ToolCalls[i].StoredAt, b.ToolCalls[i].AnsweredAt, b.ToolCalls[i].StartedAt, b.ToolCalls[i].EndedAt = at, at, at, at, at
			b.Runs[i].SeenAt, b.Runs[i].StartedAt, b.Runs[i].EndedAt, b.Runs[i].Calls = at, at, at, -1
			b.Contents[i].SeenAt, b.Contents[i].Bytes, b.History[i].SeenAt, b.History[i].Shared = at, -1, at, -1
			b.Alerts[i].StartedAt, b.Alerts[i].EndedAt, b.Alerts[i].Labels, b.Alerts[i].Shares = at, at, nil, nil
			b.Actions[i].At, b.Actions[i].EndsAt = at, at
		}
		write(t, s, b)
		want(t, s, all(3))
	})

	run("many months in one batch", func(t *testing.T, s sinks.Sink) {
		b := Rows(0, 101) // by default, ClickHouse refuses rows of more than 100 partitions
		for i := range b.Exchanges {
			b.Exchanges[i].StartedAt = b.Exchanges[i].StartedAt.AddDate(0, -i, 0)
		}
		write(t, s, b)
		want(t, s, all(101))
	})

	t.Run("close twice", func(t *testing.T) {
		s := open(t)
		write(t, s, Rows(0, 1))
		closeSink(t, s)
		closeSink(t, s)
		must.Is(t, s.Write(t.Context(), Rows(1, 1)), sinks.ErrClosed, "Write after Close")
	})
}

// Strings are texts of kinds that have caused errors in stores: empty, several scripts, control characters, quotes,
// invalid UTF-8, 1 MB.
var Strings = []string{
	"", " ", "规划器 🛠️ é e\u0301 \u202e", "tab\tnewline\ncr\r", "nul\x00inside", "\x00", `quote ' " \ ` + "`", `\N`, "NULL",
	"a\xffb", "{name:String} ? $1 @x %s", strings.Repeat("x", 1<<20),
}

func all(n uint64) map[string]uint64 {
	counts := map[string]uint64{}
	for _, t := range sinks.Tables {
		counts[t.Name()] = n
	}
	return counts
}

func closeSink(t *testing.T, s sinks.Sink) {
	t.Helper()
	must.Do(t, s.Close(), "Close")
}
