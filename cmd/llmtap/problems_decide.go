package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/problems"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/silences"
)

var problemsAssignCommand = &command.Command{
	Name:  "problems assign",
	Args:  "ID WHO",
	Short: "Say who handles a problem",
	Long: `WHO is a person or a team. Slack mentions a user id such as U0123ABCD when the
problem comes back. WHO is nobody to take the assignment back.`,
	Examples: `  llmtap problems assign 6f1c2d0e anna
  llmtap problems assign 6f1c2d0e U0123ABCD --note 'she wrote the planner'
  llmtap problems assign 6f1c2d0e nobody`,
	Run: func(ctx context.Context, c *command.Call) error {
		return decide(ctx, c, func() (alerts.ProblemDecision, error) {
			d := alerts.ProblemDecision{Action: alerts.ActionAssign}
			who := strings.TrimSpace(c.Args[1])
			if who == "" {
				return d, fmt.Errorf("WHO is empty; use %s to take the assignment back", problems.Nobody)
			}
			if who != problems.Nobody {
				d.Assignee = who
			}
			return d, nil
		})
	},
}

var problemsResolveCommand = &command.Command{
	Name:  "problems resolve",
	Args:  "ID",
	Short: "Say that a problem is fixed",
	Long: `The problem is a regression if it is seen again: with --fixed-in in this version, or
in one whose first call is later; without it, in any version. Failures of older
versions that still run are expected. The version need not have been seen yet.`,
	Examples: `  llmtap problems resolve 6f1c2d0e --fixed-in 2.4.1
  llmtap problems resolve 6f1c2d0e --note 'the provider has fixed it'`,
	Run: func(ctx context.Context, c *command.Call) error {
		version := c.Parameters.String("fixed-in", "", "`version` with the fix; empty: all versions")
		return decide(ctx, c, func() (alerts.ProblemDecision, error) {
			return alerts.ProblemDecision{Action: alerts.ActionResolve, Version: *version}, nil
		})
	},
}

var problemsIgnoreCommand = &command.Command{
	Name:  "problems ignore",
	Args:  "ID",
	Short: "Notify nobody of a problem",
	Long: `A silence carries it out: alerts of the problem are evaluated and stored as always.
Without --until, --for and --users, it ends with llmtap problems reopen.

With --users, it ends when the problem has hit so many users more than until now. Users
are counted if calls have one, also while ClickHouse is down: almost exactly up to
1,000, within about 1% up to 10,000. Calls without a user count for nobody.

A time is local (2026-12-01, '2026-12-01 09:30'; UTC with --utc), or has a zone
(2026-12-01T09:30:00Z).`,
	Examples: `  llmtap problems ignore 6f1c2d0e --for 7d --note 'gone with the next release'
  llmtap problems ignore 6f1c2d0e --until 2026-12-01
  llmtap problems ignore 6f1c2d0e --users 20
  llmtap problems ignore 6f1c2d0e`,
	Run: runProblemsIgnore,
}

func runProblemsIgnore(ctx context.Context, c *command.Call) error {
	end := c.Parameters.String("until", "", "end `time`")
	duration := c.Parameters.String("for", "", "`duration`, such as 30m, 2h or 7d, instead of --until")
	users := c.Parameters.Int("users", 0, "`number` of further users that end it when they are hit")
	return decide(ctx, c, func() (d alerts.ProblemDecision, err error) {
		d.Action, d.Users = alerts.ActionIgnore, *users
		if *end != "" || *duration != "" {
			_, d.Until, err = silences.Period("now", *end, *duration, time.Now())
		}
		return d, err
	})
}

var problemsReopenCommand = &command.Command{
	Name:     "problems reopen",
	Args:     "ID",
	Short:    "Take back that a problem is resolved or ignored",
	Long:     "Its assignment stays. A regression is closed: it counts as an open problem.",
	Examples: "  llmtap problems reopen 6f1c2d0e --note 'not fixed on staging'",
	Run: func(ctx context.Context, c *command.Call) error {
		return decide(ctx, c, func() (alerts.ProblemDecision, error) {
			return alerts.ProblemDecision{Action: alerts.ActionReopen}, nil
		})
	},
}

var problemsAcknowledgeCommand = &command.Command{
	Name:     "problems acknowledge",
	Args:     "ID",
	Short:    "Say that somebody handles the open incident",
	Long:     "There are no reminders until a new incident.",
	Examples: "  llmtap problems acknowledge 6f1c2d0e",
	Run: func(ctx context.Context, c *command.Call) error {
		return decide(ctx, c, func() (alerts.ProblemDecision, error) {
			return alerts.ProblemDecision{Action: alerts.ActionAcknowledge}, nil
		})
	},
}

var problemsAcceptCommand = &command.Command{
	Name:  "problems accept",
	Args:  "ID",
	Short: "Say that what is unusual is the new normal",
	Long: `Use it if an unusual latency, size or traffic of a stage is intended to stay: what was
measured since the problem began is usual from now on, and the alert ends. Otherwise,
the usual range follows a lasting change after a day and a half. It cannot be undone.`,
	Examples: "  llmtap problems accept 6f1c2d0e --note 'the new prompt is longer'",
	Run: func(ctx context.Context, c *command.Call) error {
		return decide(ctx, c, func() (alerts.ProblemDecision, error) {
			return alerts.ProblemDecision{Action: alerts.ActionAccept}, nil
		})
	},
}

// decide stores the result of decision, which is called after Parse.
func decide(ctx context.Context, c *command.Call, decision func() (alerts.ProblemDecision, error)) error {
	note := c.Parameters.String("note", "", "`text` for others")
	author := c.Parameters.String("author", silences.Author(c.Getenv), "`name` of who decides")
	servers, format, style := problemsFlags(c)
	if err := c.Parse(); err != nil {
		return err
	}
	d, err := decision()
	if d.Note = strings.TrimSpace(*note); err == nil {
		err = d.Validate()
	}
	if err != nil {
		return command.BadInput(err)
	}
	if d.Action == alerts.ActionIgnore {
		if err := warnElsewhere(c, servers); err != nil {
			return err
		}
	}
	client, err := servers.Collector(ctx)
	if err != nil {
		return err
	}
	return problems.Decide(ctx, problems.Client{Client: client}, c.Args[0], d, *author, c.Stdout, *format, style)
}

// warnElsewhere says that Alertmanager, if it is a receiver, knows nothing of a silence.
func warnElsewhere(c *command.Call, servers *connect.Servers) error {
	cfg, err := servers.Config()
	if err != nil {
		return err
	}
	warning, err := silences.Elsewhere(cfg.Alertmanager.URLs, true, nil, time.Time{})
	if warning != "" {
		fmt.Fprintln(c.Stderr, "llmtap: "+warning)
	}
	return err
}
