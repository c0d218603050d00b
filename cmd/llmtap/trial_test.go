package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"
	"github.com/llmtap/llmtap/ingest/natsserver"
	sdk "github.com/llmtap/llmtap/ingest/sdk/go"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// The trial of on call, with llmtap up as its own process: a wrong Slack token, an incident, a look at it by another user on
// another host, the fix, a crash and restart of the collector, and the end. Only the provider and Slack are local servers. The log
// of the test (-v) has the Slack message at each step.
//
// Time is compressed: the rule is the shipped one with each duration divided by 15, so the alert ends 20 s after the last
// failure instead of 5 minutes. Expression, thresholds and minimum counts are the shipped ones. As this collector restarts when it
// is younger than the window, the alert ends only when the samples cover the window.
func TestTrial(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	needClickHouse(t)
	w := newTrial(t)

	// The token is wrong: the collector says so, and runs.
	up := w.start(t, "wrong")
	waitFor(t, w.up, "the banner reports the token", func() bool {
		return strings.Contains(words(up.stdout.String()), "slack #oncall does not work: verify the token: auth.test: invalid_auth; check slack.token")
	})
	must.Contain(t, up.stderr.String(), "alert receiver does not work", "log")
	if code, body := w.get(t, "/readyz"); code != http.StatusOK || !strings.Contains(body, "invalid_auth") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	t.Logf("wrong token:\n%s", up.stdout.String())
	up.kill(t)

	// Version 1.0.9 works.
	up = w.start(t, "xoxb-trial")
	waitFor(t, w.up, "the banner", func() bool { return strings.Contains(up.stdout.String(), "llmtap is up") })
	if strings.Contains(up.stdout.String(), "does not work") {
		t.Errorf("banner:\n%s", up.stdout.String())
	}
	healthy := w.agent(t, "1.0.9", true)
	for range 10 {
		healthy.task(t)
	}

	if err := healthy.hook.Flush(t.Context()); err != nil { // each hook has its own queue
		t.Fatal(err)
	}
	second := time.Now().Unix() // counts are by second
	waitFor(t, w.up, "second", func() bool { return time.Now().Unix() > second })

	// Version 1.1.0 does not save tool_calls.
	defective := w.agent(t, "1.1.0", false)
	for range 30 {
		defective.task(t)
	}
	broken := time.Now()
	incident := w.message(t, "CRITICAL", "checkout/planner", "30 of ", "tool_calls", "first seen in 1.1.0 ", "last clean version 1.0.9", "What to do", "--url "+w.url)
	t.Logf("incident, %.1f s after the last failure:\n%s", time.Since(broken).Seconds(), incident)

	// Another user on another host has only the message.
	w.paste(t, incident)

	// Version 1.1.1 is fixed.
	fixed := w.agent(t, "1.1.1", true)
	for range 10 {
		fixed.task(t)
	}
	t.Logf("fix:\n%s", w.message(t, "none since in ", "1.1.1"))

	// The collector crashes and starts again. Calls go on.
	up.kill(t)
	up = w.restart(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	stopCalls := sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
	defer stopCalls()
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
				fixed.task(t)
			}
		}
	}()
	resolved := w.message(t, "RESOLVED", "checkout/planner", "1.1.0")
	stopCalls()
	t.Logf("end, %.0f s after the last failure:\n%s", time.Since(broken).Seconds(), resolved)

	// All of this is one message, which did not get worse without new failures.
	if list := w.channel(); len(list) != 1 {
		t.Errorf("%d messages in the channel", len(list))
		for _, m := range list {
			t.Log(slack.Text(m))
		}
	}
	after := false
	for _, text := range w.seen {
		if after = after || text == incident; after && !strings.Contains(text, ": 30 of 80 calls failed") {
			t.Errorf("after the last failure:\n%s", text)
		}
	}
}

