// Package sinktest holds the contract that every sinks.Sink keeps, as tests.
package sinktest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/sinks"
)

// Run runs the contract. open returns an empty sink of its own for each call; count says how many rows of each table a
// reader of the sink sees, each id once: exchanges, findings, tool_calls, runs, messages, history, alerts. A table without rows may be left out.
func Run(t *testing.T, open func(t *testing.T) sinks.Sink, count func(t *testing.T, s sinks.Sink) map[string]uint64) {
	write := func(t *testing.T, s sinks.Sink, b *sinks.Batch) {
		t.Helper()
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatalf("Write: %v", err)
		}
	}
	want := func(t *testing.T, s sinks.Sink, want map[string]uint64) {
		t.Helper()
		got := map[string]uint64{}
		for table, n := range count(t, s) {
			if n > 0 {
				got[table] = n
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("rows (-want +got):\n%s", d)
		}
	}

	t.Run("write", func(t *testing.T) {
		s := open(t)
		defer closeSink(t, s)
		write(t, s, Rows(0, 10))
		want(t, s, all(10))
		write(t, s, Rows(10, 5))
		want(t, s, all(15))
	})

	t.Run("write keeps nothing of the batch", func(t *testing.T) {
		s := open(t)
		defer closeSink(t, s)
		b := Rows(0, 3)
		write(t, s, b)
		for i := range b.Exchanges {
			b.Exchanges[i].ID = "changed"
		}
		want(t, s, all(3))
	})

	t.Run("write twice doubles nothing", func(t *testing.T) {
		s := open(t)
		defer closeSink(t, s)
		b := Rows(0, 10)
		write(t, s, b)
		write(t, s, b)
		want(t, s, all(10))
		// Half of it again, in another batch with other rows.
		write(t, s, Rows(5, 10))
		want(t, s, all(15))
		// Twice in one batch.
		twice := Rows(20, 5)
		again := Rows(20, 5)
		twice.Exchanges = append(twice.Exchanges, again.Exchanges...)
		twice.Findings = append(twice.Findings, again.Findings...)
		twice.ToolCalls = append(twice.ToolCalls, again.ToolCalls...)
		twice.Contents = append(twice.Contents, again.Contents...)
		twice.History = append(twice.History, again.History...)
		twice.Runs = append(twice.Runs, again.Runs...)
		twice.Alerts = append(twice.Alerts, again.Alerts...)
		write(t, s, twice)
		want(t, s, all(20))
	})

	t.Run("a newer version replaces its row", func(t *testing.T) {
		s := open(t)
		defer closeSink(t, s)
		write(t, s, Rows(0, 10))
		write(t, s, Later(Rows(0, 10)))
		want(t, s, all(10))
		write(t, s, Rows(0, 10)) // the old one comes again
		want(t, s, all(10))
	})

	t.Run("empty batch", func(t *testing.T) {
		s := open(t)
		defer closeSink(t, s)
		write(t, s, &sinks.Batch{})
		want(t, s, map[string]uint64{})
	})

	t.Run("one table only", func(t *testing.T) {
		s := open(t)
		defer closeSink(t, s)
		write(t, s, &sinks.Batch{Findings: Rows(0, 4).Findings})
		want(t, s, map[string]uint64{"findings": 4})
	})

	t.Run("cancelled", func(t *testing.T) {
		s := open(t)
		defer closeSink(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := s.Write(ctx, Rows(0, 10))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Write with a cancelled context: %v, want context.Canceled", err)
		}
		write(t, s, Rows(0, 10))
		want(t, s, all(10))
	})

	// However far a write got, writing the batch again makes it whole.
	t.Run("cancelled mid-write", func(t *testing.T) {
		s := open(t)
		defer closeSink(t, s)
		b := Rows(0, 500)
		for _, d := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			_ = s.Write(ctx, b) // may or may not have finished
			cancel()
		}
		write(t, s, b)
		want(t, s, all(500))
	})

	t.Run("big batch", func(t *testing.T) {
		s := open(t)
		defer closeSink(t, s)
		write(t, s, Rows(0, 3000))
		want(t, s, all(3000))
	})

	t.Run("strings", func(t *testing.T) {
		s := open(t)
		defer closeSink(t, s)
		b := Rows(0, len(Strings))
		for i, text := range Strings {
			b.Exchanges[i].ErrorText, b.Exchanges[i].Labels.Stage, b.Exchanges[i].Labels.Service = text, text, text
			b.Findings[i].Summary, b.Findings[i].Evidence, b.Findings[i].ToolName = text, text, text
			b.ToolCalls[i].CallID, b.ToolCalls[i].Name, b.ToolCalls[i].ToolStatus = text, text, text
			b.Contents[i].Body, b.Contents[i].Kind = text, text
			b.History[i].Role, b.History[i].Service = text, text
			b.Runs[i].Labels.Run, b.Runs[i].Status, b.Runs[i].LastExchange = text, text, text
			b.Alerts[i].Summary, b.Alerts[i].Labels = text, map[string]string{"stage": text, text: "x"}
		}
		write(t, s, b)
		write(t, s, b)
		want(t, s, all(uint64(len(Strings))))
	})

	// Ids are compared as bytes and whole.
	t.Run("ids", func(t *testing.T) {
		s := open(t)
		defer closeSink(t, s)
		b := Rows(0, 4)
		for i, id := range []string{"a", "a\x00", "a\x00b", "A"} {
			b.Exchanges[i].ID, b.Findings[i].ID, b.ToolCalls[i].ID, b.Runs[i].ID, b.Alerts[i].ID = id, id, id, id, id
			b.Contents[i].ID, b.History[i].Branch = id, id
		}
		write(t, s, b)
		want(t, s, all(4))
	})

	// What a broken agent or clock can send must not stop the pipeline.
	t.Run("values out of range", func(t *testing.T) {
		s := open(t)
		defer closeSink(t, s)
		b := Rows(0, 3)
		for i, at := range []time.Time{{}, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC)} {
			b.Exchanges[i].StartedAt, b.Exchanges[i].StoredAt = at, at
			b.Exchanges[i].Status, b.Exchanges[i].Retry, b.Exchanges[i].Messages = -1, 1<<40, -7
			b.Exchanges[i].InputTokens, b.Exchanges[i].Duration = -1<<63, -time.Hour
			b.Findings[i].FirstSeen, b.Findings[i].Message = at, -1
			b.ToolCalls[i].AskedAt, b.ToolCalls[i].AnsweredAt, b.ToolCalls[i].StartedAt, b.ToolCalls[i].EndedAt = at, at, at, at
			b.Runs[i].SeenAt, b.Runs[i].StartedAt, b.Runs[i].EndedAt, b.Runs[i].Calls = at, at, at, -1
			b.Contents[i].SeenAt, b.Contents[i].Bytes, b.History[i].SeenAt, b.History[i].Shared = at, -1, at, -1
			b.Alerts[i].StartedAt, b.Alerts[i].EndedAt, b.Alerts[i].Labels, b.Alerts[i].Shares = at, at, nil, nil
		}
		write(t, s, b)
		want(t, s, all(3))
	})

	t.Run("many months in one batch", func(t *testing.T) {
		s := open(t)
		defer closeSink(t, s)
		b := Rows(0, 150)
		for i := range b.Exchanges {
			b.Exchanges[i].StartedAt = b.Exchanges[i].StartedAt.AddDate(0, -i, 0)
		}
		write(t, s, b)
		want(t, s, all(150))
	})

	t.Run("close twice", func(t *testing.T) {
		s := open(t)
		write(t, s, Rows(0, 1))
		closeSink(t, s)
		closeSink(t, s)
		if err := s.Write(t.Context(), Rows(1, 1)); !errors.Is(err, sinks.ErrClosed) {
			t.Errorf("Write after Close: %v, want sinks.ErrClosed", err)
		}
	})
}

// Strings are texts that have broken stores before: empty, several scripts, control characters, NUL, quotes, an
// invalid byte, and one of 1 MB.
var Strings = []string{
	"", " ", "规划器 🛠️ é e\u0301 \u202e", "tab\tnewline\ncr\r", "nul\x00inside", "\x00", `quote ' " \ ` + "`", `\N`, "NULL",
	"a\xffb", "{name:String} ? $1 @x %s", strings.Repeat("x", 1<<20),
}

func all(n uint64) map[string]uint64 {
	return map[string]uint64{"exchanges": n, "findings": n, "tool_calls": n, "runs": n, "messages": n, "history": n, "alerts": n}
}

func closeSink(t *testing.T, s sinks.Sink) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
