package contract

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/python/pythontest"
)

// packages are the Python clients under test and the requirements of the hook.
var packages = []string{
	"nats-py>=2.6,<3", "httpx>=0.27,<1", "requests>=2.31,<3", "aiohttp>=3.10,<4", "brotli>=1.1,<2",
	"openai>=2,<4", "anthropic>=0.60,<3", "google-genai>=1,<4", "langchain-openai>=1,<2", "langgraph>=1,<2", "litellm>=1.70,<2",
}

// A pythonHook is the Python hook in a process of python/runner.py.
type pythonHook struct {
	in  io.WriteCloser
	out *bufio.Reader
	err *strings.Builder // output of the process
}

// interpreter returns a Python with the clients.
func interpreter(t testing.TB) string { return pythontest.Interpreter(t, packages...) }

func startPython(t testing.TB, python string) *pythonHook {
	t.Helper()
	sdk, err := filepath.Abs(filepath.Join(root, "ingest", "sdk", "python"))
	if err != nil {
		t.Fatal(err)
	}
	pythontest.Watch(t, filepath.Join(sdk, "llmtap"))
	pythontest.Watch(t, "python")
	p := &pythonHook{err: new(strings.Builder)}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), python, filepath.Join("python", "runner.py")) // exits at the end of its input
	cmd.Env = environ("PYTHONPATH="+sdk, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1", "LLMTAP_SHAPE_KEY="+shapeKey,
		"LITELLM_LOCAL_MODEL_COST_MAP=True", "LANGSMITH_TRACING=false")
	cmd.Stderr = p.err
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.in.Close()
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Errorf("python: %v\n%s", err, p.err)
		}
	})
	return p
}

// do sends a command with the fields of args and decodes its result.
func (p *pythonHook) do(t testing.TB, command string, args, answer any) {
	t.Helper()
	line := map[string]any{}
	data, err := json.Marshal(args)
	if err == nil {
		err = json.Unmarshal(data, &line)
	}
	if err != nil {
		t.Fatal(err)
	}
	line["do"] = command
	if err := json.NewEncoder(p.in).Encode(line); err != nil {
		t.Fatalf("python exited: %v\n%s", err, p.err)
	}
	if data, err = p.out.ReadBytes('\n'); err != nil {
		t.Fatalf("python exited: %v\n%s", err, p.err)
	}
	if err := json.Unmarshal(data, answer); err != nil {
		t.Fatalf("python responded %s: %v", data, err)
	}
}

func (p *pythonHook) open(t testing.TB, o *options) { p.do(t, "open", o, new(struct{})) }

func (p *pythonHook) call(t testing.TB, c *call) (results []result) {
	p.do(t, "call", c, &results)
	return results
}

func (p *pythonHook) flush(t testing.TB, seconds float64) (s stats) {
	p.do(t, "flush", map[string]float64{"seconds": seconds}, &s)
	return s
}

func (p *pythonHook) close(t testing.TB) { p.do(t, "close", struct{}{}, new(struct{})) }
