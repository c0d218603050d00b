package main

import (
	"flag"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	fleetslack "github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var runReadme = flag.Bool("readme", false, "run the commands of the README in a clone: TestReadmeRun (90 s)")

// TestReadmeRun runs the shell commands of the README, word for word and in their order, in a clone of this repository, with Go, npm
// and Python only. GitHub is this repository, Slack is the demo's, and the coding agent claude is a script that begins a session. The
// commands of the section Develop are not run: this is one of them.
func TestReadmeRun(t *testing.T) {
	if !*runReadme {
		t.Skip("runs the commands of the README, with -readme")
	}
	needClickHouse(t)
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Fatalf("this is no clone: %v", err)
	}
	r := newReadmeRun(t, strings.TrimSpace(string(top)))
	readme, _, _ := strings.Cut(source(t, "README.md"), "\n## Develop")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(readme, -1)
	for _, block := range blocks {
		r.run(t, block[1])
	}
	if len(blocks) < 8 {
		t.Errorf("%d blocks of commands", len(blocks))
	}
	for _, command := range r.waits {
		if !command.seen {
			t.Errorf("the README no longer has %s", command.prefix)
		}
	}
}

// A longCommand is a command of the README that runs until it is interrupted.
type longCommand struct {
	prefix, ready string // ready is its output after which the next command is run
	env           []string
	seen          bool
}

type readmeRun struct {
	dir   string // of the shell: parent of the clone, then the clone
	env   []string
	waits []*longCommand
}

func newReadmeRun(t *testing.T, top string) *readmeRun {
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	slack := httptest.NewServer(fleetslack.New(fleetslack.Config{Channels: []string{"oncall"}}))
	t.Cleanup(slack.Close)
	file := func(path, text string, mode os.FileMode) {
		t.Helper()
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o750))
		must.Do(t, os.WriteFile(path, []byte(text), mode))
	}
	file(filepath.Join(bin, "claude"), `#!/bin/sh -e
test "$1 $2 $3 $4" = "mcp add llmtap --" && shift 4
{
	echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"claude","version":"1"}}}'
	sleep 2
} | "$@" | grep '"serverInfo"'
`, 0o700)
	demo, up := filepath.Join(dir, "demo"), filepath.Join(dir, "up")
	return &readmeRun{
		dir: dir,
		env: append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "GOBIN="+bin, "LLMTAP_DATA_DIR="+demo,
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+top+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/llmtap/llmtap"),
		waits: []*longCommand{
			{prefix: "go run ./cmd/llmtap demo", ready: "llmtap query whose_change"},
			{prefix: "llmtap up", ready: "llmtap is up", env: []string{
				"LLMTAP_DATA_DIR=" + up, "LLMTAP_SLACK_API_URL=" + slack.URL + "/api/", "LLMTAP_NATS_PORT=" + strconv.Itoa(freePort(t)), "LLMTAP_LISTEN=127.0.0.1:0",
				"LLMTAP_PROXY_LISTEN=127.0.0.1:0", "LLMTAP_RECEIVE_LISTEN=127.0.0.1:0", "LLMTAP_RECEIVE_GRPC_LISTEN=127.0.0.1:0", "LLMTAP_UI_LISTEN=127.0.0.1:0",
			}},
		},
	}
}

// run runs the commands of a block. Those after a longCommand are run while it does.
func (r *readmeRun) run(t *testing.T, block string) {
	t.Helper()
	var script strings.Builder // commands before a longCommand
	env := r.env
	for line := range strings.Lines(block) {
		script.WriteString(line)
		for _, c := range r.waits {
			if strings.HasPrefix(line, c.prefix) {
				c.seen = true
				env = append(slices.Clip(env), c.env...)
				r.start(t, script.String(), env, c.ready)
				script.Reset()
			}
		}
		if text := script.String(); strings.Count(text, "'")%2 == 0 && text != "" {
			r.command(t, text, env)
			script.Reset()
		}
	}
}

// start runs commands until the test ends, and returns when their output has the text ready.
func (r *readmeRun) start(t *testing.T, script string, env []string, ready string) {
	t.Helper()
	r.prepare(t)
	cmd := r.shell(script, env)
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	begun := time.Now()
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // the shell, go run and the command
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() > 1 {
			t.Logf("%s: %v", script, err)
		}
	})
	for !strings.Contains(out.String(), ready) {
		if time.Since(begun) > 5*time.Minute {
			t.Fatalf("%s\n%s", script, out.String())
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("%s: ready after %s", strings.TrimSpace(script), time.Since(begun).Round(time.Second))
}

// prepare writes the files that the README takes as given.
func (r *readmeRun) prepare(t *testing.T) {
	t.Helper()
	rule := filepath.Join("..", "..", "alerts", "rules", "new_cause.yaml")
	text := filetest.Read(t, rule)
	for name, text := range map[string]string{
		"slack-token": "xoxb-test\n", "my-rules.yaml": string(text),
		"recorded/order.jsonl": `{"model":"gpt-5","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":""},{"role":"tool","tool_call_id":"call_1","content":"x"}]}` + "\n",
	} {
		path := filepath.Join(r.dir, filepath.FromSlash(name))
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o750))
		filetest.Write(t, path, text)
	}
}

// exitCodes are the exit codes of commands that do not exit with 0, by the start of the command.
var exitCodes = map[string]int{"llmtap lint recorded": 1, "llmtap gate": 1}

func (r *readmeRun) command(t *testing.T, script string, env []string) {
	t.Helper()
	begun, want := time.Now(), 0
	for prefix, code := range exitCodes {
		if strings.HasPrefix(script, prefix) {
			want = code
		}
	}
	cmd := r.shell(script, env)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
		t.Errorf("%s: %v, want exit code %d\n%s", script, err, want, out)
	}
	if strings.HasPrefix(script, "git clone ") { // ... && cd llmtap
		r.dir = filepath.Join(r.dir, "llmtap")
	}
	t.Logf("%s: %s\n%s", strings.TrimSpace(script), time.Since(begun).Round(100*time.Millisecond), out)
}

func (r *readmeRun) shell(script string, env []string) *exec.Cmd {
	cmd := exec.Command("bash", "-ec", script)
	cmd.Dir, cmd.Env = r.dir, env
	return cmd
}
