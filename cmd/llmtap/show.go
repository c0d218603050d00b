package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/show"
)

const showHelp = `Show a stored call or a conversation, as it was sent: an exchange with its messages, the broken one marked, its
parameters, answer, cause, root cause and whose change it was; a conversation with what each exchange added to it. The
first 8 characters of an id are enough where no other begins so.

  llmtap show 019aa0b0-3c1e-7d52-9f00-6a1b2c3d4e5f
  llmtap show order-7781
  llmtap show 019aa0b0-3c1e --format body | llmtap lint -
  llmtap show order-7781 --format json

The format body is the request alone, as JSON that differs from what was sent in what is redacted and in the space between
messages. Exit code 1: there is no such id, or what was asked for is not stored.`

func runShow(ctx context.Context, c *cli) error {
	fs := c.flags("show", showHelp)
	dataDir := fs.String("data-dir", config.DefaultDataDir(c.getenv), "`directory` of a running llmtap with an embedded ClickHouse")
	dsn := fs.String("clickhouse-dsn", "", "ClickHouse `dsn`; empty: that of --data-dir")
	format := fs.String("format", "text", "output as `text|json|body`")
	id := ""
	if err := c.parse(fs); err != nil {
		return err
	}
	if fs.NArg() > 0 { // the id may stand before the flags
		id, c.args = fs.Arg(0), fs.Args()[1:]
		if err := c.parse(fs); err != nil {
			return err
		}
	}
	switch {
	case id == "":
		return &exitError{exitBadInput, errors.New("of which exchange or conversation? see llmtap show --help")}
	case fs.NArg() > 0:
		return &exitError{exitBadInput, fmt.Errorf("%q is left over: one id at a time", fs.Arg(0))}
	case *format != "text" && *format != "json" && *format != "body":
		return &exitError{exitBadInput, fmt.Errorf("format: %q is none of text, json, body", *format)}
	}
	sink, err := openStore(ctx, *dsn, *dataDir)
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
		return showExchange(ctx, c.stdout, store, exchange, *format)
	case *format == "body":
		return &exitError{exitBadInput, fmt.Errorf("%q is a conversation: the format body is of one exchange", id)}
	}
	all, err := store.Conversation(ctx, conversation)
	if err != nil {
		return err
	}
	if *format == "json" {
		return all.JSON(c.stdout)
	}
	return all.Text(c.stdout)
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
