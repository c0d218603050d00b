package packaging

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var (
	update  = flag.Bool("update", false, "write deploy/kubernetes")
	release = flag.Bool("release", false, "build llmtap as the Dockerfile does, without cgo; takes minutes")
)

// binary returns the path of llmtap for TestMain's directory.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "llmtap")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "./cmd/llmtap")
	if *release {
		cmd.Args = append(cmd.Args[:2:2], append([]string{"-trimpath"}, cmd.Args[2:]...)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	cmd.Dir = top
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

const top = "../.." // of the repository

var buildDir string

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if buildDir, err = os.MkdirTemp("", "llmtap-packaging-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(buildDir)
	os.Exit(code)
}

func llmtap(t *testing.T) string {
	t.Helper()
	return must.Get(binary())(t)
}

// need skips the test if a program is missing, or fails it in CI.
func need(t *testing.T, program, debian string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing: install Debian's package %s", program, debian)
	}
	t.Skipf("SKIPPED: %s is missing; install Debian's package %s", program, debian)
}

// run returns the output of a command, which must succeed.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(top, filepath.FromSlash(path))))(t)
	return string(text)
}

// checkConfig checks a configuration with llmtap config.
func checkConfig(t *testing.T, text string, env ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "llmtap.yaml")
	write(t, path, text, 0o600)
	run(t, env, llmtap(t), "config", "--check", path)
}

func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(text), mode))
}
