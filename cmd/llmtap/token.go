package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/silences"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/tokens"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/secret"
)

var tokenCommand = &command.Command{
	Name:  "token",
	Short: "Create, list and revoke tokens of machines",
	Long: `Tokens of machines have a name, a role and an expiry. The API and the pages accept
them as bearer tokens, and as passwords. A collector stores their hashes in NATS.

Without a command, llmtap token makes a token for the configuration: see
llmtap token new.`,
	Default:  "new",
	Commands: []*command.Command{tokenNewCommand, tokenCreateCommand, tokenListCommand, tokenRevokeCommand},
}

var tokenNewCommand = &command.Command{
	Name:  "token new",
	Short: "Make a token for a listener, and its hash for the configuration",
	Long: `Prints a random token for clients, and its hash. A file such as http.token_file
may contain the hash instead of the token, and several lines, each a token or a
hash: to replace a token, add the new one, change the clients, and remove the old
one. llmtap up reads the file when it starts.`,
	Examples: `  llmtap token new
  llmtap token new --format json | jq -r .hash >> tokens`,
	Run: runToken,
}

func runToken(_ context.Context, c *command.Call) error {
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	token, hash := secret.NewToken()
	if *format == command.JSON {
		return command.WriteJSON(c.Stdout, map[string]string{"token": token, "hash": hash})
	}
	_, err := fmt.Fprintf(c.Stdout, "token  %s\nhash   %s\n", token, hash)
	return err
}

// tokenRoles are the roles of tokens, in words.
var tokenRoles = strings.Join(access.Roles, ", ")

var tokenCreateCommand = &command.Command{
	Name:  "token create",
	Args:  "NAME",
	Short: "Create a token for a machine",
	Long: `Prints the token, which is not shown again: only its hash is stored. A viewer reads
calls, alerts and problems, also with SQL; a responder also acknowledges, silences
and resolves; an admin also creates and revokes tokens. With --team, a token sees the
services of these teams only, and runs stored queries, but no SQL.`,
	Examples: `  llmtap token create grafana --role viewer --expires 90d
  llmtap token create search-bot --role responder --team search
  llmtap token create pager-bot --role responder --expires 2027-01-31 \
    --url https://llmtap.example.com --format json | jq -r .token`,
	Run: runTokenCreate,
}

func runTokenCreate(ctx context.Context, c *command.Call) error {
	servers := connect.CollectorFlags(c)
	role := c.Parameters.String("role", "", "`role`: "+tokenRoles+"; required")
	t := access.Token{}
	c.Parameters.Func("team", "a `team` of the configuration whose services the token sees; may be repeated; default: all services", func(name string) error {
		t.Teams = append(t.Teams, name)
		return nil
	})
	expires := c.Parameters.String("expires", "90d", "`time` or duration until the token expires")
	actor, format, style := tokenActor(c), c.Format(command.Text, command.JSON), c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	now := style.In(time.Now())
	t.Name = c.Args[0]
	var err error
	if t.Role, err = access.ParseRole(*role); err != nil {
		return command.BadInputf("--%w", err)
	}
	if t.Expires, err = queries.ParseTime(*expires, now); err != nil {
		return command.BadInputf("--expires: %w", err)
	}
	if !strings.ContainsAny(*expires, "-:") { // a duration, which ParseTime subtracts
		t.Expires = now.Add(now.Sub(t.Expires))
	}
	if err := t.Validate(now); err != nil {
		return command.BadInput(err)
	}
	client, err := servers.Collector(ctx)
	if err != nil {
		return err
	}
	return tokens.Create(ctx, client, t, *actor, c.Stdout, *format, style)
}

// tokenActor adds the flag with the name of who acts.
func tokenActor(c *command.Call) *string {
	return c.Parameters.String("author", silences.Author(c.Getenv), "`name` of the author, unless the collector knows it")
}

var tokenListCommand = &command.Command{
	Name:  "token list",
	Short: "List the tokens of machines, without their secrets",
	Examples: `  llmtap token list
  llmtap token list --format json | jq -r '.[] | select(.role == "admin").name'`,
	Run: func(ctx context.Context, c *command.Call) error {
		servers, format, style := connect.CollectorFlags(c), c.Format(command.Text, command.JSON), c.Style()
		if err := c.Parse(); err != nil {
			return err
		}
		client, err := servers.Collector(ctx)
		if err != nil {
			return err
		}
		return tokens.List(ctx, client, c.Stdout, *format, style)
	},
}

var tokenRevokeCommand = &command.Command{
	Name:     "token revoke",
	Args:     "NAME",
	Short:    "Revoke a token: all collectors refuse it at once",
	Examples: `  llmtap token revoke grafana`,
	Run: func(ctx context.Context, c *command.Call) error {
		servers, actor := connect.CollectorFlags(c), tokenActor(c)
		if err := c.Parse(); err != nil {
			return err
		}
		client, err := servers.Collector(ctx)
		if err != nil {
			return err
		}
		return tokens.Revoke(ctx, client, c.Args[0], *actor, c.Stdout)
	},
}
