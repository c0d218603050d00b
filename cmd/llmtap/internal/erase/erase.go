// Package erase deletes the stored data of a conversation or a user.
package erase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A Report counts deleted data, or the data that would be deleted.
type Report struct {
	DryRun      bool              `json:"dry_run"`
	Scanned     uint64            `json:"scanned"` // messages scanned in the stream
	Events      uint64            `json:"events"`
	DeadLetters uint64            `json:"dead_letters"`
	Rows        map[string]uint64 `json:"rows"` // rows by table; for alerts, the rows whose example is removed
}

// An Eraser deletes data from NATS and ClickHouse in this order:
//
//	announce ──> analyzers emit later bodies again ──> stream, dead letters ──> messages, history, …, exchanges
//
// The stream comes first, because its events would become rows again. Exchanges come last, because a repeated run needs them
// to find the other rows.
type Eraser struct {
	NATS       *jetstream.Conn
	ClickHouse *clickhouse.Sink
	Settle     time.Duration // time for analyzers to read the announcement and store pending rows
	Progress   *terminal.Progress
	Record     func(access.Record) error // stores what is done in the audit, before it is done and after
}

// Run deletes the data of subject. A dry run deletes nothing, and is not recorded.
func (e *Eraser) Run(ctx context.Context, subject clickhouse.ErasureSubject, dryRun bool) (report *Report, err error) {
	defer e.Progress.Clear()
	if !dryRun {
		r := access.Record{Action: access.Erase, Target: cmp.Or(subject.Conversation, subject.User), Route: "llmtap forget", Outcome: access.Started}
		if err := e.Record(r); err != nil {
			return nil, err
		}
		defer func() {
			if r.Outcome, r.Detail = access.Failed, ""; err == nil {
				r.Outcome, r.Detail = access.Done, fmt.Sprintf("%d events, %d dead letters, %d calls", report.Events, report.DeadLetters, report.Rows["exchanges"])
			}
			err = errors.Join(err, e.Record(r))
		}()
	}
	return e.run(ctx, subject, dryRun)
}

func (e *Eraser) run(ctx context.Context, subject clickhouse.ErasureSubject, dryRun bool) (*Report, error) {
	var announced time.Time
	if !dryRun {
		live, now, err := e.NATS.AnnounceErasure(ctx)
		if err != nil {
			return nil, fmt.Errorf("announce the deletion to analyzers: %w", err)
		}
		if announced = now; live {
			e.Progress.Printf("waiting %v for the analyzers", e.Settle)
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(e.Settle):
			}
		}
	}
	plan, err := e.ClickHouse.PlanErasure(ctx, subject)
	if err != nil {
		return nil, fmt.Errorf("find the rows to delete: %w", err)
	}
	inStream := jetstream.ErasureSubject{Conversation: subject.Conversation, User: subject.User, Exchanges: map[string]struct{}{}, Inferred: plan.Inferred}
	for _, id := range plan.Exchanges {
		inStream.Exchanges[id] = struct{}{}
	}
	erased, err := e.NATS.Erase(ctx, inStream, dryRun, func(scanned, total uint64) {
		e.Progress.Status("%d of %d messages of the stream scanned", scanned, total)
	})
	if err == nil && !dryRun {
		err = e.ClickHouse.Erase(ctx, plan, announced, func(step, total int) {
			e.Progress.Status("step %d of %d in ClickHouse, %d calls in %d conversations", step+1, total, len(plan.Exchanges), len(plan.Conversations))
		})
	}
	if err != nil {
		return nil, fmt.Errorf("%w; the deletion is incomplete, run it again", err)
	}
	return &Report{DryRun: dryRun, Scanned: erased.Scanned, Events: erased.Events, DeadLetters: erased.DeadLetters, Rows: plan.Rows}, nil
}

// Add adds the counts of another subject.
func (r *Report) Add(other *Report) {
	r.Scanned, r.Events, r.DeadLetters = r.Scanned+other.Scanned, r.Events+other.Events, r.DeadLetters+other.DeadLetters
	for table, n := range other.Rows {
		r.Rows[table] += n
	}
}

// Write writes the report as text or json.
func (r *Report) Write(w io.Writer, format string) error {
	if format == command.JSON {
		return command.WriteJSON(w, r)
	}
	title := "deleted"
	if r.DryRun {
		title = "would be deleted"
	}
	fmt.Fprintf(w, "%s:\n", title)
	for _, line := range []struct {
		name string
		n    uint64
	}{
		{"events in the stream", r.Events},
		{"dead letters", r.DeadLetters},
		{"exchanges", r.Rows["exchanges"]},
		{"findings", r.Rows["findings"]},
		{"tool calls", r.Rows["tool_calls"]},
		{"runs", r.Rows["runs"]},
		{"history", r.Rows["history"]},
		{"messages", r.Rows["messages"]},
		{"examples of alerts", r.Rows["alerts"]},
	} {
		if _, err := fmt.Fprintf(w, "  %-22s %8d\n", line.name, line.n); err != nil {
			return err
		}
	}
	return nil
}
