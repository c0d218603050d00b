package collector

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
)

// Describe writes the addresses of all parts, the parts that do not work, and the next steps for a new user. source names
// the configuration file.
func (c *Collector) Describe(ctx context.Context, w io.Writer, source string) {
	rows := [][2]string{{"Hooks", "LLMTAP_NATS_URL=" + config.MaskURL(c.nats.URL)}}
	if c.proxy != nil {
		rows = append(rows, [2]string{"Proxy", fmt.Sprintf("http://%s/openai/v1 as base URL (or another provider)", c.proxy.listener.Addr())},
			[2]string{"", "records " + c.proxy.recorded()})
	}
	if c.stores() {
		where := "external"
		if c.cfg.ClickHouse.DSN == "" {
			where = "embedded, " + config.ClickHouseDir(c.cfg.DataDir)
		}
		rows = append(rows, [2]string{"ClickHouse", where}, [2]string{"", "llmtap query causes --data-dir " + c.cfg.DataDir})
	}
	if c.cfg.HasRole(config.RoleAlert) {
		targets := []string{"log"}
		list, _ := Receivers(&c.cfg, nil, nil) // Open has already returned any error
		for _, r := range list {
			targets = append(targets, r.Kind+" "+r.Destination)
		}
		if len(list) == 0 {
			targets[0] += " only; for Slack: --slack-token-file, --slack-channel"
		}
		rows = append(rows, [2]string{"Alerts", strings.Join(targets, ", ")})
	}
	rows = append(rows, [2]string{"Health", "http://" + c.httpAddr() + "/readyz"}, [2]string{"Metrics", "http://" + c.httpAddr() + "/metrics"},
		[2]string{"Config", source + "; see llmtap config, llmtap doctor"})
	if _, err := c.ready(ctx); err != nil {
		label := "Not ready"
		for line := range strings.Lines(err.Error()) {
			rows = append(rows, [2]string{label, strings.TrimSuffix(line, "\n")})
			label = ""
		}
	}
	fmt.Fprintf(w, "llmtap is up (%s)\n", strings.Join(c.cfg.Roles, ", "))
	for _, r := range rows {
		fmt.Fprintf(w, "  %-10s  %s\n", r[0], r[1])
	}
}
