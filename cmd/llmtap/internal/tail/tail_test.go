package tail

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

type queryFunc func(params map[string]string) (*clickhouse.Result, error)

func (f queryFunc) Query(_ context.Context, _ string, params map[string]string) (*clickhouse.Result, error) {
	return f(params)
}

// Run retries while ClickHouse is unreachable, and then reads what it missed.
func TestRunRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var resumed time.Time // start of the first poll after the failure
		var out, stderr bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		query := func(params map[string]string) (*clickhouse.Result, error) {
			at, err := time.Parse("2006-01-02 15:04:05.000000000", params["from"])
			if err != nil {
				t.Error(err)
			}
			switch now := time.Since(start); {
			case now > 10*time.Minute:
				cancel()
			case now > 2*time.Minute && now < 8*time.Minute:
				return nil, errors.New("connection refused")
			}
			if time.Since(start) >= 8*time.Minute && resumed.IsZero() {
				resumed = at
			}
			return &clickhouse.Result{}, nil
		}
		tl := Tail{Out: &out, Stderr: &stderr}
		must.Do(t, tl.Run(ctx, queryFunc(query), start))
		if failed := start.Add(2 * time.Minute); resumed.IsZero() || resumed.After(failed) {
			t.Errorf("resumed from %v; ClickHouse failed at %v", resumed, failed)
		}
		must.Equal(t, stderr.String(), "ClickHouse unreachable, retrying: connection refused\nClickHouse reachable again\n", "stderr")
	})
}

// A call and its findings are written once, the findings below their call.
func TestPoll(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	exchanges := &clickhouse.Result{
		Columns: []clickhouse.Column{{Name: "exchange_id"}, {Name: "stored_at"}, {Name: "service"}, {Name: "stage"}, {Name: "status"}, {Name: "failed"}, {Name: "cause"}, {Name: "messages"}, {Name: "retry"}},
		Rows:    [][]any{{"x1", at, "shop", "planner", uint16(400), true, "orphan_tool_reply", uint32(3), uint32(0)}},
	}
	findings := &clickhouse.Result{
		Columns: []clickhouse.Column{{Name: "finding_id"}, {Name: "first_seen"}, {Name: "exchange_id"}, {Name: "severity"}, {Name: "rule_id"}, {Name: "summary"}, {Name: "fix"}},
		Rows:    [][]any{{"f1", at, "x1", "reject", "orphan_tool_reply", "message 2", "store it"}},
	}
	var out bytes.Buffer
	tl := Tail{Out: &out, Style: &terminal.Style{}, seen: map[string]time.Time{}}
	calls := 0
	q := queryFunc(func(map[string]string) (*clickhouse.Result, error) {
		if calls++; calls%2 == 1 {
			return exchanges, nil
		}
		return findings, nil
	})
	for range 2 {
		must.Do(t, tl.poll(t.Context(), q, at.Add(-time.Second)))
	}
	want := "09:30:00  shop/planner                                        400       0 s  3 messages  FAILED orphan_tool_reply\n" +
		"          reject orphan_tool_reply: message 2\n          fix: store it\n"
	must.Equal(t, out.String(), want, "output")
}
