// Package pythontest gives Go tests a Python with the packages that they need.
package pythontest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Interpreter returns the path of a Python in whose virtual environment these packages are, in pip's notation such as
// "openai>=2,<4", and no others. The environment is made with python3 and pip once, and kept in the user's cache. Where
// that is impossible the test fails on CI and is skipped elsewhere.
func Interpreter(t testing.TB, packages ...string) string {
	t.Helper()
	python, err := environment(t, packages)
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	default:
		t.Skipf("SKIPPED, this test needs Python with %s: %v", strings.Join(packages, ", "), err)
	}
	return python
}

// Watch makes the result of the test depend on the Python files below dir: Go keeps a result as long as the files that
// the test itself looked at stay the same.
func Watch(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".py" {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func environment(t testing.TB, packages []string) (python string, err error) {
	t.Helper()
	packages = slices.Sorted(slices.Values(packages))
	base, err := exec.CommandContext(t.Context(), "python3", "-c", "import sys; print(sys.executable, sys.version)").Output()
	if err != nil {
		return "", fmt.Errorf("run python3: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache: %w", err)
	}
	sum := sha256.Sum256([]byte(string(base) + "\n" + strings.Join(packages, "\n")))
	dir := filepath.Join(cache, "llmtap", "python-"+hex.EncodeToString(sum[:8]))
	python = filepath.Join(dir, "bin", "python")
	if _, err := os.Stat(python); err == nil {
		return python, nil
	}
	// It is made beside its place, and is there at once and whole or not at all. An interpreter finds its packages from
	// where it stands, so it may be moved.
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", fmt.Errorf("make the cache: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "python-new-") //nolint:usetesting // on the file system of the cache, where it can be renamed
	if err != nil {
		return "", fmt.Errorf("make an environment: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	t.Logf("installing %s into %s", strings.Join(packages, ", "), dir)
	pip := []string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check"}
	for _, c := range [][]string{
		{"python3", "-m", "venv", tmp},
		slices.Concat([]string{filepath.Join(tmp, "bin", "python")}, pip, packages),
	} {
		if out, err := exec.CommandContext(t.Context(), c[0], c[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("run %s: %w\n%s", strings.Join(c, " "), err, out)
		}
	}
	if err := os.Rename(tmp, dir); err != nil && !errors.Is(err, fs.ErrExist) { // else another test was faster
		return "", fmt.Errorf("keep the environment: %w", err)
	}
	return python, nil
}
