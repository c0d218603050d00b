package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/ingest/sdk/go/llmtaptest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/python/pythontest"
	"github.com/llmtap/llmtap/ingest/sdk/typescript/nodetest"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A project is the directory of a program that does not know the hook.
type project struct {
	t   *testing.T
	dir string
	env []string
}

func newProject(t *testing.T, files map[string]string) *project {
	t.Helper()
	p := &project{t: t, dir: t.TempDir()}
	for name, text := range files {
		path := filepath.Join(p.dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		filetest.Write(t, path, text)
	}
	return p
}

// command returns a process of llmtap in the directory.
func (p *project) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.t.Context(), os.Args[0], args...)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), p.env...)
	return cmd
}

func (p *project) llmtap(args ...string) (stdout, stderr string, code int) {
	p.t.Helper()
	var out, errs bytes.Buffer
	cmd := p.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // its error is the exit code
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// pythonHook returns a Python without the hook, and the directory of the hook.
func pythonHook(t *testing.T, packages ...string) (python, hook string) {
	t.Helper()
	hook = must.Get(filepath.Abs(filepath.Join("..", "..", "ingest", "sdk", "python")))(t)
	pythontest.Watch(t, hook)
	return pythontest.Interpreter(t, append(packages, "nats-py>=2.6,<3", "httpx>=0.27,<1")...), hook
}

const pythonProgram = `import multiprocessing, os, subprocess, sys, urllib.request

def call():
    request = urllib.request.Request(os.environ["PROVIDER"] + "/v1/chat/completions", b'` + chatCall + `', {"Content-Type": "application/json"})
    urllib.request.urlopen(request).read()

if __name__ == "__main__":
    print(sys.kept, sys.argv[1:])
    call()
    worker = multiprocessing.get_context("spawn").Process(target=call)
    worker.start()
    worker.join()
    subprocess.run([sys.executable, "-c", "import program; program.call()"], check=True)
    sys.exit(5)
`

const nodeProgram = `import { spawnSync } from "node:child_process";
const call = () => fetch(process.env.PROVIDER + "/v1/chat/completions", { method: "POST", headers: { "Content-Type": "application/json" }, body: '` + chatCall + `' });
await (await call()).text();
if (process.argv[2] === "child") process.exitCode = 0;
else {
  console.log(globalThis.kept, process.argv.slice(2));
  process.exitCode = spawnSync(process.execPath, [import.meta.filename ?? process.argv[1], "child"], { stdio: "inherit" }).status + 5;
}
`

// Programs and the processes that they start are recorded, with the name of the project and the version of its repository. What the
// environment and sitecustomize had before is kept.
func TestRun(t *testing.T) {
	slowtest.Skip(t)
	needClickHouse(t)
	python, hook := pythonHook(t)
	node := nodetest.Hook(t)
	srv := standInProvider(t)
	up := startUp(t)
	up.ready(t)
	env := []string{"PROVIDER=" + srv.URL, "LLMTAP_HOSTS=" + strings.TrimPrefix(srv.URL, "http://"), "PYTHONDONTWRITEBYTECODE=1"}

	p := newProject(t, map[string]string{
		"program.py": pythonProgram, "other/sitecustomize.py": "import sys\nsys.kept = 'kept'\n",
		"pyproject.toml": "[build-system]\nrequires = []\n\n[project]\ndependencies = [\"a\"]\nname = \"checkout-agent\"\n",
	})
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "all"}, {"tag", "-a", "v1.2", "-m", "1.2"}} {
		cmd := exec.Command("git", append([]string{"-C", p.dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		must.Do(t, cmd.Run(), args)
	}
	p.env = append(env, "PYTHONPATH=other"+string(os.PathListSeparator)+hook)
	out, errs, code := p.llmtap("run", "--data-dir", up.dir, "--", python, "program.py", "--flag", "a b")
	must.Equal(t, out+errs, "kept ['--flag', 'a b']\n", "Python")
	must.Equal(t, code, 5, "exit code of Python")

	p = newProject(t, map[string]string{
		"program.mjs": nodeProgram, "other file.cjs": "globalThis.kept = 'kept';\n", "package.json": `{"name": "shop-agent", "version": "0.3.1"}`,
	})
	must.Do(t, os.Mkdir(filepath.Join(p.dir, "node_modules"), 0o700))
	must.Do(t, os.Symlink(node, filepath.Join(p.dir, "node_modules", "llmtap")))
	p.env = append(env, `NODE_OPTIONS=--require "./other file.cjs"`)
	out, errs, code = p.llmtap("run", "--data-dir", up.dir, "--", "node", "program.mjs", "--flag", "a b")
	must.Equal(t, out+errs, "kept [ '--flag', 'a b' ]\n", "Node.js")
	must.Equal(t, code, 5, "exit code of Node.js")

	const want = "[[checkout-agent v1.2 python/0.1.0 3] [shop-agent 0.3.1 typescript/0.1.0 2]]"
	sink, got := up.open(t), ""
	waitFor(t, up, want, func() bool {
		res, err := sink.Query(t.Context(), "SELECT service, service_version, sdk, count() FROM exchanges_final WHERE status = 200 GROUP BY ALL ORDER BY ALL", nil)
		if err == nil {
			got = fmt.Sprint(res.Rows)
		}
		return got == want
	})
}

// A program without the package of the hook runs as it would without llmtap, and is told once. Exit codes and signals are its own.
func TestRunWithoutHook(t *testing.T) {
	p := newProject(t, nil)
	f := func(want string, wantCode int, told int, args ...string) {
		t.Helper()
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Skipf("SKIPPED: %v", err)
		}
		out, errs, code := p.llmtap(append([]string{"run", "--"}, args...)...)
		if out != want || code != wantCode || strings.Count(errs, "the calls of this program are not recorded: the package llmtap is not installed") != told {
			t.Errorf("%q: %d %q\n%s", args, code, out, errs)
		}
	}
	f("1\n", 3, 1, "python3", "-c", `import subprocess, sys, urllib.request
subprocess.run([sys.executable, "-c", "import urllib.request"])
print(1)
sys.exit(3)`)
	f("1\n", 0, 0, "python3", "-c", "print(1)")
	f("1\n", 3, 1, "node", "-e", `require("child_process").spawnSync(process.execPath, ["-e", "0"], {stdio: "inherit"}); console.log(1); process.exit(3)`)
	f("", 127, 0, "sh", "-c", "exit 127")
	for code, name := range map[int]string{127: "no-such-program", 126: "/dev/null"} {
		_, errs, got := p.llmtap("run", "--", name)
		must.Equal(t, got, code, "exit code of %s", name)
		must.Contain(t, errs, "llmtap: run "+name+": ")
	}
	cmd := p.command("run", "--", "sh", "-c", "kill -TERM $$")
	_ = cmd.Run() // its error is the signal
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
		t.Errorf("ended by %v", cmd.ProcessState)
	}
}

