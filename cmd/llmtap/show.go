package main

import (
	"context"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/show"
)

var showCommand = &command.Command{
	Name:  "show",
	Args:  "ID",
	Short: "Show a stored exchange or conversation, with its faults marked",
	Long: `An exchange is shown with its messages, parameters, answer, cause and findings; a
conversation with the messages that each exchange added. Below a finding, lines
marked - show what the model said, lines marked + what the request contains instead.
A unique prefix of at least 8 characters is enough as ID.

--tool shows the calls of a tool with their arguments and replies.

--format body prints the request alone, as JSON. It differs from the sent request
in redacted values and in the white space between messages.

Exit code: 1 if the ID is unknown or its bodies are not stored.`,
	Examples: `  llmtap show 019aa0b0-3c1e-7d52-9f00-6a1b2c3d4e5f
  llmtap show order-7781
  llmtap show order-7781 --tool read_cart
  llmtap show order-7781 --format json
  llmtap show 019aa0b0-3c1e --format body | llmtap lint -`,
	Run: runShow,
}

func runShow(ctx context.Context, c *command.Call) error {
	var o show.Options
	c.Parameters.StringVar(&o.Tool, "tool", "", "`name`: show the calls of this tool, or the call with this id, and the replies")
	c.Parameters.BoolVar(&o.Full, "full", false, "do not shorten texts and lists of messages")
	c.Parameters.IntVar(&o.Limit, "limit", 50, "maximum `number` of exchanges of a conversation: failures first, then the newest; or of calls of a tool")
	servers := connect.Flags(c)
	format := c.Format(show.Formats...)
	o.Style = c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	if o.Limit < 1 {
		return command.BadInputf("--limit must be at least 1")
	}
	o.Format = *format
	return servers.WithStore(ctx, func(q rows.Querier) error {
		o.Pages = func() string { return servers.PagesURL(q) }
		return show.Store{Q: q}.Write(ctx, c.Stdout, c.Args[0], o)
	})
}
