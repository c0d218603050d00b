package main

import (
	"context"
	"fmt"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/problems"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

var problemsCommand = &command.Command{
	Name:  "problems",
	Short: "List problems, assign them, and say that they are fixed",
	Long: `A problem is one defect of one stage, over all its alerts: what is wrong, since
when, in which versions. Without a command, the problems are listed.

ID may be abbreviated to its first characters, at least 4. Problems are stored in
NATS, so all of this works while ClickHouse is down.`,
	Default:  "list",
	Commands: []*command.Command{problemsListCommand, problemsShowCommand, problemsAcknowledgeCommand, problemsAssignCommand, problemsResolveCommand, problemsIgnoreCommand, problemsReopenCommand, problemsAcceptCommand},
}

// problemsFlags adds the flags that the commands share. The function returns the client after Parse.
func problemsFlags(c *command.Call) (servers *connect.Servers, format *string, style *terminal.Style) {
	servers, format, style = connect.CollectorFlags(c), c.Format(command.Text, command.JSON), c.Style()
	return servers, format, style
}

var problemsListCommand = &command.Command{
	Name:  "problems list",
	Short: "List the problems that need somebody, regressions first",
	Long: `States are regressed (failed again in the version that was to fix it, or in a later
one), new (for a day), ongoing, acknowledged, resolved (somebody said so, or it has
been quiet) and ignored. The last two are listed with --all or --state.`,
	Examples: `  llmtap problems
  llmtap problems --service checkout-agent --assignee nobody
  llmtap problems list --state regressed --format json | jq -r '.[].id'`,
	Run: runProblemsList,
}

func runProblemsList(ctx context.Context, c *command.Call) error {
	var f problems.Filter
	for _, x := range []struct {
		name, usage string
		values      *[]string
	}{
		{"service", "only problems of this service", &f.Service},
		{"stage", "only of this stage", &f.Stage},
		{"environment", "only of this environment", &f.Environment},
		{"state", "only in this state", &f.State},
		{"assignee", "only of this person or team, or of " + problems.Nobody, &f.Assignee},
	} {
		c.Parameters.Func(x.name, "`text`: "+x.usage+"; may be repeated", func(v string) error {
			*x.values = append(*x.values, v)
			return nil
		})
	}
	all := c.Parameters.Bool("all", false, "also list resolved and ignored problems")
	servers, format, style := problemsFlags(c)
	if err := c.Parse(); err != nil {
		return err
	}
	if err := f.Validate(); err != nil {
		return command.BadInputf("--%w", err)
	}
	client, err := servers.Collector(ctx)
	if err != nil {
		return err
	}
	if err := problems.List(ctx, problems.Client{Client: client}, f, *all, c.Stdout, *format, style); err != nil || *format != command.Text {
		return err
	}
	// Without ClickHouse, it is not known whether there were calls.
	if res, err := client.Query(ctx, "SELECT count() FROM (SELECT 1 FROM exchanges LIMIT 1)", nil); err == nil && len(res.Rows) == 1 && fmt.Sprint(res.Rows[0][0]) == "0" {
		fmt.Fprintln(c.Stdout, style.Wrap("", "No call has been stored yet. llmtap doctor checks the installation; the pages have the lines for your agents.", ""))
	}
	return nil
}

var problemsShowCommand = &command.Command{
	Name:  "problems show",
	Args:  "ID",
	Short: "Show a problem: what is wrong, the fix, versions, and who did what",
	Examples: `  llmtap problems show 6f1c2d0e
  llmtap problems show 6f1c2d0e --format json | jq '.history'`,
	Run: func(ctx context.Context, c *command.Call) error {
		servers, format, style := problemsFlags(c)
		if err := c.Parse(); err != nil {
			return err
		}
		client, err := servers.Collector(ctx)
		if err != nil {
			return err
		}
		return problems.Show(ctx, problems.Client{Client: client}, c.Args[0], c.Stdout, *format, style)
	},
}
