package main

import (
	"context"
	"fmt"
	"io"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/show"
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
	flags := serverFlags(c)
	format := c.Format(command.Text, command.JSON, "body")
	if err := c.Parse(); err != nil {
		return err
	}
	id := c.Args[0]
	servers, err := flags.Load()
	if err != nil {
		return err
	}
	sink, err := openClickHouse(ctx, servers)
	if err != nil {
		return err
	}
	defer func() { _ = sink.Close() }() // only read
	store := show.Store{Q: sink}
	exchange, conversation, err := store.Resolve(ctx, id)
	switch {
	case err != nil:
		return err
	case exchange != "":
		return showExchange(ctx, c.Stdout, store, exchange, *format)
	case *format == "body":
		return command.BadInputf("%q is a conversation: --format body requires an exchange", id)
	}
	all, err := store.Conversation(ctx, conversation)
	if err != nil {
		return err
	}
	if *format == "json" {
		return all.JSON(c.Stdout)
	}
	return all.Text(c.Stdout)
}

// showExchange prints what there is, and is an error when that is not the whole.
func showExchange(ctx context.Context, w io.Writer, store show.Store, id, format string) error {
	e, err := store.Exchange(ctx, id)
	if err != nil {
		return err
	}
	body, whole := e.Body()
	switch {
	case format == "body" && whole:
		_, err = fmt.Fprintln(w, body)
	case format == "json":
		err = e.JSON(w)
	case format == "text":
		err = e.Text(w)
	}
	if err != nil || whole {
		return err
	}
	return fmt.Errorf("exchange %s is not stored as a whole; missing: %s", id, e.Missing[0])
}
