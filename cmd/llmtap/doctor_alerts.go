package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"

	"github.com/llmtap/llmtap/alerts"
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

// checkReceivers verifies the receivers of alerts without notifying them.
func (d *doctor) checkReceivers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	check := func(kind string, r alerts.Receiver) {
		if text, err := r.Check(ctx); err != nil {
			d.fail(kind, "", "%v", err) // it ends with what to do
		} else {
			d.ok(kind, "%s: %s", r.Destination, text)
		}
	}
	before := len(d.results)
	for kind, n := range d.s.Notifiers() {
		list, err := n.Receivers(alerts.NotifierOptions{})
		if err != nil {
			d.fail(kind, "", "%v", err)
		}
		for _, r := range list {
			check(kind, r)
		}
	}
	if len(d.results) == before {
		d.warn("slack", "set slack.channel and slack.token_file, or webhook.url, or alertmanager.urls", "not configured: alerts go to the log only")
	}
	for _, r := range collector.Heartbeat(&d.s.Config) {
		check(r.Kind, r.Receiver)
	}
}