// nodeTest is testdata/test_agent.py for Node.js.
const nodeTest = `import test from "node:test";
import assert from "node:assert";

const ask = (messages) => fetch(process.env.PROVIDER + "/chat/completions", { method: "POST", headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ model: "gpt-5", messages, tools: [{ type: "function", function: { name: "read_file" } }] }) });

test("agent", async () => {
  const messages = [{ role: "user", content: "do:\n- read_file {}" }];
  const answer = (await (await ask(messages)).json()).choices[0].message;
  messages.push({ role: "assistant", content: answer.content }, { role: "tool", tool_call_id: answer.tool_calls[0].id, content: "x" });
  const last = await ask(messages);
  await last.text();
  assert.equal(last.status, 200);
});
`

// A test of an agent that loses the calls of an answer is recorded, whether it fails or not, and lint says why.
func TestRecord(t *testing.T) {
	slowtest.Skip(t)
	python, hook := pythonHook(t, "pytest>=8", "pytest-xdist>=3")
	node := nodetest.Hook(t)
	srv := httptest.NewServer(provider.New(provider.Default()))
	defer srv.Close()
	check := func(p *project, file, say string, want int, args ...string) {
		t.Helper()
		p.env = append(p.env, "PROVIDER="+srv.URL+provider.OpenAIPath, "PYTHONDONTWRITEBYTECODE=1")
		out, errs, code := p.llmtap(append([]string{"record"}, args...)...)
		must.Equal(t, code, want, "%s%s\nexit code", out, errs)
		must.Contain(t, errs, "llmtap: recorded 2 calls; check them: llmtap lint "+file)
		must.Contain(t, out, say)
		p.lintFails(file)
	}
	p := newProject(t, map[string]string{"test_agent.py": source(t, "cmd/llmtap/testdata/test_agent.py")})
	p.env = []string{"PYTHONPATH=" + hook}
	check(p, "histories.jsonl", "1 passed", 0, "--", python, "-m", "pytest", "-p", "no:cacheprovider")

	p = newProject(t, map[string]string{"agent.test.mjs": nodeTest})
	must.Do(t, os.Mkdir(filepath.Join(p.dir, "node_modules"), 0o700))
	must.Do(t, os.Symlink(node, filepath.Join(p.dir, "node_modules", "llmtap")))
	check(p, "node.jsonl", "fail 1", 1, "-o", "node.jsonl", "--", "node", "--test")
}

