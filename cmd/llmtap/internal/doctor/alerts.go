package doctor

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// checkRules checks the rule files, and whether the running process has loaded them.
func (c *checker) checkRules(ctx context.Context) {
	cfg := c.cfg.Alerts
	if len(cfg.RuleFiles) == 0 {
		return // the shipped rules are valid
	}
	rules, problems := cfg.Rules().Lint(ctx)
	switch {
	case len(problems) > 0:
		fix := "see llmtap alerts check; llmtap up does not start with them"
		if c.running {
			fix = "see llmtap alerts check; the running process keeps its previous rules, and does not restart with these"
		}
		c.fail("rules", fix, "%s in the rule files, such as %s", quantity.Plural(len(problems), "error"), problems[0])
	case c.rulesRefused(ctx):
		c.fail("rules", "make them readable for the user that runs llmtap, then send it SIGHUP", "the running process has not loaded the current rule files")
	default:
		c.ok("rules", "%s, no errors", quantity.Plural(rules, "alert rule"))
	}
}

var failedReload = regexp.MustCompile(`^llmtap_alerts_rules_last_reload_successful(\{.*\})? 0$`)

// rulesRefused reports whether the last reload of rules by the running process failed, according to its metrics. If the
// metrics are unavailable, another check reports this.
func (c *checker) rulesRefused(ctx context.Context) bool {
	if !c.running {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	res, err := c.get(ctx, "/metrics")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false
	}
	lines := bufio.NewScanner(io.LimitReader(res.Body, 8<<20))
	for lines.Scan() {
		if failedReload.Match(lines.Bytes()) {
			return true
		}
	}
	return false
}

// checkReceivers checks the receivers of alerts without notifying them.
func (c *checker) checkReceivers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	check := func(kind string, r alerts.Receiver) {
		if text, err := r.Check(ctx); err != nil {
			c.fail(kind, "", "%v", err) // err includes the fix
		} else {
			c.ok(kind, "%s: %s", r.Destination, text)
		}
	}
	before := len(c.report.Checks)
	for kind, n := range c.cfg.Notifiers() {
		list, err := n.Receivers(alerts.NotifierOptions{})
		if err != nil {
			c.fail(kind, "", "%v", err)
		}
		for _, r := range list {
			check(kind, r)
		}
	}
	if len(c.report.Checks) == before {
		c.warn("slack", "set slack.channel and slack.token_file, webhook.url, pagerduty.routing_key, msteams.webhook_url, email.to, routing.receivers, or alertmanager.urls", "not configured: alerts are only logged")
	}
	for _, r := range collector.Heartbeat(&c.cfg.Config) {
		check(r.Kind, r.Receiver)
	}
}
