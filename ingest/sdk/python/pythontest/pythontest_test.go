package pythontest

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// The second call uses the existing environment.
func TestInterpreter(t *testing.T) {
	slowtest.Skip(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	python := Interpreter(t, "iniconfig")
	must.Equal(t, Interpreter(t, "iniconfig"), python, "the interpreter, asked again")
	out, err := exec.CommandContext(t.Context(), python, "-c", "import iniconfig, sys; print(sys.prefix)").CombinedOutput()
	if prefix := strings.TrimSpace(string(out)); err != nil || !strings.HasPrefix(python, prefix+"/") {
		t.Errorf("%s printed %s: %v", python, prefix, err)
	}
}
