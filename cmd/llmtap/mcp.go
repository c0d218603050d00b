package main

import (
	"context"
	"io"
	"log/slog"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/mcpserver"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/problems"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/silences"
)

var mcpCommand = &command.Command{
	Name:  "mcp",
	Short: "Answer a coding agent over the Model Context Protocol",
	Long: `Serves MCP on standard input and output until the input ends, with tools that
change nothing: whats_wrong, problems, incident, show, query, sql, explain, lint,
repair, rules, backtest. The stored data is found as by llmtap show, at each call. A
collector also serves them over HTTP, at /mcp of its listen address, with its
http.token, or one of llmtap token create, as bearer token.

With --act, or at /mcp?act=true, which needs the role responder, there are also
acknowledge, assign, resolve, silence and reopen. They are recorded with your name.

The texts of messages are withheld, because answers go to the provider of the
coding agent's model; with --content, or at /mcp?content=true, they are returned.

To add it to Claude Code, Cursor (in .cursor/mcp.json) and VS Code:
  claude mcp add llmtap -- llmtap mcp
  {"mcpServers": {"llmtap": {"command": "llmtap", "args": ["mcp"]}}}
  code --add-mcp '{"name":"llmtap","command":"llmtap","args":["mcp"]}'`,
	Examples: `  claude mcp add llmtap -- llmtap mcp
  claude mcp add llmtap -- llmtap mcp --url http://collector:8088
  claude mcp add llmtap -- llmtap mcp --act
  claude mcp add --transport http llmtap http://127.0.0.1:8088/mcp`,
	Run: runMCP,
}

func runMCP(ctx context.Context, c *command.Call) error {
	o := mcpserver.Options{Version: buildVersion().Version, Logger: slog.New(slog.NewTextHandler(c.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	c.Parameters.BoolVar(&o.Content, "content", false, "return the texts of messages")
	c.Parameters.BoolVar(&o.Act, "act", false, "also have the tools that change something")
	c.Parameters.StringVar(&o.Actor, "author", silences.Author(c.Getenv), "`name` of who uses those")
	servers := connect.Flags(c)
	if err := c.Parse(); err != nil {
		return err
	}
	cfg, err := servers.Config()
	if err != nil {
		return err
	}
	o.Prices, o.Rules = cfg.Prices, cfg.Alerts
	o.Open = servers.Open
	o.Problems = func(ctx context.Context) (problems.API, error) {
		client, err := servers.Collector(ctx)
		return problems.Client{Client: client}, err
	}
	o.Pages = func(q rows.Querier) string { return servers.PagesURL(q) }
	return mcpserver.Run(ctx, o, io.NopCloser(c.Stdin), nopCloser{c.Stdout})
}

// A nopCloser is a writer that is not closed.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
