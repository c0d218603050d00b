package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

var forgetCommand = &command.Command{
	Name:  "forget",
	Short: "Delete the stored data of a conversation or a user",
	Long: `Deletes from the event stream and its dead letters, and from ClickHouse: calls,
findings, tool calls, runs, history, and messages without other references. Data
shared with others stays: prompts, and the calls of other users in the same
conversation. Deletion is permanent. Events published later are stored; run it
again to delete them.

The user is the value of the label, a hash unless the hooks are configured to keep
user ids. Not deleted: counts, which contain no names, and the examples in the
counts of the last 2 h, which expire.`,
	Examples: `  llmtap forget --conversation order-7781 --dry-run
  llmtap forget --conversation order-7781 --yes
  llmtap forget --user 5b1c09f2e77a4d31 --yes`,
	Run: runForget,
}

// forgetSettle is how long analyzers may take to hear that something is forgotten, and to store what they have in hand.
const forgetSettle = 3 * leaseRetry

// forgetReport is what --format json prints.
type forgetReport struct {
	DryRun      bool              `json:"dry_run"`
	Read        uint64            `json:"read"` // messages of the stream that were looked at
	Events      uint64            `json:"events"`
	DeadLetters uint64            `json:"dead_letters"`
	Rows        map[string]uint64 `json:"rows"` // by table; of alerts those whose example was removed
}

func runForget(ctx context.Context, c *command.Call) error {
	var who clickhouse.ErasureSubject
	c.Parameters.StringVar(&who.Conversation, "conversation", "", "`id` of the conversation")
	c.Parameters.StringVar(&who.User, "user", "", "`hash` of the user")
	dryRun := c.Parameters.Bool("dry-run", false, "report what would be deleted, delete nothing")
	yes := c.Parameters.Bool("yes", false, "delete")
	flags := serverFlags(c, "nats.url")
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	switch {
	case (who.Conversation == "") == (who.User == ""):
		return command.BadInputf("exactly one of --conversation and --user is required; see llmtap forget --help")
	case !*yes && !*dryRun:
		return command.BadInputf("deletion is permanent: check with --dry-run, then confirm with --yes")
	}
	servers, err := flags.Load()
	if err != nil {
		return err
	}
	conn, err := connectNATS(ctx, servers)
	if err != nil {
		return err
	}
	defer conn.Close()
	sink, err := openClickHouse(ctx, servers)
	if err != nil {
		return err
	}
	defer func() { _ = sink.Close() }() // what was deleted is deleted
	f := &forgetter{conn: conn, sink: sink, who: who, dryRun: *dryRun, progress: newProgress(c.Stderr)}
	err = f.run(ctx)
	f.progress.clear()
	if err != nil {
		return fmt.Errorf("%w; what was found is deleted in part: run it again", err)
	}
	return f.report.print(c.Stdout, *format)
}

// A forgetter deletes what is stored of one conversation or user.
//
//	say so ──> analyzers store anew what comes ──> stream, dead letters ──> messages, history, …, exchanges
//
// The stream goes first, or its events would become rows again; exchanges go last, for by them the rest is found when it is
// run again.
type forgetter struct {
	conn     *jetstream.Conn
	sink     *clickhouse.Sink
	who      clickhouse.ErasureSubject
	dryRun   bool
	progress *progress
	report   forgetReport
}

func (f *forgetter) run(ctx context.Context) error {
	var before time.Time
	if !f.dryRun {
		live, now, err := f.conn.AnnounceErasure(ctx)
		if err != nil {
			return fmt.Errorf("tell analyzers: %w", err)
		}
		if before = now; live {
			f.progress.say("waiting %v until the analyzer knows", forgetSettle)
			pause(ctx, forgetSettle)
		}
	}
	found, err := f.sink.PlanErasure(ctx, f.who)
	if err != nil {
		return fmt.Errorf("look up what is stored: %w", err)
	}
	person := jetstream.ErasureSubject{Conversation: f.who.Conversation, User: f.who.User, Exchanges: map[string]struct{}{}, Inferred: found.Inferred}
	for _, id := range found.Exchanges {
		person.Exchanges[id] = struct{}{}
	}
	gone, err := f.conn.Erase(ctx, person, f.dryRun, f.progress.read)
	if err != nil {
		return err
	}
	f.report = forgetReport{DryRun: f.dryRun, Read: gone.Scanned, Events: gone.Events, DeadLetters: gone.DeadLetters, Rows: found.Rows}
	if f.dryRun {
		return nil
	}
	return f.sink.Erase(ctx, found, before)
}

// read shows on a terminal how far the stream is read.
func (p *progress) read(n, of uint64) {
	if now := time.Now(); p.live && now.After(p.next) {
		p.next, p.shown = now.Add(200*time.Millisecond), true
		fmt.Fprintf(p.w, "\r\x1b[K%d of %d messages of the stream read", n, of)
	}
}

func (r *forgetReport) print(w io.Writer, format string) error {
	if format == "json" {
		return command.WriteJSON(w, r)
	}
	verb := "deleted"
	if r.DryRun {
		verb = "would be deleted"
	}
	fmt.Fprintf(w, "%s:\n", verb)
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
