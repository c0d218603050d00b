package main

import (
	"context"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/erase"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/user"
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

--user-name computes the hash of the user with the key of the hooks,
LLMTAP_SHAPE_KEY. Not deleted: counts, which contain no names, and the examples in the
counts of the last 2 h, which expire.`,
	Examples: `  llmtap forget --conversation order-7781 --dry-run
  llmtap forget --conversation order-7781 --yes
  llmtap forget --user 5b1c09f2e77a4d31 --yes
  LLMTAP_SHAPE_KEY=… llmtap forget --user-name ann@example.com --dry-run`,
	Run: runForget,
}

func runForget(ctx context.Context, c *command.Call) error {
	var subject clickhouse.ErasureSubject
	c.Parameters.StringVar(&subject.Conversation, "conversation", "", "`id` of the conversation")
	user.Flags(c, "the user", func(label string) { subject.User = label })
	dryRun := c.Parameters.Bool("dry-run", false, "report what would be deleted, delete nothing")
	yes := c.Parameters.Bool("yes", false, "delete")
	servers := connect.DirectFlags(c, "nats.url")
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	switch {
	case (subject.Conversation == "") == (subject.User == ""):
		return command.BadInputf("exactly one of --conversation, --user and --user-name is required; see llmtap forget --help")
	case !*yes && !*dryRun:
		return command.BadInputf("deletion is permanent: check with --dry-run, then confirm with --yes")
	}
	conn, err := servers.ConnectNATS(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return servers.WithClickHouse(ctx, func(sink *clickhouse.Sink) error {
		e := &erase.Eraser{NATS: conn, ClickHouse: sink, Settle: 3 * collector.RebalanceInterval, Progress: terminal.NewProgress(c.Stderr)}
		report, err := e.Run(ctx, subject, *dryRun)
		if err != nil {
			return err
		}
		return report.Write(c.Stdout, *format)
	})
}
