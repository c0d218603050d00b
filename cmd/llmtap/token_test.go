package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
)

// The commands create, list and revoke tokens of machines, which may do what their role allows, in their own name.
func TestTokens(t *testing.T) {
	needClickHouse(t)
	cfg := collectortest.Config(t, func(cfg *config.Config) { cfg.HTTP.Token = "s3cret" })
	cfg.Listen = fmt.Sprintf("127.0.0.1:%d", freePort(t))
	runCollector(t, cfg)
	env := map[string]string{"LLMTAP_URL": "http://" + cfg.Listen, "USER": "anna", "COLUMNS": "80", "XDG_DATA_HOME": t.TempDir()}
	as := func(token string, code int, pattern, args string) string {
		t.Helper()
		env["LLMTAP_HTTP_TOKEN"] = token
		var out, complaint strings.Builder
		err := run(t.Context(), strings.Fields(args), nil, &out, &complaint, func(k string) string { return env[k] })
		got := command.Report(err, &complaint)
		m := regexp.MustCompile(`(?s)` + pattern).FindStringSubmatch(out.String() + complaint.String())
		if got != code || m == nil {
			t.Fatalf("%s: exit code %d, want %d and %s:\n%s%s", args, got, code, pattern, &out, &complaint)
		}
		return m[len(m)-1]
	}
	as("s3cret", 0, `^no tokens\n$`, "token list")
	reader := as("s3cret", 0, `^(llmtap_\S{43})\nThe token grafana has the role viewer until .*not\s+shown\s+again\.\n$`, "token create grafana --role viewer --expires 90d")
	bot := as("s3cret", 0, `"role": "responder",\s+"created": "2\d.*"by": "anna@.*"token": "(llmtap_\S{43})"`, "token create bot --role responder --expires 2h --format json")
	as("s3cret", 0, `^bot  responder  expires in .*\n  created .* by anna@.*grafana  viewer  expires in (?:89|90) d`, "token list")
	as(reader, 0, `^no silences\n$`, "alerts silence list")
	as(reader, 1, `token grafana has the role viewer, and`, "alerts silence add service=x --for 1h --comment y")
	as(bot, 0, `^Silenced`, "alerts silence add service=x --for 1h --comment y --author mallory")
	as(reader, 0, `  token bot: y\n$`, "alerts silence list")
	as(bot, 1, `needs\s+the\s+role\s+admin`, "token create other --role admin")
	as("s3cret", 1, `there is a token of this name`, "token create bot --role viewer")
	for args, pattern := range map[string]string{
		"x": `--role "" is not one of viewer, responder, admin`, "x --role root": `"root" is not one of`, "a.b --role viewer": `use 1 to 64 letters`,
		"x --role viewer --expires 2001-01-01": `is in the past`, "x --role viewer --expires 4000d": `more than 10 years`, "x --role viewer --expires soon": `--expires: `,
	} {
		as("s3cret", 2, pattern, "token create "+args)
	}
	as("s3cret", 0, `^token grafana is revoked\n$`, "token revoke grafana")
	as(reader, 1, `rejects the token`, "alerts silence list")
	as("s3cret", 1, `no token of this name`, "token revoke grafana")
	as("", 0, `^token  \S{43}\nhash   sha256:[0-9a-f]{64}\n$`, "token")
}
