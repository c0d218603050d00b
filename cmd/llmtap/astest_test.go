package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/python/pythontest"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// maxTestLines is the maximum length of the tests of the five incidents.
const maxTestLines = 39

var asTest = flag.Bool("as-test", false, "run the tests that show --as-test writes for the five incidents, which takes minutes")

// A test written for each fault of the five incidents fails with the defective agent and passes with the fixed one, in pytest and
// in Go.
func TestAsTest(t *testing.T) {
	if !*asTest {
		t.Skip("SKIPPED without -as-test: it runs the agents of the five incidents for minutes")
	}
	a := newAgentTest(t)
	a.record()
	dir := t.TempDir()
	filetest.Write(t, filepath.Join(dir, "go.mod"), a.goMod(t))
	filetest.Write(t, filepath.Join(dir, "go.sum"), source(t, "go.sum"))
	var packages []string
	for i, in := range incidents {
		for _, f := range a.faults(i) {
			if _, ok := in.findings[f.rule+" "+f.root]; !ok {
				t.Fatalf("incident %d: unexpected %s %s", i, f.rule, f.root)
			}
			name := fmt.Sprintf("incident_%d_%s", i, f.root)
			packages = append(packages, name)
			filetest.Write(t, filepath.Join(dir, name, "test_fault.py"), a.written(t, f.exchange, "pytest"))
			filetest.Write(t, filepath.Join(dir, name, "fault_test.go"), a.written(t, f.exchange, "go"))
			agent := filepath.Join(dir, name, "agent")
			filetest.Write(t, agent, "#!/bin/sh\nexec python agent.py\n")
			must.Do(t, os.Chmod(agent, 0o700))
			program := filepath.Join(a.folder, fmt.Sprintf("incident_%d.py", i))
			filetest.Write(t, filepath.Join(dir, name, "agent.py"), fmt.Sprintf("import os, runpy, sys\nsys.argv = [%q, os.environ['FLAG']]\nrunpy.run_path(%[1]q, run_name='__main__')\n", program))
		}
	}
	must.Equal(t, len(packages), 7, "faults: %v", packages)
	for _, flag := range []string{"", "--fixed"} {
		fixed := flag != ""
		t.Run("fixed="+fmt.Sprint(fixed), func(t *testing.T) {
			t.Run("go", func(t *testing.T) {
				t.Parallel()
				out, _ := a.run(dir, flag, "go", "test", "-count=1", "-mod=mod", "-vet=off", "./...") // fails if a package does
				t.Logf("%s", out)
				for _, name := range packages {
					if passed := strings.Contains(out, "ok  \tagent/"+name+"\t"); passed != fixed || !fixed && !strings.Contains(out, "FAIL\tagent/"+name+"\t") {
						t.Errorf("%s passed: %v", name, passed)
					}
				}
			})
			for _, name := range packages {
				t.Run("pytest/"+name, func(t *testing.T) {
					t.Parallel()
					out, err := a.run(filepath.Join(dir, name), flag, a.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_fault.py")
					if passed := err == nil; passed != fixed || !fixed && !strings.Contains(out, " would be rejected, 0 not judged") {
						t.Errorf("passed: %v\n%s", passed, out)
					}
				})
			}
		})
	}
}

// An agentTest runs the programs of the incidents, which are recorded.
type agentTest struct {
	commandTest
	python, folder, sdk string
	env                 []string
}

func newAgentTest(t *testing.T) *agentTest {
	t.Helper()
	a := &agentTest{commandTest: *newCommandTest(t)}
	packages := append(strings.Fields(source(t, "deploy/examples/python/requirements.txt")), "nats-py>=2.6,<3", "pytest>=8,<10")
	a.python = pythontest.Interpreter(t, packages...)
	var err error
	a.folder = must.Get(filepath.Abs("../../deploy/examples/python"))(t)
	a.sdk = filepath.Join(a.folder, "../../../ingest/sdk/python")
	pythontest.Watch(t, a.folder)
	bin := t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(bin, "llmtap"))
	}
	must.Do(t, err)
	a.env = append(os.Environ(), "PATH="+strings.Join([]string{bin, filepath.Dir(a.python), os.Getenv("PATH")}, ":"), "PYTHONPATH="+a.sdk,
		"PYTHONDONTWRITEBYTECODE=1", "LLMTAP_NATS_URL="+a.up.url(), "GOPROXY=off")
	return a
}

