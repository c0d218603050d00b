package config

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var update = flag.Bool("update", false, "rewrite the expected errors in testdata")

// load loads the configuration as a command does.
func load(env map[string]string, args ...string) (*Effective, error) {
	getenv := func(k string) string { return env[k] }
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	f := AddFlags(fs, getenv)
	if err := errors.Join(ReadEnv(fs, getenv), fs.Parse(args)); err != nil {
		return nil, err
	}
	return f.Load()
}

// Each file of testdata is invalid and ends with the expected errors as a comment.
func TestErrors(t *testing.T) {
	t.Chdir("testdata")
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(file, ".yaml"), func(t *testing.T) {
			data := filetest.Read(t, file)
			text, want, _ := strings.Cut(string(data), "# want\n")
			_, err = load(nil, "--config", file)
			if _, ok := errors.AsType[*InvalidError](err); !ok {
				t.Fatalf("error %v is not an InvalidError", err)
			}
			got := "# " + strings.ReplaceAll(err.Error(), "\n", "\n# ") + "\n"
			if *update {
				filetest.Write(t, file, text+"# want\n"+got)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var (
	keyLine     = regexp.MustCompile(`^( *)([a-z_]+):( .*)?$`)
	commentLine = regexp.MustCompile(`^ *# \S`)
)

// deploy/llmtap.example.yaml lists every key, in order, with its default and a comment on the line above.
func TestExample(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "deploy", "llmtap.example.yaml")
	data := filetest.Read(t, path)
	cfg := Default()
	keys := cfg.Keys()
	for _, k := range keys {
		k.value.SetZero() // so that a key missing from the file differs
	}
	for _, err := range decodeYAML(path, data, &cfg, os.Getenv, map[string]string{}) {
		t.Error(err)
	}
	want := Default()
	must.Agree(t, cmp.Diff(plain(&want), plain(&cfg)), "values differ (- default, + example)")
	var listed, known []string
	var parents []string
	above := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		if m := keyLine.FindStringSubmatch(line); m != nil {
			parents = append(parents[:min(len(m[1])/2, len(parents))], m[2])
			key := strings.Join(parents, ".")
			if m[3] != "" {
				listed, parents = append(listed, key), parents[:len(parents)-1]
			}
			if (m[1] != "" || m[3] != "") && !commentLine.MatchString(above) {
				t.Errorf("%s: no comment on the line above", key)
			}
		}
		above = line
	}
	for _, k := range keys {
		known = append(known, k.Path)
	}
	must.Agree(t, cmp.Diff(known, listed), "keys differ (- known, + example)")
}

// plain returns the values as text, by key.
func plain(cfg *Config) map[string]string {
	m := map[string]string{}
	for _, k := range cfg.Keys() {
		m[k.Path] = k.String()
	}
	return m
}

func TestPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "llmtap.yaml")
	err := os.WriteFile(file, []byte(`data_dir: /from/file
roles: [alert]
nats_server:
  port: 1000
  max_payload: 4MiB
slack:
  channel: "#file"
  token: ${SLACK} $${x}
clickhouse:
  retention: 30d
`), 0o600)
	must.Do(t, err)
	env := map[string]string{
		"LLMTAP_CONFIG": file, "LLMTAP_SLACK_CHANNEL": "#env", "LLMTAP_NATS_SERVER_PORT": "2000", "LLMTAP_NATS_PORT": "3000",
		"SLACK": "xoxb-1", "LLMTAP_ALERTS_GROUP_BY": "service, stage",
	}
	s := must.Get(load(env, "--nats-port", "4000", "--roles", "analyze,alert"))(t)
	f := func(key string, got, want any, from string) {
		t.Helper()
		must.Agree(t, cmp.Diff(want, got), key)
		must.Equal(t, s.Origin(key), from, "%s: origin", key)
	}
	f("data_dir", s.DataDir, "/from/file", file+":1")
	f("roles", s.Roles, []string{"analyze", "alert"}, "--roles")
	f("nats_server.port", s.NATSServer.Port, 4000, "--nats-port")
	f("nats_server.max_payload", s.NATSServer.MaxPayload, 4<<20, file+":5")
	f("slack.channel", s.Slack.Channel, "#env", "LLMTAP_SLACK_CHANNEL")
	f("slack.token", s.Slack.Token, "xoxb-1 ${x}", file+":8")
	f("clickhouse.retention", s.ClickHouse.Retention, 30*24*time.Hour, file+":10")
	f("alerts.group_by", s.Alerts.GroupBy, []string{"service", "stage"}, "LLMTAP_ALERTS_GROUP_BY")
	f("alerts.evaluation_interval", s.Alerts.EvaluationInterval, time.Second, "default")

	// The variable of a flag overrides that of its key.
	s = must.Get(load(env))(t)
	f("nats_server.port", s.NATSServer.Port, 3000, "LLMTAP_NATS_PORT")
	delete(env, "LLMTAP_NATS_PORT")
	s = must.Get(load(env))(t)
	f("nats_server.port", s.NATSServer.Port, 2000, "LLMTAP_NATS_SERVER_PORT")
}