// Without NATS, llmtap up serves from the first second: the banner says what is missing, and the calls through the proxy are
// stored once NATS runs. SIGTERM ends it cleanly.
func TestTrialWithoutNATS(t *testing.T) {
	slowtest.SkipShort(t, "takes ten seconds")
	t.Parallel()
	needClickHouse(t)
	model := httptest.NewServer(provider.New(provider.Config{}))
	t.Cleanup(model.Close)
	cfg := natsserver.Default()
	cfg.AllowAll = true
	cfg.Dir, cfg.Port, cfg.Logger = t.TempDir(), freePort(t), slog.New(slog.DiscardHandler)
	natsURL := fmt.Sprintf("nats://127.0.0.1:%d", cfg.Port)
	up := startUp(t, "--nats-url", natsURL, "--proxy-upstream", "openai="+strings.TrimSuffix(model.URL+provider.OpenAIPath, "/v1"))
	w := &trial{up: up}
	waitFor(t, w.up, "banner", func() bool { return strings.Contains(up.stdout.String(), "Not ready") })
	banner := up.stdout.String()
	if !strings.Contains(words(banner), "NATS at "+natsURL+" is unreachable: dial tcp") || !strings.Contains(banner, "analyze: waiting for NATS") {
		t.Errorf("banner:\n%s", banner)
	}
	addr := regexp.MustCompile(`Proxy +http://([^/]+)/`).FindStringSubmatch(banner)
	if addr == nil {
		t.Fatalf("no proxy in\n%s", banner)
	}
	collectortest.CallProxy(t, addr[1])
	t.Logf("no NATS:\n%s", banner)
	srv, err := natsserver.Start(t.Context(), cfg)
	must.Do(t, err)
	t.Cleanup(srv.Shutdown)
	up.ready(t)
	sink := up.open(t)
	waitFor(t, w.up, "exchanges", func() bool {
		counts, err := sink.Counts(t.Context())
		return err == nil && counts["exchanges"] == 2
	})
	signalProcess(t, up.cmd.Process.Pid, syscall.SIGTERM)
	err, up.cmd = up.cmd.Wait(), nil
	if err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, up.stderr.String())
	}
}

// A trial is the servers and the configuration of TestTrial.
type trial struct {
	slack    *slack.Server
	provider *httptest.Server
	up       *upProcess
	url      string // of the collector
	token    string
	file     string // configuration
	posts    chan slack.Message
	seen     []string // texts of all posts and updates
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	w := &trial{token: "t0ken", posts: make(chan slack.Message, 10_000)}
	w.slack = slack.New(slack.Config{Channels: []string{"oncall"}, OnPost: func(m slack.Message) { w.posts <- m }})
	api := httptest.NewServer(w.slack)
	t.Cleanup(api.Close)
	w.provider = httptest.NewServer(provider.New(provider.Config{Seed: 1}))
	t.Cleanup(w.provider.Close)
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	shipped := filetest.Read(t, filepath.Join("..", "..", "alerts", "rules", "stage_failure_rate.yaml"))
	compressed := strings.NewReplacer("[10m1ms]", "[40s1ms]", "[1m1ms]", "[4s1ms]", "keep_firing_for: 4m", "keep_firing_for: 16s", "llmtap_window: 10m", "llmtap_window: 40s").Replace(string(shipped))
	if left := regexp.MustCompile(`\[\d+m|: \d+m`).FindString(compressed); left != "" {
		t.Fatalf("the rule has another duration: %s", left)
	}
	listen := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	w.url = "http://" + listen
	w.file = filepath.Join(dir, "llmtap.yaml")
	config := fmt.Sprintf(`
listen: %s
http: {token: %s}
ui: {external_url: %s}
slack: {channel: "#oncall", token: "${TRIAL_TOKEN}", api_url: %s/api/}
alerts: {rule_files: [%s], evaluation_interval: 1s, update_interval: 1s}
`, listen, w.token, w.url, api.URL, rules)
	for name, text := range map[string]string{rules: compressed, w.file: config} {
		filetest.Write(t, name, text)
	}
	return w
}

// start starts the collector, on the data directory of the last one, with a token of Slack.
func (w *trial) start(t *testing.T, token string) *upProcess {
	t.Helper()
	if w.up == nil {
		w.up = &upProcess{dir: t.TempDir(), port: freePort(t), flags: []string{"--config", w.file, "--listen", strings.TrimPrefix(w.url, "http://")}}
		t.Cleanup(func() { w.up.kill(t) })
	}
	w.up.env = []string{"TRIAL_TOKEN=" + token}
	return w.restart(t)
}

func (w *trial) restart(t *testing.T) *upProcess {
	t.Helper()
	w.up.stdout, w.up.stderr = lockedBuffer{}, lockedBuffer{}
	w.up.start(t)
	w.up.ready(t)
	return w.up
}

func (w *trial) get(t *testing.T, path string) (int, string) {
	t.Helper()
	return fetch(t, w.url+path, w.token)
}

// message waits for a message or an update of it that contains all of want, and returns its text.
func (w *trial) message(t *testing.T, want ...string) string {
	t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		select {
		case m := <-w.posts:
			if m.ThreadTS != "" {
				continue
			}
			text := slack.Text(m)
			w.seen = append(w.seen, text)
			all := true
			for _, s := range want {
				all = all && strings.Contains(words(text), s)
			}
			if all {
				return text
			}
		case <-timeout:
			_, metrics := w.get(t, "/metrics")
			progress := regexp.MustCompile(`(?m)^llmtap_(alerts|ingest_nats|analyzer)_\S*(_total|_count|firing|seconds)(\{.*\})? .*$`).FindAllString(metrics, -1)
			t.Fatalf("no message with %q; messages:\n%s\n%s\n%s", want, strings.Join(w.seen, "\n---\n"), w.up.stderr.String(), strings.Join(progress, "\n"))
		}
	}
}

