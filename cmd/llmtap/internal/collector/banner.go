package collector

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/loopback"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const (
	bannerWidth  = 80
	bannerColumn = 14 // column of the values

	hooks, hookKey, overHTTP, overOTLP, commands = "Hooks", "Hash key", "Over HTTP", "OTLP", "Commands" // labels
)

// Describe writes the addresses of all parts, the parts that do not work, and the next steps for a new user. source names
// the configuration file.
func (c *Collector) Describe(ctx context.Context, w io.Writer, source string) {
	_, err := c.ready(ctx)
	c.describe(w, source, err)
}

func (c *Collector) describe(w io.Writer, source string, notReady error) {
	url, login := c.hookURL()
	rows := [][2]string{{"Pages", c.UIURL()}, {hooks, "export " + event.EnvNATSURL + "=" + url}, {"", login}, {hookKey, c.key.export()}}
	if c.proxy != nil {
		rows = append(rows, [2]string{"Proxy", fmt.Sprintf("%s/openai/v1 as base URL (or another provider)", c.localURL(c.proxy.listener))},
			[2]string{"", "records " + c.proxy.recorded()})
	}
	if c.receive != nil {
		rows = append(rows, c.receive.describe()...)
		rows = append(rows, c.receive.describeOTLP()...)
	}
	if c.stores() {
		where := "external"
		if c.cfg.ClickHouse.DSN == "" {
			where = "embedded, " + config.ClickHouseDir(c.cfg.DataDir)
		}
		if err := c.NoStore(); err != nil {
			where = strings.TrimPrefix(err.Error(), "ClickHouse: ")
		}
		rows = append(rows, [2]string{"ClickHouse", where}, [2]string{"Texts", c.sampling()}, [2]string{commands, "llmtap query causes" + c.commandFlags()})
		if host, port, err := net.SplitHostPort(c.httpAddr()); err == nil && !loopback.Is(host) {
			rows = append(rows, [2]string{"", "on other machines: --url " + c.scheme() + "://HOST:" + port + ", LLMTAP_HTTP_TOKEN"})
		}
	}
	if c.cfg.HasRole(config.RoleAlert) {
		targets := []string{"log"}
		list, _ := Receivers(&c.cfg, alerts.NotifierOptions{}) // Open has already returned any error
		for _, r := range list {
			targets = append(targets, r.Kind+" "+r.Destination)
		}
		if len(list) == 0 {
			targets[0] += " only; for Slack: --slack-token-file, --slack-channel"
		}
		rows = append(rows, [2]string{"Alerts", strings.Join(targets, ", ")})
		if err := c.receiversFailed(); err != nil {
			rows = append(rows, reasons("", err)...)
		}
	}
	rows = append(rows, [2]string{"Health", c.localURL(c.listener) + "/readyz"}, [2]string{"Metrics", c.localURL(c.listener) + "/metrics"},
		[2]string{"Config", source + "; see llmtap config, llmtap doctor"})
	if text := c.key.missing(); text != "" && c.cfg.HasRole(config.RoleUI) {
		rows = append(rows, [2]string{"Users", text})
	}
	if notReady != nil {
		rows = append(rows, reasons("Not ready", notReady)...)
	}
	fmt.Fprintf(w, "llmtap is up (%s)\n", strings.Join(c.cfg.Roles, ", "))
	for _, r := range rows {
		head, lines := r[0], []string{r[1]}
		if r[1] == "" {
			continue
		}
		if head != hooks && head != hookKey && head != commands && head != overOTLP && (head != overHTTP || c.receive.inUse != nil) { // what is to be copied stays on one line
			lines = terminal.Wrap(r[1], bannerWidth-bannerColumn, "")
		}
		for _, line := range lines {
			fmt.Fprintf(w, "  %-*s%s\n", bannerColumn-2, head, line)
			head = ""
		}
	}
}

// sampling describes which texts are stored; "" for all.
func (c *Collector) sampling() string {
	var list []string
	for _, s := range c.cfg.Content.Sampling {
		text := fmt.Sprintf("of %s: all", s.Service)
		if s.Share < 1 {
			text = fmt.Sprintf("of %s: %.3g%% of the conversations and all that fail", s.Service, 100*s.Share)
		}
		if s.PerHour > 0 {
			text += fmt.Sprintf(", %s an hour", config.FormatSize(s.PerHour))
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// commandFlags returns the flags with which commands on this machine find this process.
func (c *Collector) commandFlags() string {
	switch {
	case c.guard.tokens.Required(): // the file in the data directory needs none
		dir, err := filepath.Abs(c.cfg.DataDir)
		if err != nil {
			dir = c.cfg.DataDir
		}
		return " --data-dir " + dir
	case c.httpAddr() == config.Default().Listen:
		return ""
	}
	return " --url " + c.localURL(c.listener)
}

// hookURL returns the value of LLMTAP_NATS_URL for hooks, with placeholders for secrets, and an explanation of them.
func (c *Collector) hookURL() (url, login string) {
	n := c.nats
	if c.server != nil { // the login of this process is not that of hooks
		s := c.cfg.NATSServer
		n = jetstream.Config{URL: c.server.URL(), Token: s.Token, TokenFile: s.TokenFile}
		if s.Token+s.TokenFile == "" && len(s.ServiceTokens) > 0 {
			n.Token = "of the service"
		}
	}
	placeholder := ""
	switch {
	case n.Token != "" || n.TokenFile != "":
		placeholder, login = "TOKEN@", "TOKEN is the NATS token"
	case n.User != "" || strings.Contains(n.URL, "@"):
		placeholder, login = "USER:PASSWORD@", "USER needs permission to publish to llmtap.v1.>"
	case n.CredsFile != "" || n.NKeyFile != "":
		login = "and pass the NATS credentials in the options of the hook"
	}
	var all []string
	for one := range strings.SplitSeq(n.URL, ",") {
		scheme, host, ok := strings.Cut(strings.TrimSpace(one), "://")
		if !ok {
			scheme, host = "nats", scheme
		}
		all = append(all, scheme+"://"+placeholder+host[strings.LastIndexByte(host, '@')+1:])
	}
	return strings.Join(all, ","), login
}

// reasons returns a row for each line of err.
func reasons(label string, err error) [][2]string {
	var rows [][2]string
	for line := range strings.Lines(err.Error()) {
		rows = append(rows, [2]string{label, strings.TrimSpace(line)})
		label = ""
	}
	return rows
}