// Errors in the environment and in flags name the variable or flag.
func TestErrorOrigins(t *testing.T) {
	f := func(want string, env map[string]string, args ...string) {
		t.Helper()
		must.Equal(t, fmt.Sprint(must.Err(load(env, args...))), want, "error")
	}
	f(`LLMTAP_ALERTS_EVALUATION_INTERVAL: alerts.evaluation_interval: "soon" is not a duration such as 90s, 15m or 24h`, map[string]string{"LLMTAP_ALERTS_EVALUATION_INTERVAL": "soon"})
	f(`LLMTAP_NATS_MAX_AGE: nats.max_age: 1s is below 10s, JetStream's duplicate window`, map[string]string{"LLMTAP_NATS_MAX_AGE": "1s"})
	f(`--nats-port: nats_server.port: "x" is not a whole number`, nil, "--nats-port", "x")
	f(`--roles: roles: "cook" is not one of `+strings.Join(roles, ", "), nil, "--roles", "alert,cook")
	f(`read configuration: open /nosuch.yaml: no such file or directory`, map[string]string{"LLMTAP_CONFIG": "/nosuch.yaml"})
}

func TestProxyFlags(t *testing.T) {
	f := func(want map[string]string, env string, args ...string) {
		t.Helper()
		s := must.Get(load(map[string]string{"LLMTAP_PROXY_UPSTREAM": env}, args...))(t)
		must.Agree(t, cmp.Diff(want, s.Proxy.Upstreams))
	}
	two := map[string]string{"a": "http://127.0.0.1:1/v1", "b": "https://b.example"}
	f(nil, "")
	f(two, "", "--proxy-upstream", "a=http://127.0.0.1:1/v1", "--proxy-upstream", "b=https://b.example")
	f(two, "a=http://127.0.0.1:1/v1, b=https://b.example")
	f(map[string]string{"c": "https://c.example"}, "a=http://127.0.0.1:1/v1", "--proxy-upstream", "c=https://c.example")
	fails := func(want string, args ...string) {
		t.Helper()
		must.Fail(t, must.Err(load(nil, args...)), want)
	}
	fails(`--proxy-upstream: proxy.upstreams: "http://127.0.0.1:1" is not name=value`, "--proxy-upstream", "http://127.0.0.1:1")
	fails(`--proxy-upstream: proxy.upstreams: a: "ftp://x" is not like`, "--proxy-upstream", "a=ftp://x")
	fails(`--proxy-listen: proxy.listen: 0.0.0.0:8089 is not loopback; set token or token_file`, "--proxy-listen", "0.0.0.0:8089")
	fails(`--receive-listen: receive.listen: 0.0.0.0:4318 is not loopback; set token or token_file`, "--receive-listen", "0.0.0.0:4318")
	fails(`--proxy-capture: proxy.capture: "text" is not one of shape, full, none`, "--proxy-capture", "text")
	must.Do(t, must.Err(load(nil, "--proxy-listen", "0.0.0.0:8089", "--roles", "analyze")), "proxy keys are validated without the role proxy")
}

// No two keys share a variable, and none uses a variable of another meaning.
func TestEnv(t *testing.T) {
	cfg := Default()
	seen := map[string]string{"LLMTAP_CONFIG": "the file", "LLMTAP_LIBCHDB": "the library", "LLMTAP_SHAPE_KEY": "the hooks"}
	var paths []string
	for _, k := range cfg.Keys() {
		if other, ok := seen[k.env()]; ok {
			t.Errorf("%s sets both %s and %s", k.env(), other, k.Path)
		}
		seen[k.env()] = k.Path
		paths = append(paths, k.Path)
	}
	for key, f := range keyFlags {
		if !slices.Contains(paths, key) {
			t.Errorf("flag --%s sets unknown key %s", f.name, key)
		}
		if other, ok := seen[FlagEnv(f.name)]; ok && other != key {
			t.Errorf("%s sets both flag --%s and %s", FlagEnv(f.name), f.name, other)
		}
	}
}

func TestMasked(t *testing.T) {
	f := func(s, secret, want string) {
		t.Helper()
		must.Equal(t, masked(s, secret), want, "masked(%q, %q)", s, secret)
	}
	f("", "all", "")
	f("plain", "", "plain")
	f("xoxb-1", "all", "********")
	f("nats://a:4222,nats://u:p@b:4222", "url", "nats://a:4222,nats://u:********@b:4222")
	f("nats://token@a:4222", "url", "nats://********@a:4222")
	f("clickhouse://h:9000/x?username=u&password=p&compress=lz4", "url", "clickhouse://h:9000/x?username=u&password=********&compress=lz4")
	f("http://u:p%zz@h", "url", "********")
	f("h:4222", "url", "h:4222")
}

