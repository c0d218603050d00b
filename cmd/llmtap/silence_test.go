package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The commands and amtool manage the same silences, with the token of the collector. Web pages of others cannot.
func TestSilences(t *testing.T) {
	needClickHouse(t)
	const token = "s3cret"
	cfg := collectortest.Config(t, func(cfg *config.Config) { cfg.HTTP.Token = token })
	cfg.Listen = fmt.Sprintf("127.0.0.1:%d", freePort(t))
	runCollector(t, cfg)
	base := "http://" + cfg.Listen
	env := map[string]string{"LLMTAP_HTTP_TOKEN": token, "LLMTAP_URL": base, "USER": "anna", "COLUMNS": "80", "XDG_DATA_HOME": t.TempDir()}
	silence := func(code int, args ...string) string {
		t.Helper()
		var out, complaint strings.Builder
		err := run(t.Context(), append([]string{"alerts", "silence"}, args...), nil, &out, &complaint, func(k string) string { return env[k] })
		must.Equal(t, command.Report(err, &complaint), code, "%s: exit code: %s%s", args, &out, &complaint)
		return out.String() + complaint.String()
	}
	matches := func(pattern, text string) string {
		t.Helper()
		m := regexp.MustCompile(`(?s)` + pattern).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("%q does not match %s", text, pattern)
		}
		return m[len(m)-1]
	}
	matches("^no silences\n$", silence(0, "list"))
	id := matches(`^Silenced until .*: it matches \d+ firing alerts?\.\nEnd it with: llmtap alerts silence expire ([0-9a-f-]{36})\n$`,
		silence(0, "add", "service=checkout-agent", `severity=~"warn.*"`, "--for", "2h", "--comment", "deploy"))
	matches(`^`+id+`  active\n  ends in (?:1 h 59 min|2 h), 0 firing alerts\n  service="checkout-agent" severity=~"warn\.\*"\n  anna@.*: deploy\n$`, silence(0, "list"))
	matches(`"state": "active".*"firingAlerts": 0`, silence(0, "list", "--format", "json"))
	matches("^no silences\n$", silence(0, "list", "service=other"))
	silence(0, "add", "service=x", "--from", "2100-01-01", "--for", "1d", "--comment", "later")
	matches(`pending\n  starts in \d+ d(?: \d+ h)?, for 1 d`, silence(0, "list", "service=x"))
	matches("exactly one of --for and --until", silence(2, "add", "service=x", "--comment", "y"))
	matches("--comment is required", silence(2, "add", "service=x", "--for", "2h"))
	matches("is not a matcher", silence(2, "add", "checkout", "--for", "2h", "--comment", "y"))
	matches("must not match the empty string", silence(2, "add", "service=~.*", "--for", "2h", "--comment", "y"))
	matches("is in the past", silence(2, "add", "service=x", "--until", "2001-01-01", "--comment", "y"))
	matches("no silence 0000", silence(1, "expire", "0000"))

	post := func(header map[string]string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/api/v2/silences", strings.NewReader(`{"matchers":[{"name":"service","value":"evil","isRegex":false}],
			"startsAt":"2026-01-01T00:00:00Z","endsAt":"2100-01-01T00:00:00Z","createdBy":"x","comment":"x"}`))
		must.Do(t, err)
		for k, v := range header {
			req.Header.Set(k, v)
		}
		res := must.Get(http.DefaultClient.Do(req))(t)
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return res.StatusCode
	}
	bearer := "Bearer " + token
	for _, x := range []struct {
		want   int
		header map[string]string
	}{
		{401, map[string]string{"Content-Type": "application/json"}},
		{403, map[string]string{"Content-Type": "application/json", "Authorization": bearer, "Origin": "https://evil.example"}},
		{415, map[string]string{"Content-Type": "text/plain", "Authorization": bearer}},
		{415, map[string]string{"Authorization": bearer}},
		{200, map[string]string{"Content-Type": "application/json", "Authorization": bearer}},
	} {
		must.Equal(t, post(x.header), x.want, "%v: HTTP", x.header)
	}

	if amtool, err := exec.LookPath("amtool"); err == nil {
		file := filetest.Temp(t, "http.yml", "authorization: {credentials: "+token+"}\n")
		am := func(args ...string) string {
			t.Helper()
			out, err := exec.CommandContext(t.Context(), amtool, append([]string{"--no-version-check", "--alertmanager.url=" + base, "--http.config.file=" + file}, args...)...).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v: %s", args, err, out)
			}
			return string(out)
		}
		matches(id+` .*severity=~"warn\.\*".* anna@`, am("silence", "query"))
		matches(`Cluster Status: +disabled.*receiver: llmtap`, am("cluster", "show")+am("config", "show"))
		matches(`receiver: llmtap`, am("config", "routes", "show"))
		am("alert", "query")
		own := matches(`^([0-9a-f-]{36})\n$`, am("silence", "add", "alertname=RetryStorm", "stage=~plan.*", "--duration=1h", "--author=bob", "--comment=from amtool"))
		matches(own+`  active\n  ends in (?:59 min|1 h), 0 firing alerts\n  alertname="RetryStorm" stage=~"plan\.\*"\n  bob: from amtool`, silence(0, "list"))
		if out := am("silence", "query", "alertname=RetryStorm"); strings.Contains(out, "checkout-agent") || !strings.Contains(out, own) {
			t.Errorf("filter: %s", out)
		}
		am("silence", "update", "--duration=3h", own)
		matches(own+`  active\n  ends in (?:2 h 59 min|3 h)`, silence(0, "list"))
		am("silence", "expire", own)
		matches(own+`  expired\n  ended .*from amtool`, silence(0, "list", "--expired", "alertname=RetryStorm"))
		am("alert", "query")
	} else if os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else {
		t.Log("NOT TESTED with amtool: install Debian's prometheus-alertmanager")
	}
	matches("^silence "+id+" expired: service=", silence(0, "expire", id[:8]))
	if out := silence(0, "list"); strings.Contains(out, id) {
		t.Errorf("still listed: %s", out)
	}

	env["LLMTAP_ALERTMANAGER_URLS"] = "http://user:pass@am:9093"
	out := silence(2, "add", "service=x", "--for", "2h", "--comment", "it's a test")
	matches(`amtool --alertmanager.url=http://am:9093 silence add --comment='it'\\''s a test' --author='anna@[^ ]*' --end=20\S+Z 'service="x"'\nor open http://am:9093/#/silences/new\n$`, out)
	matches("see http://am:9093/#/silences", silence(2, "list"))
	env["LLMTAP_SLACK_CHANNEL"], env["LLMTAP_SLACK_TOKEN"] = "#x", "xoxb-1"
	matches("Alertmanager is not affected: silence its messages at http://am:9093/#/silences", silence(0, "list"))
}