// lintFails checks that file has the calls of an agent that loses the calls of an answer.
func (p *project) lintFails(file string) {
	p.t.Helper()
	out, errs, code := p.llmtap("lint", "--format", "github", file)
	must.Equal(p.t, code, command.ExitFailed, "%s%s\nexit code", out, errs)
	must.Contain(p.t, out, "::error file="+file+",line=2")
	must.Contain(p.t, out, "tool_calls_dropped_on_save")
}

// The helpers of the hooks for tests write the file that llmtap record writes.
func TestHistories(t *testing.T) {
	slowtest.Skip(t)
	python, hook := pythonHook(t, "pytest>=8", "pytest-xdist>=3")
	node := nodetest.Hook(t)
	srv := httptest.NewServer(provider.New(provider.Default()))
	defer srv.Close()
	bin := t.TempDir()
	must.Do(t, os.Symlink(os.Args[0], filepath.Join(bin, "llmtap")))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("PROVIDER", srv.URL+provider.OpenAIPath)
	run := func(p *project, want string, name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = p.dir, append(os.Environ(), p.env...)
		out, _ := cmd.CombinedOutput() // a test may fail
		must.Contain(t, string(out), want)
	}

	agent := source(t, "cmd/llmtap/testdata/test_agent.py")
	p := newProject(t, map[string]string{"test_agent.py": agent, "test_other.py": agent, "pytest.ini": "[pytest]\nusefixtures = llmtap_histories\n"})
	p.env = []string{"PYTHONPATH=" + filepath.Join(p.dir, "site"), "PYTHONDONTWRITEBYTECODE=1"}
	run(p, "", python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", "site", hook) // pytest finds plugins that are installed
	run(p, "1 passed", python, "-m", "pytest", "-p", "no:cacheprovider", "test_agent.py")
	p.lintFails("histories.jsonl")
	run(p, "2 passed", python, "-m", "pytest", "-p", "no:cacheprovider", "--numprocesses=2", "--dist=loadfile") // a file of tests for each worker
	p.lintFails("histories-gw0.jsonl")
	p.lintFails("histories-gw1.jsonl")

	const start = `import { after } from "node:test";
import { recordHistories } from "llmtap/histories";
after(await recordHistories("node.jsonl"));
`
	p = newProject(t, map[string]string{"agent.test.mjs": start + nodeTest})
	must.Do(t, os.Mkdir(filepath.Join(p.dir, "node_modules"), 0o700))
	must.Do(t, os.Symlink(node, filepath.Join(p.dir, "node_modules", "llmtap")))
	run(p, "fail 1", "node", "--test")
	p.lintFails("node.jsonl")

	p = newProject(t, nil)
	t.Run("Go", func(t *testing.T) {
		client := http.Client{Transport: llmtaptest.Record(t, filepath.Join(p.dir, "go.jsonl")).Transport(nil)}
		ask := func(messages string) {
			t.Helper()
			body := `{"model": "gpt-5", "messages": ` + messages + `, "tools": [{"type": "function", "function": {"name": "read_file"}}]}`
			resp := must.Get(client.Post(os.Getenv("PROVIDER")+"/chat/completions", "application/json", strings.NewReader(body)))(t)
			must.Get(io.Copy(io.Discard, resp.Body))(t)
			must.Do(t, resp.Body.Close())
		}
		ask(`[{"role": "user", "content": "do:\n- read_file {}"}]`)
		ask(`[{"role": "user", "content": "do:\n- read_file {}"}, {"role": "assistant", "content": ""}, {"role": "tool", "tool_call_id": "call_1", "content": "x"}]`)
	})
	out, errs, code := p.llmtap("lint", "--format", "github", "go.jsonl")
	must.Equal(t, code, command.ExitFailed, "%s%s\nexit code", out, errs)
	must.Contain(t, out, "::error file=go.jsonl,line=2")
}

// A signal reaches the program that is recorded, whose exit code is that of llmtap.
func TestRecordSignals(t *testing.T) {
	p := newProject(t, nil)
	f := func(script string, want int) {
		t.Helper()
		cmd := p.command("record", "--", "sh", "-c", script)
		out := must.Get(cmd.StdoutPipe())(t)
		must.Do(t, cmd.Start())
		_, err := out.Read(make([]byte, 1)) // the program is ready
		must.Do(t, err)
		must.Do(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait() // its error is the exit code
		must.Equal(t, cmd.ProcessState.ExitCode(), want, "exit code of %s", script)
	}
	wait := fmt.Sprintf("echo; i=0; while [ $i -lt %d ]; do sleep 0.1; i=$((i+1)); done", 5*time.Minute/(100*time.Millisecond))
	f(`trap "exit 9" TERM; `+wait, 9)
	f(wait, exitSignal+int(syscall.SIGTERM))
}
