package hooked

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A service has the name of the nearest project that has one.
func TestProject(t *testing.T) {
	f := func(want, pyproject, packageJSON string) {
		t.Helper()
		top := filepath.Join(t.TempDir(), "top")
		dir := filepath.Join(top, "dir")
		must.Do(t, os.MkdirAll(dir, 0o700))
		must.Do(t, os.WriteFile(filepath.Join(top, "pyproject.toml"), []byte(pyproject), 0o600))
		must.Do(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(packageJSON), 0o600))
		must.Equal(t, project(dir), want, "%s %s: service", pyproject, packageJSON)
	}
	f("a", "[project]\nname = 'a'\n", "")
	f("a", "[project]\ndependencies = [\n\"x\",\n]\nname = \"a\"\n[tool.x]\nname = \"b\"\n", "{}")
	f("a", "[[tool.x]]\nname = \"b\"\n[tool.poetry]\nname=\"a\"\n", "not JSON")
	f("@b/b", "[project]\nname = 'a'\n", `{"name": "@b/b"}`)
	f("dir", "[tool.ruff]\nname = 'a'\n", `{"name": 7}`)
}

// What is set is kept, and the labels of OpenTelemetry come first.
func TestEnv(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir(), `a "b`))
	e := Env{"PYTHONPATH=x", "NODE_OPTIONS=--no-warnings", "OTEL_SERVICE_NAME=shop", "OTEL_RESOURCE_ATTRIBUTES=service.version=2"}
	e.Label(t.Context(), t.TempDir())
	must.Equal(t, e.Get("LLMTAP_SERVICE")+e.Get("LLMTAP_SERVICE_VERSION"), "", "labels")
	must.Do(t, e.Load())
	dir := must.Get(files())(t)
	must.Equal(t, e.Get("PYTHONPATH"), dir+string(os.PathListSeparator)+"x", "PYTHONPATH")
	must.Contain(t, e.Get("NODE_OPTIONS"), `--no-warnings --require="`)
	must.Contain(t, e.Get("NODE_OPTIONS"), `/a \"b/`)
	must.Equal(t, len(e), 4, "variables")
	// Without a cache, the files are in a temporary directory.
	t.Setenv("XDG_CACHE_HOME", "/dev/null")
	t.Setenv("TMPDIR", t.TempDir())
	if again := must.Get(files())(t); again == dir || must.Err(os.Stat(filepath.Join(again, "preload.cjs"))) != nil {
		t.Errorf("%s, then %s", dir, again)
	}
}
