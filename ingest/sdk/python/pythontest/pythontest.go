// Package pythontest provides Python environments for Go tests.
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

// Interpreter returns the path of the Python interpreter of a virtual environment with the given packages,
// in pip's notation such as "openai>=2,<4". The environment is created once, with python3 and pip, and
// stored in the user's cache directory. If that fails, the test fails on CI and is skipped elsewhere.
func Interpreter(t testing.TB, packages ...string) string {
	t.Helper()
	python, err := environment(t, packages)
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	default:
		t.Skipf("SKIPPED: requires Python with %s: %v", strings.Join(packages, ", "), err)
	}
	return python
}

// Watch makes the cached result of the test depend on the Python files below dir, because Go tracks only the files
// that the test itself opens or stats.
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
		return "", fmt.Errorf("find the user's cache: %w", err)
	}
	sum := sha256.Sum256([]byte(string(base) + "\ncompiled\n" + strings.Join(packages, "\n")))
	dir := filepath.Join(cache, "llmtap", "python-"+hex.EncodeToString(sum[:8]))
	python = filepath.Join(dir, "bin", "python")
	if _, err := os.Stat(python); err == nil {
		return python, nil
	}
	// The environment is created in a temporary directory and renamed, so that it is complete or absent. It may be
	// moved because an interpreter finds its packages relative to its own path.
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", fmt.Errorf("create the cache: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "python-new-") //nolint:usetesting // on the file system of the cache, for the rename
	if err != nil {
		return "", fmt.Errorf("create an environment: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	t.Logf("installing %s into %s", strings.Join(packages, ", "), dir)
	run := func(name string, args ...string) error {
		if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("run %s %s: %w\n%s", name, strings.Join(args, " "), err, out)
		}
		return nil
	}
	if err := run("python3", "-m", "venv", tmp); err != nil {
		return "", err
	}
	pip := []string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check"}
	// pip takes a minute and a half of CPU time for the SDKs of all providers, uv 5 seconds. Tests start hundreds of interpreters that
	// do not write bytecode, hence it is compiled here.
	inside := filepath.Join(tmp, "bin", "python")
	if run(inside, append(pip, "uv")...) != nil || run(filepath.Join(tmp, "bin", "uv"), append([]string{"pip", "install", "--quiet", "--compile-bytecode", "--python", inside}, packages...)...) != nil {
		if err := run(inside, append(pip, packages...)...); err != nil {
			return "", err
		}
	}
	if err := os.Rename(tmp, dir); err != nil && !errors.Is(err, fs.ErrExist) { // ErrExist: created by another test
		return "", fmt.Errorf("rename the environment: %w", err)
	}
	return python, nil
}
