package oteltest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// As TestPython, for Node.
func TestNode(t *testing.T) {
	if !*all {
		t.Skip("takes minutes; use -otel")
	}
	w := newWorld(t)
	dir := nodeProject(t)
	for instrumentation, reports := range map[string]func(*testing.T, string){"otel": w.all, "traceloop": w.unary, "openinference": w.unary} {
		for _, protocol := range []string{"http", "grpc"} {
			t.Run(instrumentation+"/"+protocol, func(t *testing.T) {
				w.run(t, "node", filepath.Join(dir, "agent.mjs"), "node-"+instrumentation, protocol, reports)
			})
		}
	}
}

// nodeProject returns a copy of the folder node with its packages, which are installed once, into the user's cache.
func nodeProject(t *testing.T) string {
	t.Helper()
	packages := must.Get(os.ReadFile(filepath.Join("node", "package.json")))(t)
	cache := must.Get(os.UserCacheDir())(t)
	sum := sha256.Sum256(packages)
	installed := filepath.Join(cache, "llmtap", "node-"+hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(installed); err != nil {
		must.Do(t, install(t, installed, packages))
	}
	dir := t.TempDir()
	must.Do(t, os.Symlink(filepath.Join(installed, "node_modules"), filepath.Join(dir, "node_modules")))
	must.Do(t, os.CopyFS(dir, os.DirFS("node")))
	return dir
}

// install installs packages into a temporary directory and renames it, so that it is complete or absent.
func install(t *testing.T, dir string, packages []byte) (err error) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("create the cache: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "node-new-") //nolint:usetesting // on the file system of the cache, for the rename
	if err != nil {
		return fmt.Errorf("create a project: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if err := os.WriteFile(filepath.Join(tmp, "package.json"), packages, 0o600); err != nil {
		return fmt.Errorf("create a project: %w", err)
	}
	cmd := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm install: %w\n%s", err, out)
	}
	if err := os.Rename(tmp, dir); err != nil && !errors.Is(err, fs.ErrExist) { // ErrExist: created by another test
		return fmt.Errorf("rename the project: %w", err)
	}
	return nil
}