// record runs each defective program, with whole bodies.
func (a *agentTest) record() {
	a.t.Helper()
	model := httptest.NewServer(provider.New(provider.Config{Seed: 1}))
	defer model.Close()
	dir, calls := a.t.TempDir(), 0
	for i, in := range incidents {
		name := fmt.Sprintf("incident_%d.py", i)
		program := strings.Replace(source(a.t, "deploy/examples/python/"+name), "llmtap.instrument(", `llmtap.instrument(capture="full", `, 1)
		filetest.Write(a.t, filepath.Join(dir, name), program)
		cmd := exec.CommandContext(a.t.Context(), a.python, name)
		cmd.Dir = dir
		cmd.Env = append(a.env, "OPENAI_API_KEY=none", "OPENAI_BASE_URL="+model.URL+in.path)
		out, err := cmd.CombinedOutput()
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited || strings.Contains(string(out), "Traceback") {
			a.t.Fatalf("%s: %v\n%s", name, err, out)
		}
		calls += int(in.calls[0])
	}
	a.waitStored(calls)
}

// A storedFault is a rule and a root cause with the exchange that shows them.
type storedFault struct{ rule, root, exchange string }

// faults returns the faults of an incident.
func (a *agentTest) faults(incident int) (all []storedFault) {
	a.t.Helper()
	rows := a.up.rows()
	defer rows.close()
	res, err := rows.query(a.t.Context(), fmt.Sprintf(`SELECT rule_id, root_cause, any(exchange_id) FROM findings_final
		WHERE service = 'incident-%d' AND predicted = 'reject' GROUP BY rule_id, root_cause ORDER BY rule_id`, incident))
	if err != nil || len(res.Rows) == 0 {
		a.t.Fatalf("incident %d: no findings: %v", incident, err)
	}
	for _, r := range res.Rows {
		all = append(all, storedFault{r[0].(string), r[1].(string), r[2].(string)})
	}
	return all
}

// written returns the test for an exchange.
func (a *agentTest) written(t *testing.T, exchange, format string) string {
	t.Helper()
	text, stderr, code := a.llmtap("show", exchange, "--as-test", format)
	if code != command.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	t.Logf("%s", text)
	if n := strings.Count(text, "\n"); n > maxTestLines {
		t.Errorf("%d lines", n)
	}
	return text
}

// run runs a command. The agent that it starts has the flag.
func (a *agentTest) run(dir, flag string, args ...string) (string, error) {
	cmd := exec.CommandContext(a.t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(a.env, "FLAG="+flag)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// goMod returns the go.mod of an agent that uses this module.
func (a *agentTest) goMod(t *testing.T) string {
	t.Helper()
	root := must.Get(filepath.Abs("../.."))(t)
	_, replace, _ := strings.Cut(source(t, "go.mod"), "replace (")
	replace = strings.ReplaceAll(replace, "=> ./", "=> "+root+"/")
	return "module agent\n\ngo 1.26\n\nrequire github.com/llmtap/llmtap v0.0.0\n\nreplace (\n\tgithub.com/llmtap/llmtap => " + root + replace
}

// --as-test takes an exchange or a conversation, and says why no test is possible.
func TestAsTestErrors(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	s := showTest{newCommandTest(t)}
	dropped := askPort + `,{"role":"assistant","content":""},` + port80
	s.play("dropped", deepSeekURL, event.CaptureFull, []evidenceStep{{askPort, reads}, {dropped, ""}})
	s.play("shape", deepSeekURL, event.CaptureShape, []evidenceStep{{askPort, reads}, {dropped, ""}})
	s.play("unknown call", deepSeekURL, event.CaptureFull, []evidenceStep{{strings.ReplaceAll(dropped, "call_8Kq2", "call_7Aa1"), ""}})
	s.play("healthy", deepSeekURL, event.CaptureFull, []evidenceStep{{askPort, reads}, {askPort + "," + reads + "," + port80, `{"role":"assistant","content":"80"}`}})
	s.send("none", deepSeekURL, event.CaptureNone, 400, "", "")
	s.waitStored(s.n)
	f := func(code int, want string, args ...string) {
		t.Helper()
		stdout, stderr, got := s.llmtap(append([]string{"show"}, args...)...)
		if got != code || !strings.Contains(stdout+stderr, want) || code != command.ExitOK && stdout != "" {
			t.Errorf("%v: exit code %d, no %q in\n%s%s", args, got, want, stdout, stderr)
		}
	}
	f(command.ExitOK, "def test_tool_calls_dropped_on_save(", "dropped", "--as-test", "pytest")
	f(command.ExitOK, "func TestToolCallsDroppedOnSave(", "dropped", "--as-test", "go")
	f(command.ExitOK, "EDIT: only shapes are stored", "shape", "--as-test", "pytest")
	f(command.ExitFailed, "the answer with call call_7Aa1 is not stored", "unknown call", "--as-test", "pytest")
	f(command.ExitFailed, "conversation healthy: no stored request breaks a rule", "healthy", "--as-test", "pytest")
	f(command.ExitFailed, "no stored request breaks a rule", "none", "--as-test", "pytest")
	f(command.ExitBadInput, "--as-test excludes --tool and --format", "dropped", "--as-test", "go", "--format", "json")
	f(command.ExitBadInput, "pytest, go", "dropped", "--as-test", "junit")
	f(command.ExitFailed, "no stored call or conversation has this id", "no such conversation", "--as-test", "go")
}
