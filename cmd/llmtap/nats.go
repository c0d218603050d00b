package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/natsaccounts"
)

var accountsCommand = &command.Command{
	Name:  "nats",
	Args:  "accounts",
	Short: "Write users and permissions for your nats-server",
	Long: `Writes an account for nats-server into --dir: one user for llmtap up, and one for
each service, whose agents may publish the events of that service and nothing
else. Beside it, a file NAME.env for each user has the URL with the password; the
account has only its hash.

Run it again with all services to add one: passwords in NAME.env are kept. To
replace a password, delete its file first. Then reload nats-server.

The embedded NATS needs no such file: see nats_server in the configuration.`,
	Examples: `  llmtap nats accounts --dir nats --url tls://nats.internal:4222 \
    --service checkout-agent --service search-agent
  nats-server --signal reload`,
	Values: func() []string { return []string{"accounts"} },
	Run:    runAccounts,
}

func runAccounts(_ context.Context, c *command.Call) error {
	var services []string
	c.Parameters.Func("service", "`name` of a service; may be repeated", func(v string) error {
		services = append(services, v)
		return nil
	})
	dir := c.Parameters.String("dir", "nats", "`directory` of the files")
	server := c.Parameters.String("url", "nats://127.0.0.1:4222", "`url` of NATS for agents and llmtap")
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	switch {
	case c.Args[0] != "accounts":
		return command.BadInputf("unknown action %q; see llmtap nats --help", c.Args[0])
	case len(services) == 0:
		return command.BadInputf("--service is required: the name that the agents' hooks are configured with")
	}
	files, err := natsaccounts.Write(*dir, *server, services)
	if err != nil {
		return command.BadInputf("%w", err)
	}
	if *format == command.JSON {
		return command.WriteJSON(c.Stdout, files)
	}
	for _, f := range files {
		kept := ""
		if !f.New {
			kept = " (password kept)"
		}
		fmt.Fprintf(c.Stdout, "%-22s %s%s\n", f.For, f.Name, kept)
	}
	_, err = fmt.Fprintf(c.Stdout, "Add to nats-server.conf: include %q\n", filepath.Join(*dir, natsaccounts.ConfigFile))
	return err
}
