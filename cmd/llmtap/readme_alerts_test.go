package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/ruletest"
	"github.com/llmtap/llmtap/alerts/webhook"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// alertsBlock returns the code block of alerts/README.md in a language that contains a text.
func alertsBlock(t *testing.T, language, text string) string {
	t.Helper()
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(source(t, "alerts/README.md"), -1) {
		if strings.Contains(m[1], text) {
			return m[1]
		}
	}
	t.Fatalf("alerts/README.md has no %s with %q", language, text)
	return ""
}

// The documented Python verifies the signatures of the webhook and rejects others.
func TestReadmeVerifiesSignatures(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED: no python3 to verify signatures")
	}
	body, secret := []byte(`{"version": "4", "text": "总结"}`), []byte("0123456789abcdef")
	script := "import hashlib, hmac, sys, time\n" + alertsBlock(t, "python", "X-Llmtap-Signature") +
		"secret, sent, signature = sys.argv[1:]\n" +
		`print(signed(secret.encode(), {"X-Llmtap-Timestamp": sent, "X-Llmtap-Signature": signature}, sys.stdin.buffer.read()))`
	f := func(want, body, key, sent, signature string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), python, "-c", script, key, sent, signature)
		cmd.Stdin = strings.NewReader(body)
		must.Equal(t, strings.TrimSpace(string(must.Get(cmd.CombinedOutput())(t))), want, "output")
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	old := strconv.FormatInt(time.Now().Unix()-3600, 10)
	f("True", string(body), string(secret), now, webhook.Sign(secret, now, body))
	f("False", string(body), "another secret key", now, webhook.Sign(secret, now, body))
	f("False", string(body)+" ", string(secret), now, webhook.Sign(secret, now, body))
	f("False", string(body), string(secret), old, webhook.Sign(secret, old, body))
	f("False", string(body), string(secret), now, webhook.Sign(secret, old, body))
}

// The documented rule passes the unit test in llmtap alerts test --help, and the documented receivers are a valid configuration.
func TestReadmeAlerts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		filetest.Write(t, path, text)
		return path
	}
	write("my-rules.yaml", alertsBlock(t, "yaml", "alert: PlannerFails"))
	_, unit, ok := strings.Cut(alertsTestCommand.Long, "  rule_files:")
	unit, _, end := strings.Cut(unit, "\n\n")
	if !ok || !end {
		t.Fatal("the help contains no test file")
	}
	r, err := ruletest.Run(t.Context(), engine.Default().Rules(), []string{write("my-rules.test.yaml", strings.ReplaceAll("  rule_files:"+unit, "\n  ", "\n")[2:]+"\n")})
	if err != nil || r.Failed > 0 || r.Tests != 1 {
		t.Errorf("%v %+v", err, r)
	}

	for _, block := range []string{"heartbeat_url", "api.incident.io", "api.opsgenie.com"} {
		text := alertsBlock(t, "yaml", block)
		for _, secret := range regexp.MustCompile(`/etc/llmtap/(\S+)`).FindAllStringSubmatch(text, -1) {
			content := "0123456789abcdef"
			if secret[1] == "teams-url" {
				content = "https://example.com/workflows/0123456789abcdef?sig=" + content
			}
			text = strings.ReplaceAll(text, secret[0], write(secret[1], content))
		}
		path := write("llmtap.yaml", text)
		succeed(t, "config", "--check", "--config", path)
		cfg := must.Get(config.Load(path, func(string) string { return "" }))(t)
		must.Get(collector.Receivers(&cfg.Config, alerts.NotifierOptions{}))(t)
	}
}
