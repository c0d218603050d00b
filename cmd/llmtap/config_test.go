package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// loadFile loads a configuration as a command does.
func loadFile(file string, env map[string]string, args ...string) (*settings, error) {
	if file != "" {
		args = append([]string{"--config", file}, args...)
	}
	c := &cli{args: args, stdout: io.Discard, stderr: io.Discard, getenv: func(k string) string { return env[k] }}
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return c.configFlags(fs).load()
}

// Each file of testdata/config holds one mistake and, as a comment at its end, what is said of it.
func TestConfigMistakes(t *testing.T) {
	t.Chdir(filepath.Join("testdata", "config"))
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(file, ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text, want, _ := strings.Cut(string(data), "# want\n")
			_, err = loadFile(file, nil)
			if err == nil {
				t.Fatal("no mistake was found")
			}
			if code := report(err, io.Discard); code != exitBadInput {
				t.Errorf("exit code %d", code)
			}
			got := "# " + strings.ReplaceAll(err.Error(), "\n", "\n# ") + "\n"
			if *update {
				if err := os.WriteFile(file, []byte(text+"# want\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
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

// deploy/llmtap.example.yaml names every key, in order, with its default and a comment on the line above.
func TestExample(t *testing.T) {
	path := filepath.Join("..", "..", "deploy", "llmtap.example.yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cfg := defaults()
	keys := configKeys(reflect.ValueOf(&cfg).Elem(), "")
	for _, k := range keys {
		k.value.SetZero() // so that a default that the file does not give is missed
	}
	origins := map[string]origin{}
	for _, err := range decodeYAML(path, data, &cfg, os.Getenv, origins) {
		t.Error(err)
	}
	want := defaults()
	if diff := cmp.Diff(plain(&want), plain(&cfg)); diff != "" {
		t.Errorf("values (- default, + example):\n%s", diff)
	}
	var listed, known []string
	section, above := "", ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		if m := keyLine.FindStringSubmatch(line); m != nil {
			switch {
			case m[1] == "" && m[3] == "":
				section = m[2] + "."
			case m[1] == "":
				section = ""
				fallthrough
			default:
				listed = append(listed, section+m[2])
				if !commentLine.MatchString(above) {
					t.Errorf("%s: no comment above it", section+m[2])
				}
			}
		}
		above = line
	}
	for _, k := range keys {
		known = append(known, k.path)
	}
	if diff := cmp.Diff(known, listed); diff != "" {
		t.Errorf("keys (- known, + in the example):\n%s", diff)
	}
}

// plain is the configuration as text by key.
func plain(cfg *Config) map[string]string {
	m := map[string]string{}
	for _, k := range configKeys(reflect.ValueOf(cfg).Elem(), "") {
		m[k.path] = yamlText(k.value, k.tag)
	}
	return m
}

func TestConfigPrecedence(t *testing.T) {
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
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"LLMTAP_CONFIG": file, "LLMTAP_SLACK_CHANNEL": "#env", "LLMTAP_NATS_SERVER_PORT": "2000", "LLMTAP_NATS_PORT": "3000",
		"SLACK": "xoxb-1", "LLMTAP_ALERTS_GROUP_BY": "service, stage",
	}
	s, err := loadFile("", env, "--nats-port", "4000", "--roles", "analyze,alert")
	if err != nil {
		t.Fatal(err)
	}
	f := func(key string, got, want any, from string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", key, diff)
		}
		if o := s.origins[key].String(); o != from {
			t.Errorf("%s comes from %s, want %s", key, o, from)
		}
	}
	f("data_dir", s.DataDir, "/from/file", file+":1")
	f("roles", s.Roles, []string{"analyze", "alert"}, "--roles")
	f("nats_server.port", s.NATSServer.Port, 4000, "--nats-port")
	f("nats_server.max_payload", s.NATSServer.MaxPayload, 4<<20, file+":5")
	f("slack.channel", s.Slack.Channel, "#env", "LLMTAP_SLACK_CHANNEL")
	f("slack.token", s.Slack.Token, "xoxb-1 ${x}", file+":8")
	f("clickhouse.retention", s.ClickHouse.Retention, 30*24*time.Hour, file+":10")
	f("alerts.group_by", s.Alerts.GroupBy, []string{"service", "stage"}, "LLMTAP_ALERTS_GROUP_BY")
	f("alerts.evaluation_interval", s.Alerts.EvaluationInterval, 5*time.Second, "default")

	// The variable of a flag wins over that of its key: it is the flag.
	if s, err = loadFile("", env); err != nil {
		t.Fatal(err)
	}
	f("nats_server.port", s.NATSServer.Port, 3000, "LLMTAP_NATS_PORT")
	delete(env, "LLMTAP_NATS_PORT")
	if s, err = loadFile("", env); err != nil {
		t.Fatal(err)
	}
	f("nats_server.port", s.NATSServer.Port, 2000, "LLMTAP_NATS_SERVER_PORT")
}

// Mistakes in the environment and in flags say where they are.
func TestConfigMistakesElsewhere(t *testing.T) {
	f := func(want string, env map[string]string, args ...string) {
		t.Helper()
		_, err := loadFile("", env, args...)
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	f(`LLMTAP_ALERTS_EVALUATION_INTERVAL: alerts.evaluation_interval: "soon" is not a duration such as 90s, 15m or 24h`, map[string]string{"LLMTAP_ALERTS_EVALUATION_INTERVAL": "soon"})
	f(`LLMTAP_NATS_MAX_AGE: nats.max_age: 1s is below 2m0s, the time in which JetStream recognises duplicates`, map[string]string{"LLMTAP_NATS_MAX_AGE": "1s"})
	f(`--nats-port: nats_server.port: "x" is not a whole number`, nil, "--nats-port", "x")
	f(`--roles: roles: "cook" is none of `+strings.Join(allRoles, ", "), nil, "--roles", "alert,cook")
	f(`read the configuration: open /nosuch.yaml: no such file or directory`, map[string]string{"LLMTAP_CONFIG": "/nosuch.yaml"})
}

// No two keys share a variable, and none takes one that means something else.
func TestConfigEnv(t *testing.T) {
	cfg := defaults()
	seen := map[string]string{"LLMTAP_CONFIG": "the file", "LLMTAP_LIBCHDB": "the library", "LLMTAP_SHAPE_KEY": "the hooks"}
	var paths []string
	for _, k := range configKeys(reflect.ValueOf(&cfg).Elem(), "") {
		if other, ok := seen[k.env()]; ok {
			t.Errorf("%s is of %s and of %s", k.env(), other, k.path)
		}
		seen[k.env()] = k.path
		paths = append(paths, k.path)
	}
	for _, f := range keyFlags {
		if !slices.Contains(paths, f.key) {
			t.Errorf("flag --%s sets %s, which is no key", f.name, f.key)
		}
		if other, ok := seen[flagEnv(f.name)]; ok && other != f.key {
			t.Errorf("%s is of flag --%s and of %s", flagEnv(f.name), f.name, other)
		}
	}
}

func TestMasked(t *testing.T) {
	f := func(s, secret, want string) {
		t.Helper()
		if got := masked(s, secret); got != want {
			t.Errorf("masked(%q, %q) = %q, want %q", s, secret, got, want)
		}
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
		if err != nil || got != want || formatSize(got) != back {
			t.Errorf("parseSize(%q) = %d (%s), %v; want %d (%s)", text, got, formatSize(got), err, want, back)
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
		if err != nil || got != want || formatDuration(got) != back {
			t.Errorf("parseDuration(%q) = %v (%s), %v; want %v (%s)", text, got, formatDuration(got), err, want, back)
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

// What config prints is what it reads, but for secrets.
func TestPrintedConfigIsRead(t *testing.T) {
	var out strings.Builder
	s, err := loadFile("", map[string]string{"LLMTAP_SLACK_CHANNEL": "#on: call", "LLMTAP_CLICKHOUSE_RETENTION": "90d", "LLMTAP_SLACK_TOKEN": "yes"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.print(&out); err != nil {
		t.Fatal(err)
	}
	got := defaults()
	for _, err := range decodeYAML("printed", []byte(out.String()), &got, os.Getenv, map[string]origin{}) {
		t.Error(err)
	}
	s.Slack.Token = mask
	if diff := cmp.Diff(plain(&s.Config), plain(&got)); diff != "" {
		t.Error(diff)
	}
}

func TestStreamBytes(t *testing.T) {
	free, total, err := diskSpace(filepath.Join(t.TempDir(), "not", "there"))
	if err != nil || free > total || total == 0 {
		t.Fatalf("free %d of %d, %v", free, total, err)
	}
	if got, want := streamBytes(t.TempDir()), min(10<<30, int64(total/5)); got != want {
		t.Errorf("%d, want %d", got, want)
	}
}

func FuzzDecodeYAML(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "config", "*.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, filepath.Join("..", "..", "deploy", "llmtap.example.yaml")) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		cfg := defaults()
		_ = decodeYAML("f", data, &cfg, func(string) string { return "" }, map[string]origin{})
	})
}
