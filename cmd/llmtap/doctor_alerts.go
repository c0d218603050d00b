package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertmanager"
	"github.com/llmtap/llmtap/alerts/slack"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

// checkRules looks at the rule files, and whether the running process took them.
func (d *doctor) checkRules(ctx context.Context) {
	cfg := d.s.Alerts
	if len(cfg.RuleFiles) == 0 {
		return // the shipped ones are right
	}
	rules, problems := cfg.Rules().Lint(ctx)
	switch {
	case len(problems) > 0 && d.runs:
		d.fail("rules", "see llmtap alerts check; until they are right the running process keeps the rules that it had, and no other starts",
			"%s in the rule files, such as %s", terminal.Plural(len(problems), "mistake"), problems[0])
	case len(problems) > 0:
		d.fail("rules", "see llmtap alerts check; llmtap up does not start with them", "%s in the rule files, such as %s", terminal.Plural(len(problems), "mistake"), problems[0])
	case d.rulesRefused(ctx):
		d.fail("rules", "let the user that runs llmtap read them, then send it SIGHUP", "the running process has not taken the rule files as they are now")
	default:
		d.ok("rules", "%s, no mistakes", terminal.Plural(rules, "alert rule"))
	}
}

var staleRules = regexp.MustCompile(`^llmtap_alerts_rules_last_reload_successful(\{.*\})? 0$`)

// rulesRefused asks the running process for the metric. Whether it answers at all is another check.
func (d *doctor) rulesRefused(ctx context.Context) bool {
	if !d.runs {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	res, err := d.get(ctx, "/metrics")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false
	}
	lines := bufio.NewScanner(io.LimitReader(res.Body, 8<<20))
	for lines.Scan() {
		if staleRules.Match(lines.Bytes()) {
			return true
		}
	}
	return false
}

func (d *doctor) checkSlack(ctx context.Context) {
	if d.s.Slack.Channel == "" {
		if d.s.Webhook.URL == "" && len(d.s.Alertmanager.URLs) == 0 {
			d.warn("slack", "set slack.channel and slack.token_file, or webhook.url, or alertmanager.urls", "not configured: alerts go to the log only")
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	team, user, err := slack.Check(ctx, d.s.Slack)
	if err != nil {
		d.fail("slack", "", "%v", err) // which says what to do
		return
	}
	d.ok("slack", "%s of %s posts to %s", user, team, d.s.Slack.Channel)
}

func (d *doctor) checkAlertmanager(ctx context.Context) {
	if len(d.s.Alertmanager.URLs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	all, err := alertmanager.Check(ctx, d.s.Alertmanager)
	if err != nil {
		d.fail("alertmanager", "", "%v", err)
	}
	for _, s := range all {
		if s.Err != nil {
			d.fail("alertmanager", "start it, or correct alertmanager.urls and its token; then look for a firewall in between", "%v", s.Err)
			continue
		}
		d.ok("alertmanager", "%s is version %s", s.Host, s.Version)
	}
}

// checkReach asks only whether the host of a URL answers: a call to the URL itself would mean something.
func (d *doctor) checkReach(ctx context.Context, check, key, rawURL string) {
	if rawURL == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := alerts.Reach(ctx, rawURL); err != nil {
		d.fail(check, "correct "+key+", or start what listens there; then look for a firewall in between", "%v", err)
		return
	}
	d.ok(check, "%s answers; try the rest with llmtap alerts test-notify", collector.Host(rawURL))
}
