package rules_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/ruletest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// The unit tests also pass in llmtap alerts test.
func TestUnitTests(t *testing.T) {
	files := must.Get(filepath.Glob("testdata/*_test.yaml"))(t)
	r := must.Get(ruletest.Run(t.Context(), engine.Default().Rules(), files))(t)
	for _, f := range r.Failures {
		t.Error(f)
	}
	if r.Tests < len(files) {
		t.Errorf("%d tests of %d files", r.Tests, len(files))
	}
}

// mutations are changes of a rule that most unit tests notice.
var mutations = []struct {
	name   string
	change func(rule string) string
}{
	{"for", func(s string) string {
		return regexp.MustCompile(`(?m)^ +for: .*\n`).ReplaceAllString(s, "        for: 90s\n")
	}},
	{"threshold", func(s string) string {
		return regexp.MustCompile(`([<>]=?) ([0-9.]+)`).ReplaceAllString(s, "$1 2 * $2")
	}},
	{"keep_firing_for", func(s string) string {
		return regexp.MustCompile(`(?m)^ +keep_firing_for: .*\n`).ReplaceAllString(s, "")
	}},
	{"window", func(s string) string { return strings.ReplaceAll(s, "[10m1ms]", "[5m1ms]") }},
	{"text", func(s string) string { return strings.Replace(s, "summary: '", "summary: 'Oh, ", 1) }},
}

// promtool and llmtap alerts test have the same verdicts on the unit tests of mutated rules, and on those of ruletest.
func TestSameVerdicts(t *testing.T) {
	slowtest.Skip(t)
	tool := promtools(t)[0]
	rules := must.Get(filepath.Glob("*.yaml"))(t)
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	read := func(name string) string {
		t.Helper()
		text := must.Get(os.ReadFile(name))(t)
		return string(text)
	}
	var files []string
	for i, rule := range rules {
		test := strings.TrimSuffix(rule, ".yaml") + "_test.yaml"
		whole, changed := read(rule), 0
		for j := range mutations { // two each, to save time
			mutation := mutations[(i+j)%len(mutations)]
			text := mutation.change(whole)
			if text == whole || changed == 2 {
				continue
			}
			changed++
			write(filepath.Join(mutation.name, rule), text)
			write(filepath.Join(mutation.name, "testdata", test), read(filepath.Join("testdata", test)))
			files = append(files, filepath.Join(dir, mutation.name, "testdata", test))
		}
	}
	files = append(files, "../ruletest/testdata/failing_test.yaml")
	// An older promtool does not know all keys.
	if recent := []string{"../ruletest/testdata/start_test.yaml", "../ruletest/testdata/features_test.yaml"}; promtoolVerdicts(t, tool, recent[:1])[recent[0]] {
		files = append(files, recent...)
	}
	theirs := promtoolVerdicts(t, tool, files)
	ours := map[string]bool{}
	failed := 0
	for _, f := range files {
		r := must.Get(ruletest.Run(t.Context(), engine.Default().Rules(), []string{f}))(t)
		if ours[f] = r.Failed == 0; !ours[f] {
			failed++
		}
		must.Equal(t, ours[f], theirs[f], "%s: passes, here and in promtool\n%v", f, r.Failures)
	}
	if !maps.Equal(ours, theirs) || failed < 10 {
		t.Errorf("%d verdicts, promtool's %d; %d failed, want some", len(ours), len(theirs), failed)
	}
	t.Logf("%d files, of which %d fail", len(files), failed)
}

// promtoolVerdicts returns whether each file passes.
func promtoolVerdicts(t *testing.T, tool string, files []string) map[string]bool {
	t.Helper()
	// It exits with 1 if a test fails; without verdicts it did not run.
	out, err := exec.CommandContext(t.Context(), tool, append([]string{"test", "rules"}, files...)...).CombinedOutput()
	verdicts, i := map[string]bool{}, 0
	for line := range strings.Lines(string(out)) { // one word per file, in order
		if word := strings.TrimSpace(line); i < len(files) && (word == "SUCCESS" || word == "FAILED:") {
			verdicts[files[i]] = word == "SUCCESS"
			i++
		}
	}
	if i != len(files) {
		t.Fatalf("%d verdicts of %d files: %v\n%s", i, len(files), err, out)
	}
	return verdicts
}
