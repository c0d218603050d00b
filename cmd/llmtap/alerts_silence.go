package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/silences"
)

var alertsSilenceCommand = &command.Command{
	Name:  "alerts silence",
	Short: "Add, list and expire silences of alerts",
	Long: `A silence suppresses the notifications of the alerts that it matches. The alerts
are evaluated and stored as always, and sent if they still fire at its end.
amtool works as well, with --alertmanager.url set to the URL of the collector.`,
	Commands: []*command.Command{silenceAddCommand, silenceListCommand, silenceExpireCommand},
}

const silenceElsewhere = `

If alerts are sent only to Alertmanager, silences are made there: the command
prints how, with exit code 2.`

var silenceAddCommand = &command.Command{
	Name:  "alerts silence add",
	Args:  "MATCHER [MATCHER]...",
	Short: "Silence the alerts that match all matchers",
	Long: `A matcher is LABEL=VALUE, LABEL!=VALUE, LABEL=~REGEX or LABEL!~REGEX, where a
regular expression matches the whole value. Labels are those of the alert, such as
service, stage, environment and severity; alertname is the name of its rule.` + silenceElsewhere,
	Examples: `  llmtap alerts silence add service=checkout-agent --for 2h --comment deploy
  llmtap alerts silence add alertname=RetryStorm 'stage=~plan.*' \
    --until 2026-11-23T18:00 --comment 'known, fixed in 2.4.1'
  llmtap alerts silence add severity=warning --from 2026-11-24T02:00 --utc \
    --for 1h --comment maintenance --url http://collector:8088`,
	Run: runSilenceAdd,
}

func runSilenceAdd(ctx context.Context, c *command.Call) error {
	servers := connect.CollectorFlags(c)
	duration := c.Parameters.String("for", "", "`duration`, such as 30m, 2h or 1d")
	from := c.Parameters.String("from", "now", "start `time`")
	until := c.Parameters.String("until", "", "end `time`, instead of --for")
	comment := c.Parameters.String("comment", "", "`text` for others; required")
	author := c.Parameters.String("author", silences.Author(c.Getenv), "`name` of the author")
	format, style := c.Format(command.Text, command.JSON), c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	s := silence.Silence{ID: "new", CreatedBy: *author, Comment: *comment}
	now := style.In(time.Now())
	var err error
	if s.Matchers, err = silence.ParseMatchers(c.Args); err == nil {
		s.StartsAt, s.EndsAt, err = silences.Period(*from, *until, *duration, now)
	}
	if err == nil && strings.TrimSpace(*comment) == "" {
		err = errors.New("--comment is required: others want to know why")
	}
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		return command.BadInput(err)
	}
	if err := elsewhere(c, servers, &s, now); err != nil {
		return err
	}
	client, err := servers.Collector(ctx)
	if err != nil {
		return err
	}
	return silences.Add(ctx, client, s, c.Stdout, *format, style)
}

// elsewhere returns an error if silences are made in Alertmanager, and warns if Alertmanager is one of several receivers. s may
// be nil.
func elsewhere(c *command.Call, servers *connect.Servers, s *silence.Silence, now time.Time) error {
	cfg, err := servers.Config()
	if err != nil {
		return err
	}
	warning, err := silences.Elsewhere(cfg.Alertmanager.URLs, cfg.NotifiesOthers(), s, now)
	if warning != "" {
		fmt.Fprintln(c.Stderr, "llmtap: "+warning)
	}
	return err
}

var silenceListCommand = &command.Command{
	Name:  "alerts silence list",
	Args:  "[MATCHER]...",
	Short: "List silences, with the firing alerts that they match",
	Long: `With matchers it lists the silences whose own matchers have such values. Expired
silences are kept for five days.`,
	Examples: `  llmtap alerts silence list
  llmtap alerts silence list --expired service=checkout-agent
  llmtap alerts silence list --format json | jq -r '.[].id'`,
	Run: runSilenceList,
}

func runSilenceList(ctx context.Context, c *command.Call) error {
	servers := connect.CollectorFlags(c)
	expired := c.Parameters.Bool("expired", false, "also list expired silences")
	format, style := c.Format(command.Text, command.JSON), c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	ms, err := silence.ParseMatchers(c.Args)
	if err != nil {
		return command.BadInput(err)
	}
	var filters []string
	for _, m := range ms {
		filters = append(filters, m.String())
	}
	if err := elsewhere(c, servers, nil, time.Time{}); err != nil {
		return err
	}
	client, err := servers.Collector(ctx)
	if err != nil {
		return err
	}
	return silences.List(ctx, client, filters, *expired, c.Stdout, *format, style)
}

var silenceExpireCommand = &command.Command{
	Name:  "alerts silence expire",
	Args:  "ID",
	Short: "End a silence now",
	Long:  "ID may be abbreviated to its first characters, at least 4. Alerts that still fire are sent.",
	Examples: `  llmtap alerts silence expire 6f1c2d0e
  llmtap alerts silence list --format json | jq -r '.[].id' |
    xargs -n 1 llmtap alerts silence expire`,
	Run: runSilenceExpire,
}

func runSilenceExpire(ctx context.Context, c *command.Call) error {
	servers := connect.CollectorFlags(c)
	if err := c.Parse(); err != nil {
		return err
	}
	if err := elsewhere(c, servers, nil, time.Time{}); err != nil {
		return err
	}
	client, err := servers.Collector(ctx)
	if err != nil {
		return err
	}
	return silences.Expire(ctx, client, c.Args[0], silences.Author(c.Getenv), c.Stdout)
}
