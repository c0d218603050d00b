package main

import (
	"context"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/regression"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/show"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

var showCommand = &command.Command{
	Name:  "show",
	Args:  "ID",
	Short: "Show a stored call or conversation, with its faults marked",
	Long: `A call is shown with its messages, parameters, answer, cause and findings; a
conversation with the messages that each call added. Below a finding, lines
marked - show what the model said, lines marked + what the request contains instead.
A unique prefix of at least 8 characters is enough as ID.

--tool shows the calls of a tool with their arguments and replies.

--format body prints the request alone, as JSON. It differs from the sent request
in redacted values and in the white space between messages. llmtap lint also reads
--format jsonl.

--as-test writes a test for the repository of the agent. It runs the agent against
a provider on loopback that returns the recorded answers of the model, shortened
as far as the fault stays, with secrets masked, and fails if the provider would
reject a request of the agent. Edit the line marked EDIT, which starts the agent;
run the test before the fix, too: it must fail. If it does not, the agent needs the
whole answers: add --full.

Exit code: 1 if the ID is unknown, its bodies are not stored, or no test of it is
possible.`,
	Examples: `  llmtap show 019aa0b0-3c1e-7d52-9f00-6a1b2c3d4e5f
  llmtap show order-7781
  llmtap show order-7781 --tool read_cart
  llmtap show order-7781 --format json
  llmtap show order-7781 --format jsonl | llmtap lint -
  llmtap show 019aa0b0-3c1e --format body | llmtap lint -
  llmtap show 019aa0b0-3c1e --as-test pytest > tests/test_orphan_reply.py
  llmtap show 019aa0b0-3c1e --as-test go > agent/orphan_reply_test.go`,
	Run: runShow,
}

func runShow(ctx context.Context, c *command.Call) error {
	var o show.Options
	c.Parameters.StringVar(&o.Tool, "tool", "", "`name`: show the calls of this tool, or the call with this id, and the replies")
	c.Parameters.BoolVar(&o.Full, "full", false, "do not shorten texts and lists of messages")
	c.Parameters.IntVar(&o.Limit, "limit", 50, "maximum `number` of calls of a conversation: failures first, then the newest; or of calls of a tool")
	asTest := c.Choice(c.Parameters, "as-test", "", "write a `test` for the repository of the agent", regression.Pytest, regression.Go)
	servers := connect.Flags(c)
	format := c.Format(show.Formats...)
	o.Style = c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	if o.Limit < 1 {
		return command.BadInputf("--limit must be at least 1")
	}
	if *asTest != "" && (o.Tool != "" || *format != command.Text) {
		return command.BadInputf("--as-test excludes --tool and --format")
	}
	o.Format = *format
	return servers.WithStore(ctx, func(q rows.Querier) error {
		if *asTest != "" {
			return writeTest(ctx, c, show.Store{Q: q}, *asTest, o.Full)
		}
		o.Pages = func() string { return servers.PagesURL(q) }
		return show.Store{Q: q}.Write(ctx, c.Stdout, c.Args[0], o)
	})
}

// writeTest writes the fault of an exchange or a conversation as a test.
func writeTest(ctx context.Context, c *command.Call, s show.Store, format string, full bool) error {
	e, recorded, fault, err := s.Case(ctx, c.Args[0])
	if err != nil {
		return err
	}
	return regression.Write(terminal.Exact(c.Stdout), recorded, fault, regression.Options{
		Format: format, Exchange: e.ID, Stream: e.Stream, Shaped: e.Capture == event.CaptureShape, Full: full,
	})
}
