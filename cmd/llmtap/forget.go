package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

const forgetHelp = `Delete what is stored of a conversation or of a user: in the stream and its dead letters, and in ClickHouse calls,
findings, tool calls, runs, history, and the messages that nothing else refers to. What others share stays: prompts, and
conversations in which other users made calls, of which only the user's own calls go. It is deleted for good; doing it
again deletes what came since. A conversation that goes on is stored anew.

  llmtap forget --conversation order-7781 --dry-run
  llmtap forget --conversation order-7781 --yes
  llmtap forget --user 5b1c09f2e77a4d31 --yes

The user is what the label says, a hash unless hooks were told to keep it. Not touched: counts, which name nobody, and the
examples in the counts of the last 2 h, which end by themselves.`

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

func runForget(ctx context.Context, c *cli) error {
	fs := c.flags("forget", forgetHelp)
	var who clickhouse.Person
	fs.StringVar(&who.Conversation, "conversation", "", "`id` of the conversation")
	fs.StringVar(&who.User, "user", "", "`hash` of the user")
	dryRun := fs.Bool("dry-run", false, "delete nothing, say what would go")
	yes := fs.Bool("yes", false, "delete")
	natsURL := fs.String("nats-url", "", "NATS `url`; empty: that of the llmtap on --data-dir, else "+jetstream.Default().URL)
	dataDir := fs.String("data-dir", config.DefaultDataDir(c.getenv), "`directory` of a running llmtap with an embedded NATS or ClickHouse")
	dsn := fs.String("clickhouse-dsn", "", "ClickHouse `dsn`; empty: that of --data-dir")
	format := fs.String("format", "text", "output as `text|json`")
	if err := c.parse(fs); err != nil {
		return err
	}
	switch {
	case fs.NArg() > 0:
		return &exitError{exitBadInput, fmt.Errorf("%q is left over; see llmtap forget --help", fs.Arg(0))}
	case (who.Conversation == "") == (who.User == ""):
		return &exitError{exitBadInput, errors.New("whom? --conversation or --user; see llmtap forget --help")}
	case *format != "text" && *format != "json":
		return &exitError{exitBadInput, fmt.Errorf("format: %q is none of text, json", *format)}
	case !*yes && !*dryRun:
		return &exitError{exitBadInput, errors.New("this deletes for good; see what with --dry-run, then say --yes")}
	}
	if *natsURL == "" {
		*natsURL = jetstream.Default().URL
		if r, ok := findRunning(*dataDir); ok && r.NATSURL != "" {
			*natsURL = r.NATSURL
		}
	}
	conn, err := connectCollector(ctx, *natsURL)
	if err != nil {
		return err
	}
	defer conn.Close()
	sink, err := openStore(ctx, *dsn, *dataDir)
	if err != nil {
		return err
	}
	defer func() { _ = sink.Close() }() // what was deleted is deleted
	f := &forgetter{conn: conn, sink: sink, who: who, dryRun: *dryRun, progress: newProgress(c.stderr)}
	err = f.run(ctx)
	f.progress.clear()
	if err != nil {
		return fmt.Errorf("%w; what was found is deleted in part: run it again", err)
	}
	return f.report.print(c.stdout, *format)
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
	who      clickhouse.Person
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
	found, err := f.sink.Remember(ctx, f.who)
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
	return f.sink.Forget(ctx, found, before)
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
		return json.NewEncoder(w).Encode(r)
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
