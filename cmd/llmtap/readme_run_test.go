package main

import (
	"bytes"
	"flag"
	"fmt"
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

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	fleetslack "github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var (
	runReadme  = flag.Bool("readme", false, "run the commands of the README in a clone: TestReadmeRun (90 s)")
	coldReadme = flag.Bool("readme-cold", false, "the same with empty caches and a new home, and print the time of each command")
)

// goals are the seconds within which a new user sees what a command promises, on 2 cores with empty caches.
var goals = map[string]float64{"go run ./cmd/llmtap demo": 120}

// TestReadmeRun runs the shell commands of the README, word for word and in their order, in a clone of this repository, with Go, npm
// and Python only. GitHub is this repository, Slack is the demo's, the coding agent claude is a script that begins a session, and pytest
// is one that runs the test of an agent. The commands of the section Develop are not run: this is one of them.
func TestReadmeRun(t *testing.T) {
	if !*runReadme && !*coldReadme {
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
	t.Logf("README, seconds\n  wall    CPU   goal  command%s", r.table.String())
	for _, command := range r.waits {
		if !command.seen {
			t.Errorf("the README no longer has %s", command.prefix)
		}
	}
}

// A longCommand is a command of the README that runs until it is interrupted.
type longCommand struct {
	prefix, ready string // ready is its output after which the next command is run
	check         string // a command that succeeds as soon as it is ready for others, or ""
	env           []string
	seen          bool
}

type readmeRun struct {
	dir   string // of the shell: parent of the clone, then the clone
	env   []string
	waits []*longCommand
	table strings.Builder
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
	python, hook := pythonHook(t, "pytest>=8")
	fake := httptest.NewServer(provider.New(provider.Default()))
	t.Cleanup(fake.Close)
	file(filepath.Join(bin, "pytest"), "#!/bin/sh -e\nexec "+python+" -m pytest -p no:cacheprovider tests\n", 0o700)
	demo, up := filepath.Join(dir, "demo"), filepath.Join(dir, "up")
	return &readmeRun{
		dir: dir,
		env: append(environment(t, bin), "GOBIN="+bin, "LLMTAP_DATA_DIR="+demo,
			"PYTHONPATH="+hook, "PROVIDER="+fake.URL+provider.OpenAIPath,
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+top+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/llmtap/llmtap"),
		waits: []*longCommand{
			{prefix: "go run ./cmd/llmtap demo", ready: "llmtap query whose_change"},
			{prefix: "llmtap up", ready: "llmtap is up", check: "llmtap doctor", env: []string{
				"LLMTAP_DATA_DIR=" + up, "LLMTAP_SLACK_API_URL=" + slack.URL + "/api/", "LLMTAP_NATS_PORT=" + strconv.Itoa(freePort(t)), "LLMTAP_LISTEN=127.0.0.1:0",
				"LLMTAP_PROXY_LISTEN=127.0.0.1:0", "LLMTAP_RECEIVE_LISTEN=127.0.0.1:0", "LLMTAP_RECEIVE_GRPC_LISTEN=127.0.0.1:0", "LLMTAP_UI_LISTEN=127.0.0.1:0",
			}},
		},
	}
}

// environment returns the variables of the shell, with bin on PATH: those of this process, or, with -readme-cold, those of a new user.
func environment(t *testing.T, bin string) []string {
	t.Helper()
	if !*coldReadme {
		return append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	}
	// How this machine reaches registries is not the user's.
	network := regexp.MustCompile(`(?i)^(GOPROXY|GOSUMDB|NPM_CONFIG_.*|PIP_.*|SSL_CERT.*|NODE_EXTRA_CA_CERTS|.*_PROXY|LANG|TERM)=`)
	goenv := must.Get(exec.Command("go", "env", "GOENV").Output())(t)
	path := bin + ":" + filepath.Dir(must.Get(exec.LookPath("go"))(t)) + ":" + filepath.Dir(must.Get(exec.LookPath("npm"))(t)) + ":/usr/bin:/bin"
	return append(slices.DeleteFunc(os.Environ(), func(v string) bool { return !network.MatchString(v) }),
		"HOME="+t.TempDir(), "PATH="+path, "GOENV="+strings.TrimSpace(string(goenv)), "NPM_CONFIG_USERCONFIG="+filepath.Join(os.Getenv("HOME"), ".npmrc"),
		"GOFLAGS=-modcacherw")
}

// took adds a line to the table: a command, and its wall and CPU time.
func (r *readmeRun) took(script string, wall, cpu time.Duration) {
	lines := strings.Split(strings.TrimSpace(script), "\n")
	last, goal := lines[len(lines)-1], ""
	if g := goals[last]; g != 0 {
		goal = strconv.FormatFloat(g, 'f', 0, 64)
	}
	fmt.Fprintf(&r.table, "\n%6.1f %6.1f %6s  %s", wall.Seconds(), cpu.Seconds(), goal, last)
}

// groupCPU returns the CPU time of the processes of a group, and of those that they have waited for.
func groupCPU(t *testing.T, group int) (sum time.Duration) {
	t.Helper()
	for _, path := range must.Get(filepath.Glob("/proc/[0-9]*/stat"))(t) {
		text, _ := os.ReadFile(path) // or it has ended
		_, text, _ = bytes.Cut(text, []byte(") "))
		if f := strings.Fields(string(text)); len(f) > 14 && f[2] == strconv.Itoa(group) {
			for _, ticks := range f[11:15] {
				n := must.Get(strconv.Atoi(ticks))(t)
				sum += time.Duration(n) * time.Second / 100
			}
		}
	}
	return sum
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
				r.start(t, script.String(), env, c)
				script.Reset()
			}
		}
		if text := script.String(); strings.Count(text, "'")%2 == 0 && text != "" {
			r.command(t, text, env)
			script.Reset()
		}
	}
}

// start runs commands until the test ends, and returns when the last of them, c, is ready.
func (r *readmeRun) start(t *testing.T, script string, env []string, c *longCommand) {
	t.Helper()
	r.prepare(t)
	cmd := r.shell(script, env)
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	begun := time.Now()
	deadline, limited := t.Deadline()
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // the shell, go run and the command
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() > 1 {
			t.Logf("%s: %v", script, err)
		}
	})
	for !strings.Contains(out.String(), c.ready) || c.check != "" && r.shell(c.check, env).Run() != nil {
		if limited && time.Until(deadline) < 20*time.Second {
			t.Fatalf("%s\n%s", script, out.String())
		}
		time.Sleep(100 * time.Millisecond)
	}
	r.took(script, time.Since(begun), groupCPU(t, cmd.Process.Pid))
	t.Logf("%s: ready after %s", strings.TrimSpace(script), time.Since(begun).Round(time.Second))
}

// prepare writes the files that the README takes as given.
func (r *readmeRun) prepare(t *testing.T) {
	t.Helper()
	rule := filepath.Join("..", "..", "alerts", "rules", "new_cause.yaml")
	text := filetest.Read(t, rule)
	for name, text := range map[string]string{
		"slack-token": "xoxb-test\n", "my-rules.yaml": string(text),
		"tests/test_agent.py": source(t, "cmd/llmtap/testdata/test_agent.py"),
	} {
		path := filepath.Join(r.dir, filepath.FromSlash(name))
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o750))
		filetest.Write(t, path, text)
	}
}

// exitCodes are the exit codes of commands that do not exit with 0, by the start of the command.
var exitCodes = map[string]int{"llmtap lint histories": 1, "llmtap gate": 1}

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
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	r.took(script, time.Since(begun), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	if cmd.ProcessState.ExitCode() != want {
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
