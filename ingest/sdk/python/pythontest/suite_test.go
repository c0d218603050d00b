package pythontest

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// packages are the requirements of the tests of the Python hook.
var packages = []string{"nats-py>=2.6,<3", "pytest>=8", "pytest-xdist>=3", "httpx", "httpx2", "requests", "aiohttp", "brotli", "urllib3", "grpcio", "websockets", "websocket-client", "aioquic", "mypy", "ruff"}

// runtimes are what the hook is tested under.
var runtimes = []string{"blockbuster", "freezegun", "time-machine", "gevent", "eventlet", "pytest-socket", "langgraph-cli[inmem]"}

// TestPythonHook runs the linter, the type checker and the tests of the Python hook.
func TestPythonHook(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and Python code is not checked for races")
	}
	python := Interpreter(t, packages...)
	Watch(t, "..")
	runPython(t, python, "-m", "ruff", "check", ".")
	runPython(t, python, "-m", "mypy")
	helper := filepath.Join(t.TempDir(), "helper") // once, not by each process of pytest
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", helper, "../../testhelper").CombinedOutput(); err != nil {
		t.Fatalf("build the helper: %v\n%s", err, out)
	}
	t.Setenv("LLMTAP_TEST_HELPER", helper)
	runPython(t, python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", "4", "--ignore=tests/test_runtimes.py", "--ignore=tests/test_faults.py")
}

// TestPythonRuntimes runs agents under servers and test libraries that replace primitives of Python.
func TestPythonRuntimes(t *testing.T) {
	slowtest.Skip(t)
	python := Interpreter(t, append(runtimes, packages...)...)
	Watch(t, "..")
	runPython(t, python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "tests/test_runtimes.py")
	python = Interpreter(t, append([]string{"urllib3-future"}, packages...)...) // replaces urllib3
	runPython(t, python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "tests/test_uncaptured.py", "-k", "urllib3_future")
}

// TestPythonFaults compares what agents observe of failing responses with and without the hook.
func TestPythonFaults(t *testing.T) {
	slowtest.Skip(t)
	python := Interpreter(t, packages...)
	Watch(t, "..")
	runPython(t, python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "tests/test_faults.py")
}

// runPython runs Python in the directory of the hook and logs its output.
func runPython(t *testing.T, python string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, args...)
	cmd.Dir = ".."
	cmd.Env = append(cmd.Environ(), "PYTHONDONTWRITEBYTECODE=1", "MYPY_CACHE_DIR="+t.TempDir(), "RUFF_NO_CACHE=true", "PYTHONPATH=.")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%q: %v\n%s", args, err, out)
	} else {
		t.Logf("%q:\n%s", args, out)
	}
}

// TestPythonPackage builds the wheel and the source archive, and the wheel from the source archive, as an installation without wheels
// does. All have every module, and nothing else but metadata.
func TestPythonPackage(t *testing.T) {
	slowtest.Skip(t)
	python := Interpreter(t, "build", "hatchling>=1.26")
	Watch(t, "..")
	dir := t.TempDir()
	// Without --wheel or --sdist, the wheel is built from the source archive.
	cmd := exec.CommandContext(t.Context(), python, "-m", "build", "--no-isolation", "--outdir", dir, "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var modules []string
	err := filepath.WalkDir("../llmtap", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) != ".pyc" {
			modules = append(modules, filepath.ToSlash(strings.TrimPrefix(path, "../llmtap/")))
		}
		return err
	})
	if err != nil || len(modules) == 0 {
		t.Fatal(err)
	}
	for pattern, list := range map[string]func(string) ([]string, error){"*.whl": zipped, "*.tar.gz": tarred} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(paths) != 1 {
			t.Fatalf("%q, %v", paths, err)
		}
		files := must.Get(list(paths[0]))(t)
		inside := map[string]bool{}
		for _, f := range files {
			_, module, ok := strings.Cut("/"+f, "/llmtap/")
			if inside[module] = ok; !ok && !strings.Contains(f, ".dist-info/") && !strings.Contains("README.md pyproject.toml PKG-INFO .gitignore llmtap_pytest.py", filepath.Base(f)) {
				t.Errorf("%s contains %s", pattern, f)
			}
		}
		for _, m := range modules {
			if !inside[m] {
				t.Errorf("%s has no %s", pattern, m)
			}
		}
	}
}

func zipped(path string) (names []string, err error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, err
	}
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	return names, z.Close()
}

func tarred(path string) (names []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		_, name, _ := strings.Cut(h.Name, "/") // below llmtap-0.1.0
		names = append(names, name)
	}
}
