package pythontest

import (
	"os/exec"
	"testing"
)

// packages are the requirements of the tests of the Python hook.
var packages = []string{"nats-py>=2.6,<3", "pytest>=8", "httpx", "httpx2", "requests", "aiohttp", "brotli", "urllib3", "grpcio", "mypy", "ruff"}

// TestPythonHook runs the linter, the type checker and the tests of the Python hook.
func TestPythonHook(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and Python code is not checked for races")
	}
	python := Interpreter(t, packages...)
	Watch(t, "..")
	for _, args := range [][]string{{"-m", "ruff", "check", "."}, {"-m", "mypy"}, {"-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"}} {
		cmd := exec.CommandContext(t.Context(), python, args...)
		cmd.Dir = ".."
		cmd.Env = append(cmd.Environ(), "PYTHONDONTWRITEBYTECODE=1", "MYPY_CACHE_DIR="+t.TempDir(), "RUFF_NO_CACHE=true", "PYTHONPATH=.")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
}
