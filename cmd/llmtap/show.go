package main

import (
	"context"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/show"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

var showCommand = &command.Command{
	Name:  "show",
	Args:  "ID",
	Short: "Show a stored exchange or conversation, with its faults marked",
	Long: `An exchange is shown with its messages, parameters, answer, cause, root cause and
the version that introduced the defect; a conversation with the messages that each
exchange added. A unique prefix of at least 8 characters is enough as ID.

--format body prints the request alone, as JSON. It differs from the sent request
in redacted values and in the white space between messages.

Exit code: 1 if the ID is unknown or its bodies are not stored.`,
	Examples: `  llmtap show 019aa0b0-3c1e-7d52-9f00-6a1b2c3d4e5f
  llmtap show order-7781
  llmtap show order-7781 --format json
  llmtap show 019aa0b0-3c1e --format body | llmtap lint -`,
	Run: runShow,
}

func runShow(ctx context.Context, c *command.Call) error {
	servers := connect.Flags(c)
	format := c.Format(command.Text, command.JSON, show.Body)
	if err := c.Parse(); err != nil {
		return err
	}
	return servers.WithClickHouse(ctx, func(sink *clickhouse.Sink) error {
		return show.Store{Q: sink}.Write(ctx, c.Stdout, c.Args[0], *format)
	})
}