func TestValues(t *testing.T) {
	size := func(text string, want int64, back string) {
		t.Helper()
		got, err := parseSize(text)
		if err != nil || got != want || FormatSize(got) != back {
			t.Errorf("parseSize(%q) = %d (%s), %v; want %d (%s)", text, got, FormatSize(got), err, want, back)
		}
	}
	size("2GiB", 2<<30, "2GiB")
	size("1.5 GiB", 3<<29, "1536MiB")
	size("16MB", 16e6, "15625KiB")
	size("100kB", 100_000, "100000")
	size("7B", 7, "7")
	for _, bad := range []string{"", "GiB", "1", "1gib", "1e30TiB", "NaNB", "1 2KiB"} {
		if n, err := parseSize(bad); err == nil {
			t.Errorf("parseSize(%q) = %d", bad, n)
		}
	}
	duration := func(text string, want time.Duration, back string) {
		t.Helper()
		got, err := parseDuration(text)
		if err != nil || got != want || FormatDuration(got) != back {
			t.Errorf("parseDuration(%q) = %v (%s), %v; want %v (%s)", text, got, FormatDuration(got), err, want, back)
		}
	}
	duration("15m", 15*time.Minute, "15m")
	duration("24h", 24*time.Hour, "24h")
	duration("1h30m", 90*time.Minute, "1h30m")
	duration("30d", 720*time.Hour, "30d")
	duration("1.5s", 1500*time.Millisecond, "1.5s")
	duration("0", 0, "0s")
	duration("10h0m10s", 10*time.Hour+10*time.Second, "10h0m10s")
}

// Printed configuration decodes to the same values, except secrets.
func TestPrintRoundTrip(t *testing.T) {
	var out strings.Builder
	s := must.Get(load(map[string]string{"LLMTAP_SLACK_CHANNEL": "#on: call", "LLMTAP_CLICKHOUSE_RETENTION": "90d", "LLMTAP_SLACK_TOKEN": "yes"}))(t)
	must.Do(t, s.Print(&out))
	got := Default()
	for _, err := range decodeYAML("printed", []byte(out.String()), &got, os.Getenv, map[string]string{}) {
		t.Error(err)
	}
	s.Slack.Token = mask
	must.Agree(t, cmp.Diff(plain(&s.Config), plain(&got)))
}

// Entries of lists have defaults, and their secrets are masked.
func TestEntries(t *testing.T) {
	cfg := Default()
	const text = `routing:
  routes: [{receivers: [a]}]
  receivers: [{name: a, email_configs: [{to: a@example.com, from: b@example.com, smarthost: "h:25", auth_username: u, auth_password: s3cret}]}]
`
	for _, err := range decodeYAML("file", []byte(text), &cfg, os.Getenv, map[string]string{}) {
		t.Error(err)
	}
	must.Do(t, cfg.Validate())
	must.Equal(t, cfg.Routing.Configured[0].Email[0].RequireTLS, true, "require_tls")
	for _, k := range cfg.Keys() {
		if strings.Contains(k.String(), "s3cret") {
			t.Error(k)
		}
	}
}

func TestStreamBytes(t *testing.T) {
	free, total, err := DiskSpace(filepath.Join(t.TempDir(), "not", "there"))
	if err != nil || free > total || total == 0 {
		t.Fatalf("free %d of %d, %v", free, total, err)
	}
	must.Equal(t, streamBytes(t.TempDir()), min(10<<30, int64(total/5)), "streamBytes")
}

func FuzzDecodeYAML(f *testing.F) {
	files := must.Get(filepath.Glob(filepath.Join("testdata", "*.yaml")))(f)
	for _, file := range append(files, filepath.Join("..", "..", "..", "..", "deploy", "llmtap.example.yaml")) {
		data := filetest.Read(f, file)
		f.Add(data)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		cfg := Default()
		_ = decodeYAML("f", data, &cfg, func(string) string { return "" }, map[string]string{})
	})
}

// The schema of the chart has the same keys, so that helm refuses a misspelt one. A leaf permits what llmtap reads: a variable may stand for any value.
func TestChartSchema(t *testing.T) {
	type schema struct {
		Properties map[string]*schema `json:"properties,omitempty"`
		Closed     *bool              `json:"additionalProperties,omitempty"`
	}
	cfg, want := Default(), &schema{}
	for _, k := range cfg.Keys() {
		at := want
		for name := range strings.SplitSeq(k.Path, ".") {
			if at.Properties == nil {
				at.Properties, at.Closed = map[string]*schema{}, new(bool)
			}
			if at.Properties[name] == nil {
				at.Properties[name] = &schema{}
			}
			at = at.Properties[name]
		}
	}
	var chart struct {
		Definitions struct{ Config *schema }
	}
	must.Do(t, json.Unmarshal(filetest.Read(t, filepath.Join("..", "..", "..", "..", "deploy", "helm", "llmtap", "values.schema.json")), &chart))
	if diff := cmp.Diff(want, chart.Definitions.Config); diff != "" {
		t.Errorf("definitions.config differs (- keys, + schema):\n%s\nIt is\n%s", diff, must.Get(json.Marshal(want))(t))
	}
}
