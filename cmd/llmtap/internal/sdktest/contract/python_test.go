package contract

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/python/pythontest"
)

// packages are the Python clients under test and the requirements of the hook.
var packages = []string{
	"nats-py>=2.6,<3", "httpx>=0.27,<1", "requests>=2.31,<3", "aiohttp>=3.10,<4", "brotli>=1.1,<2",
	"openai>=2,<4", "anthropic>=0.60,<3", "google-genai>=1,<4", "langchain-openai>=1,<2", "langgraph>=1,<2", "litellm>=1.70,<2", "boto3>=1.40,<2",
}

// interpreter returns a Python with the clients.
func interpreter(t testing.TB) string { return pythontest.Interpreter(t, packages...) }

func startPython(t testing.TB, python string) *runner {
	t.Helper()
	sdk := must.Get(filepath.Abs(filepath.Join(root, "ingest", "sdk", "python")))(t)
	pythontest.Watch(t, filepath.Join(sdk, "llmtap"))
	pythontest.Watch(t, "python")
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), python, filepath.Join("python", "runner.py")) // exits at the end of its input
	cmd.Env = environ("PYTHONPATH="+sdk, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1", "LLMTAP_SHAPE_KEY="+shapeKey,
		"LITELLM_LOCAL_MODEL_COST_MAP=True", "LANGSMITH_TRACING=false")
	return startRunner(t, "python", cmd)
}
