// Package modules runs the tests of the nested modules, so that go test ./... at the root tests all of them.
package modules

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

var root = filepath.Join("..", "..", "..", "..")

// nested returns the directories of the nested modules. It reads every directory, because Go keeps a test result as long as
// the directories and files that the test itself read stay the same.
func nested(t *testing.T) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (strings.HasPrefix(name, ".") && name != ".." || name == "node_modules") {
			return filepath.SkipDir
		}
		if dir := filepath.Dir(path); d.Name() == "go.mod" && dir != root && !strings.Contains(dir, "testdata") {
			dirs = append(dirs, dir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

func TestNestedModules(t *testing.T) {
	// Without -count=1, go test would not see changes outside of the module, as those in ingest/sdk/testdata. A test that hangs
	// must end before this one does, or nobody sees where it hangs.
	test := []string{"test", "-count=1", "-timeout=7m"}
	if testing.Short() {
		test = append(test, "-short")
	}
	if raceDetector() {
		test = append(test, "-race")
	}
	for _, dir := range nested(t) {
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.ToSlash(rel), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "go", append(test, "./...")...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("go test: %v\n%s", err, out)
			}
		})
	}
}

func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Agents inherit the requirements of the Go hook, those of its tests included.
func TestRequirementsOfHook(t *testing.T) {
	ours := regexp.MustCompile(`^github\.com/llmtap/llmtap/ingest/(event|shape|wire)$`)
	theirs := regexp.MustCompile(`^(github\.com/(nats-io/(nats\.go|nkeys|nuid)|klauspost/compress|andybalholm/brotli|google/uuid)|golang\.org/x/(crypto|sys))$`)
	require := regexp.MustCompile(`(?m)^(?:require |\t)(\S+) v`)
	for _, module := range []string{"event", "shape", "wire", "sdk/go"} {
		text, err := os.ReadFile(filepath.Join(root, "ingest", module, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range require.FindAllStringSubmatch(string(text), -1) {
			if !ours.MatchString(m[1]) && (module != "sdk/go" || !theirs.MatchString(m[1])) {
				t.Errorf("ingest/%s requires %s: move the test or the code that needs it to another module", module, m[1])
			}
		}
	}
}
