package main

import (
	"context"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/auditlog"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/erase"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/user"
	"github.com/llmtap/llmtap/dashboards/access"
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

--user-name computes the hash of the user with the key of the hooks, which is
LLMTAP_SHAPE_KEY, or else in the file shape.key of the data directory, or else
at nats.url. Calls of hooks without a key are deleted too. Not deleted: counts, which contain no names, and the examples in the
counts of the last 2 h, which expire.`,
	Examples: `  llmtap forget --conversation order-7781 --dry-run
  llmtap forget --conversation order-7781 --yes
  llmtap forget --user 5b1c09f2e77a4d31 --yes
  llmtap forget --user-name ann@example.com --dry-run`,
	Run: runForget,
}

func runForget(ctx context.Context, c *command.Call) error {
	conversation := c.Parameters.String("conversation", "", "`id` of the conversation")
	var users []string
	name := user.Flags(c, "the user", func(label string) { users = append(users, label) })
	dryRun := c.Parameters.Bool("dry-run", false, "report what would be deleted, delete nothing")
	yes := c.Parameters.Bool("yes", false, "delete")
	servers := connect.DirectFlags(c, "nats.url")
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	given := len(users)
	if err := name(ctx, servers.ShapeKey); err != nil {
		return err
	}
	switch {
	case (*conversation == "") == (len(users) == 0) || given > 1 || given == 1 && len(users) > 1 || len(users) > 2: // a name has two labels
		return command.BadInputf("exactly one of --conversation, --user and --user-name is required; see llmtap forget --help")
	case !*yes && !*dryRun:
		return command.BadInputf("deletion is permanent: check with --dry-run, then confirm with --yes")
	}
	var subjects []clickhouse.ErasureSubject
	if *conversation != "" {
		subjects = append(subjects, clickhouse.ErasureSubject{Conversation: *conversation})
	}
	for _, label := range users {
		subjects = append(subjects, clickhouse.ErasureSubject{User: label})
	}
	conn, err := servers.ConnectNATS(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return servers.WithClickHouse(ctx, func(sink *clickhouse.Sink) error {
		e := &erase.Eraser{NATS: conn, ClickHouse: sink, Settle: 3 * collector.RebalanceInterval, Progress: terminal.NewProgress(c.Stderr)}
		e.Record = func(r access.Record) error { return auditlog.Record(ctx, sink, c.Getenv, r) }
		report := &erase.Report{DryRun: *dryRun, Rows: map[string]uint64{}}
		for _, subject := range subjects {
			r, err := e.Run(ctx, subject, *dryRun)
			if err != nil {
				return err
			}
			report.Add(r)
		}
		return report.Write(c.Stdout, *format)
	})
}
