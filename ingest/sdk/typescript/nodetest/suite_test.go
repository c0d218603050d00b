package nodetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTypeScriptHook builds the TypeScript hook and runs its tests.
func TestTypeScriptHook(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and TypeScript is not checked for races")
	}
	hook := Hook(t)
	Watch(t, "../test")
	Watch(t, "../../testdata")
	helper := filepath.Join(t.TempDir(), "testhelper")
	if err := run(t, ".", "go", "build", "-o", helper, "../../testhelper"); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../test/*.test.cjs")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"--test"}, files...)...)
	cmd.Env = append(os.Environ(), "LLMTAP_PACKAGE="+hook, "LLMTAP_TESTHELPER="+helper)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