// channel returns the messages of the channel, without threads.
func (w *trial) channel() []slack.Message {
	var list []slack.Message
	for _, m := range w.slack.Messages() {
		if m.ThreadTS == "" {
			list = append(list, m)
		}
	}
	return list
}

// paste runs each command of a message as another user, who has only the token of the service.
func (w *trial) paste(t *testing.T, message string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "llmtap-trial-") //nolint:usetesting // unlike t.TempDir, accessible to other users
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must.Do(t, os.Chmod(dir, 0o755))
	must.Do(t, os.Link(os.Args[0], filepath.Join(dir, "llmtap")))
	commands := regexp.MustCompile("llmtap [^`\n]*--url [^`\n]*").FindAllString(message, -1)
	if len(commands) < 2 {
		t.Fatalf("%d commands in\n%s", len(commands), message)
	}
	for _, line := range commands {
		var out []byte
		waitFor(t, w.up, "success of "+line, func() bool { // an alert may be sent before the rows are stored
			cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
			cmd.Dir, cmd.Env = "/", []string{"PATH=" + dir + ":/usr/bin:/bin", "HOME=/nonexistent", "LLMTAP_HTTP_TOKEN=" + w.token, "COLUMNS=80"}
			if os.Getuid() == 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			}
			var err error
			out, err = cmd.CombinedOutput()
			return err == nil && bytes.Contains(out, []byte("tool_calls_dropped_on_save"))
		})
		t.Logf("another user: %s\n%s", line, out)
	}
}

// words returns text without formatting and with single spaces, because messages and the banner are wrapped.
func words(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "`", "")), " ")
}

// A trialAgent is one version of service checkout, with its own hook.
type trialAgent struct {
	url    string // of chat completions
	client *http.Client
	hook   *sdk.Hook
	saves  bool // whether it saves the tool_calls of an answer
	prefix string
	tasks  int
}

func (w *trial) agent(t *testing.T, version string, saves bool) *trialAgent {
	t.Helper()
	hook, err := sdk.Open(sdk.Config{
		URL: fmt.Sprintf("nats://127.0.0.1:%d", w.up.port), Service: "checkout", ServiceVersion: version,
		Hosts: []string{strings.TrimPrefix(w.provider.URL, "http://")}, Capture: event.CaptureFull,
	})
	must.Do(t, err)
	t.Cleanup(func() { _ = hook.Close() }) // if events are lost, the test has failed
	return &trialAgent{hook: hook, saves: saves, prefix: version, url: w.provider.URL + provider.DeepSeekPath + "/chat/completions", client: &http.Client{Transport: hook.Transport(nil)}}
}

// task makes two calls: the model asks for a tool, and answers with its result. If the answer was not saved completely, the
// provider rejects the second call.
func (a *trialAgent) task(t *testing.T) {
	a.tasks++
	ctx := sdk.WithStage(sdk.WithConversation(t.Context(), fmt.Sprintf("order-%s-%d", a.prefix, a.tasks)), "planner")
	history := []any{map[string]string{"role": "user", "content": fmt.Sprintf("Plan order %d:\n- lookup_order for item 1", a.tasks)}}
	type answer struct {
		Role      string `json:"role"`
		Content   string `json:"content"`
		ToolCalls []struct {
			ID       string          `json:"id"`
			Type     string          `json:"type"`
			Function json.RawMessage `json:"function"`
		} `json:"tool_calls,omitempty"`
	}
	ask := func() (status int, m answer) {
		body, err := json.Marshal(map[string]any{"model": "deepseek-chat", "messages": history, "tools": []any{
			map[string]any{"type": "function", "function": map[string]string{"name": "lookup_order"}},
		}})
		if err != nil {
			t.Error(err)
			return 0, m
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, m
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := a.client.Do(req)
		if err != nil {
			t.Error(err)
			return 0, m
		}
		defer resp.Body.Close()
		var got struct{ Choices []struct{ Message answer } }
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		if len(got.Choices) > 0 {
			m = got.Choices[0].Message
		}
		return resp.StatusCode, m
	}
	status, m := ask()
	if status != http.StatusOK || len(m.ToolCalls) != 1 {
		t.Errorf("first call of a task: status %d, %+v", status, m)
		return
	}
	id := m.ToolCalls[0].ID
	if !a.saves {
		m.ToolCalls = nil
	}
	history = append(history, m, map[string]string{"role": "tool", "content": `{"ok":true}`, "tool_call_id": id})
	want := http.StatusOK
	if !a.saves {
		want = http.StatusBadRequest
	}
	if status, _ := ask(); status != want {
		t.Errorf("second call of a task: status %d", status)
	}
}
