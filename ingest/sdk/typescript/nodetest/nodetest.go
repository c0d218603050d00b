// Package nodetest provides Node.js packages for Go tests.
package nodetest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Modules returns a directory with the packages of dir/package-lock.json in node_modules. It is created once, with npm
// ci, and stored in the user's cache directory. If that fails, the test fails on CI and is skipped elsewhere.
func Modules(t testing.TB, dir string) string {
	t.Helper()
	path, err := modules(t, dir)
	if err != nil {
		giveUp(t, err)
	}
	return path
}

// Hook returns the directory of the TypeScript hook, built from its sources. It fails or skips the test like Modules.
func Hook(t testing.TB) string {
	t.Helper()
	path, err := hook(t)
	if err != nil {
		giveUp(t, err)
	}
	return path
}

func giveUp(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skipf("SKIPPED: requires Node.js 18 or later and npm: %v", err)
}

// Watch makes the cached result of the test depend on the files below dir, because Go tracks only the files that the
// test itself opens or stats.
func Watch(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func modules(t testing.TB, dir string) (string, error) {
	t.Helper()
	files := []string{"package.json", "package-lock.json"}
	return cached(t, "node-", dir, files, func(tmp string) error {
		return run(t, tmp, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	})
}

func hook(t testing.TB) (string, error) {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	dir := filepath.Dir(filepath.Dir(file))
	if !ok || !filepath.IsAbs(dir) { // -trimpath
		var err error
		if dir, err = moduleDir(t); err != nil {
			return "", err
		}
	}
	deps, err := modules(t, dir)
	if err != nil {
		return "", err
	}
	files := []string{"package.json", "package-lock.json", "tsconfig.json", "index.mjs", "index.d.mts", "README.md"}
	err = filepath.WalkDir(filepath.Join(dir, "src"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path) // path is below dir
			files = append(files, rel)
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("list the sources: %w", err)
	}
	return cached(t, "node-hook-", dir, files, func(tmp string) error {
		if err := os.Symlink(filepath.Join(deps, "node_modules"), filepath.Join(tmp, "node_modules")); err != nil {
			return fmt.Errorf("link the packages: %w", err)
		}
		return run(t, tmp, "node", "node_modules/typescript/bin/tsc", "-p", ".")
	})
}

// moduleDir returns the directory of the hook.
func moduleDir(t testing.TB) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/llmtap/llmtap/ingest/sdk/typescript/nodetest").Output()
	if err != nil {
		return "", fmt.Errorf("find the TypeScript hook: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// cached returns a directory in the user's cache with copies of files and with what build adds to them.
func cached(t testing.TB, prefix, dir string, files []string, build func(tmp string) error) (path string, err error) {
	t.Helper()
	version, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("run node: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache: %w", err)
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n", version)
	data := make(map[string][]byte)
	for _, f := range files {
		if data[f], err = os.ReadFile(filepath.Join(dir, f)); err != nil {
			return "", fmt.Errorf("read the package: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", f, len(data[f]), data[f])
	}
	path = filepath.Join(cache, "llmtap", prefix+hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	// The directory is created under a temporary name and renamed, so that it is complete or absent.
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("create the cache: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(path), prefix+"new-") //nolint:usetesting // on the file system of the cache, for the rename
	if err != nil {
		return "", fmt.Errorf("create a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	for f, d := range data {
		if err := os.MkdirAll(filepath.Join(tmp, filepath.Dir(f)), 0o700); err != nil {
			return "", fmt.Errorf("copy the package: %w", err)
		}
		if err := os.WriteFile(filepath.Join(tmp, f), d, 0o600); err != nil {
			return "", fmt.Errorf("copy the package: %w", err)
		}
	}
	if err := build(tmp); err != nil {
		return "", err
	}
	if err := os.Rename(tmp, path); err != nil && !errors.Is(err, fs.ErrExist) { // ErrExist: created by another test
		return "", fmt.Errorf("rename the directory: %w", err)
	}
	return path, nil
}

func run(t testing.TB, dir, name string, args ...string) error {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
