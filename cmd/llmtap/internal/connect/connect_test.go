package connect

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// parse returns the servers of a command line.
func parse(t *testing.T, env map[string]string, args ...string) *Servers {
	t.Helper()
	var s *Servers
	cmd := &command.Command{Name: "test", Run: func(_ context.Context, c *command.Call) error {
		s = DirectFlags(c, "nats.url")
		return c.Parse()
	}}
	call := &command.Call{Args: append([]string{"test"}, args...), Stdout: io.Discard, Stderr: io.Discard, Getenv: func(k string) string { return env[k] }}
	must.Do(t, command.Run(t.Context(), &command.Command{Commands: []*command.Command{cmd}}, call))
	return s
}

// The DSN is that of the flag, else of the environment, else of the file.
func TestClickHouse(t *testing.T) {
	file := filetest.Temp(t, "llmtap.yaml", "clickhouse:\n  dsn: http://file:8123\n  password_file: /secret\n  retention: 24h\n")
	f := func(want string, env map[string]string, args ...string) {
		t.Helper()
		cfg, err := parse(t, env, args...).ClickHouse()
		if err != nil || cfg.DSN != want || cfg.Retention != 0 {
			t.Errorf("%v %q: DSN %q, retention %v, %v, want %q", env, args, cfg.DSN, cfg.Retention, err, want)
		}
	}
	f("http://file:8123", nil, "--config", file)
	f("http://file:8123", map[string]string{"LLMTAP_CONFIG": file})
	f("http://env:8123", map[string]string{"LLMTAP_CONFIG": file, "LLMTAP_CLICKHOUSE_DSN": "http://env:8123"})
	f("http://flag:8123", map[string]string{"LLMTAP_CLICKHOUSE_DSN": "http://env:8123"}, "--config", file, "--clickhouse-dsn", "http://flag:8123")

	_, err := parse(t, nil, "--data-dir", "nowhere").ClickHouse()
	if err == nil || !strings.HasPrefix(err.Error(), "llmtap is not running on nowhere; start it with llmtap up") {
		t.Errorf("no running llmtap: %v", err)
	}
}

// The NATS URL is that of the configuration, else of the running llmtap.
func TestNATS(t *testing.T) {
	dir := t.TempDir()
	f := func(want string, args ...string) {
		t.Helper()
		e := must.Get(parse(t, nil, append(args, "--data-dir", dir)...).Config())(t)
		if cfg, ok := NATS(e); cfg.URL != want || ok != (want != "") {
			t.Errorf("%q: URL %q, %v, want %q", args, cfg.URL, ok, want)
		}
	}
	f("")
	remove := must.Get(collector.Announce(dir, collector.Running{NATSURL: "nats://127.0.0.1:4333"}))(t)
	defer remove()
	f("nats://127.0.0.1:4333")
	f("nats://mine:4222", "--nats-url", "nats://mine:4222")
}

// The URL for hooks is that of the running llmtap, with their token.
func TestHookURL(t *testing.T) {
	dir := t.TempDir()
	f := func(want, text string) {
		t.Helper()
		s := parse(t, nil, "--data-dir", dir, "--config", filetest.Temp(t, "llmtap.yaml", text))
		must.Equal(t, must.Get(s.HookURL())(t), want, "%s: URL", text)
	}
	f("", "")
	remove := must.Get(collector.Announce(dir, collector.Running{NATSURL: "nats://127.0.0.1:4333"}))(t)
	defer remove()
	f("nats://127.0.0.1:4333", "")
	f("nats://a%2Fb@127.0.0.1:4333", "nats_server: {token: a/b}")
}
