package rules_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// promtoolEnv lists the promtools to test with, separated as in PATH. .ci/run sets it to that of Debian's package prometheus, which
// is older than the engine of llmtap. The engine itself runs the unit tests in verdict_test.go.
const promtoolEnv = "LLMTAP_TEST_PROMTOOL"

// Every rule file has a promtool unit test.
func TestUnitTestsAreComplete(t *testing.T) {
	names := func(pattern, suffix string) (list []string) {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", pattern, err)
		}
		for _, f := range files {
			list = append(list, strings.TrimSuffix(filepath.Base(f), suffix))
		}
		return list
	}
	files, tests := names("*.yaml", ".yaml"), names("testdata/*_test.yaml", "_test.yaml")
	must.Agree(t, cmp.Diff(tests, files), "rule files (-unit tests +rules)")
	must.Equal(t, len(must.Get(rules.FS.ReadDir("."))(t)), len(files), "embedded files")
}

// promtools returns the tools to test with; it skips t if there are none.
func promtools(t *testing.T) []string {
	t.Helper()
	slowtest.SkipShort(t, "slow, and other processes are invisible to the race detector")
	if tools := filepath.SplitList(os.Getenv(promtoolEnv)); len(tools) > 0 {
		return tools
	}
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skipf("NOT TESTED: no promtool; set %s, or install the package prometheus", promtoolEnv)
	}
	return []string{path}
}

// promtool accepts the rule files and their unit tests.
func TestPromtool(t *testing.T) {
	tools := promtools(t)
	files := must.Get(filepath.Glob("*.yaml"))(t)
	tests := must.Get(filepath.Glob("testdata/*_test.yaml"))(t)
	for _, tool := range tools {
		for _, args := range [][]string{append([]string{"check", "rules"}, files...), append([]string{"test", "rules"}, tests...)} {
			out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput()
			if err != nil {
				t.Errorf("%s %s %s: %v\n%s", tool, args[0], args[1], err, out)
			}
		}
	}
}
