package collector

import (
	"fmt"
	"io"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
)

// Describe writes the addresses of all parts and the next steps of a new user. source names the configuration file.
func (c *Collector) Describe(w io.Writer, source string) {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s  %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "llmtap is up (%s)\n", strings.Join(c.cfg.Roles, ", "))
	row("Hooks", "LLMTAP_NATS_URL=%s", config.MaskURL(c.nats.URL))
	if c.proxy != nil {
		row("Proxy", "http://%s/openai/v1 as base URL (or another provider)", c.proxy.listener.Addr())
		row("", "records %s", c.proxy.recorded())
	}
	if c.stores() {
		where := "external"
		if c.cfg.ClickHouse.DSN == "" {
			where = "embedded, " + config.ClickHouseDir(c.cfg.DataDir)
		}
		row("ClickHouse", "%s", where)
		row("", "llmtap query causes --data-dir %s", c.cfg.DataDir)
	}
	if c.alert != nil {
		row("Alerts", "%s", alertTargets(&c.cfg))
	}
	row("Health", "http://%s/readyz", c.httpAddr())
	row("Metrics", "http://%s/metrics", c.httpAddr())
	row("Config", "%s; see llmtap config, llmtap doctor", source)
	_, _ = io.WriteString(w, b.String())
}

// alertTargets lists the receivers of cfg.
func alertTargets(cfg *config.Config) string {
	targets := []string{"log"}
	list, _ := Receivers(cfg, nil, nil) // Open has returned any error
	for _, r := range list {
		targets = append(targets, r.Kind+" "+r.Destination)
	}
	if len(targets) == 1 {
		return "log only; for Slack: --slack-token-file, --slack-channel"
	}
	return strings.Join(targets, ", ")
}
