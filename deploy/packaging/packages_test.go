package packaging

import (
	"debug/elf"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The agents of strangers. They call a model and print what the hook recorded.
const (
	pythonAgent = `import os, sys, urllib.request, llmtap
urllib.request.urlopen(os.environ["MODEL"] + "/v1/chat/completions", b"{}").read()
sys.stdout.write(f"pending {llmtap.stats().pending} {llmtap.__version__}\n")  # at once, since the hook logs meanwhile
sys.stdout.flush()
os._exit(0)  # no collector listens
`
	nodeAgent = `import { stats, version } from "llmtap";
await (await fetch(process.env.MODEL + "/v1/chat/completions", { method: "POST", body: "{}" })).text();
console.log("pending", stats().pending, version);
process.exit(0);
`
)

// TestPackages packs a release for PyPI and npm and installs it as strangers do, who have no compiler. The binary is that of the other
// tests (-release builds it as goreleaser does), and those of other platforms are files that say their name.
func TestPackages(t *testing.T) {
	for _, program := range []string{"npm", "python3"} {
		need(t, program, program)
	}
	repo, tools := released(t), filepath.Join(t.TempDir(), "tools")
	for _, platform := range []string{"linux_amd64_v1", "linux_arm64_v8.0", "darwin_amd64_v1", "darwin_arm64_v8.0"} {
		text := "collector of " + platform
		if strings.HasPrefix(platform, runtime.GOOS+"_"+runtime.GOARCH) {
			text = string(must.Get(os.ReadFile(llmtap(t)))(t))
		}
		write(t, filepath.Join(repo, "dist", "llmtap_"+platform, "llmtap"), text, 0o755)
	}
	run(t, nil, "python3", "-m", "venv", tools)
	pip := filepath.Join(tools, "bin", "pip")
	if out, err := exec.CommandContext(t.Context(), pip, "install", "--quiet", "build", "wheel").CombinedOutput(); err != nil && os.Getenv("CI") != "true" {
		t.Skipf("SKIPPED: requires a package registry: %v\n%s", err, out)
	} else if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	runIn(t, repo, []string{"PATH=" + filepath.Join(tools, "bin") + ":" + os.Getenv("PATH")}, "deploy/packaging/packages.sh")

	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	t.Cleanup(model.Close)
	env := []string{"MODEL=" + model.URL, "LLMTAP_HOSTS=" + strings.TrimPrefix(model.URL, "http://"), "LLMTAP_SERVICE=agent", "LLMTAP_NATS_URL=nats://127.0.0.1:1"}
	t.Run("pip", func(t *testing.T) { testPip(t, pip, filepath.Join(repo, "dist", "pypi"), env) })
	t.Run("npm", func(t *testing.T) { testNpm(t, filepath.Join(repo, "dist", "npm"), env) })
	if *release {
		checkBinary(t, llmtap(t))
	}
}

func testPip(t *testing.T, pip, dist string, env []string) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "agent.py"), pythonAgent, 0o600)
	run(t, nil, "python3", "-m", "venv", "--without-pip", filepath.Join(dir, "venv")) // a pip of its own takes 10 CPU seconds
	bin := func(name string) string { return filepath.Join(dir, "venv", "bin", name) }
	version := strings.Replace(strings.TrimPrefix(releaseVersion, "v"), "-rc.", "rc", 1)
	runIn(t, dir, nil, pip, "--python", bin("python"), "install", "--quiet", "--find-links", dist, "llmtap=="+version)
	must.Contain(t, runIn(t, dir, nil, bin("llmtap"), "--version"), "llmtap ", "the collector")
	recorded := "pending 2 " + strings.TrimPrefix(releaseVersion, "v") + "\n"
	must.Contain(t, runIn(t, dir, env, bin("python"), "-m", "llmtap", "agent.py"), recorded, "the hook")
	must.Contain(t, runIn(t, dir, env, bin("llmtap"), "run", "--", bin("python"), "agent.py"), recorded, "the hook, by the collector")

	alone := filepath.Join(dir, "alone")
	runIn(t, dir, nil, pip, "install", "--quiet", "--find-links", dist, "--no-deps", "--no-binary", "llmtap", "--target", alone, "llmtap=="+version)
	must.Equal(t, runIn(t, alone, nil, "ls"), "__pycache__\nllmtap\nllmtap-"+version+".dist-info\nllmtap_pytest.py\n", "the hook without the collector")

	for platform, collector := range map[string]string{
		"manylinux_2_17_aarch64": "linux_arm64", "manylinux2014_x86_64": "", "macosx_12_0_arm64": "darwin_arm64",
		"macosx_14_0_x86_64": "darwin_amd64", "macosx_11_0_arm64": "hook", "musllinux_1_2_x86_64": "hook", "win_amd64": "hook",
	} {
		to := filepath.Join(dir, platform)
		runIn(t, dir, nil, pip, "install", "--quiet", "--no-index", "--find-links", dist, "--no-deps", "--only-binary=:all:", "--python-version", "3.13",
			"--platform", platform, "--target", to, "llmtap=="+version)
		got, err := os.ReadFile(filepath.Join(to, "bin", "llmtap"))
		switch {
		case collector == "hook":
			if err == nil {
				t.Errorf("%s: a collector of %d bytes", platform, len(got))
			}
		case collector != "":
			must.Contain(t, string(got), "collector of "+collector, platform)
		case err != nil:
			t.Errorf("%s: %v", platform, err)
		}
		must.Contain(t, string(must.Get(os.ReadFile(filepath.Join(to, "llmtap", "__main__.py")))(t)), "python -m llmtap", platform)
	}
}

func testNpm(t *testing.T, dist string, env []string) {
	registry := npmRegistry(t, dist)
	dir, cache := t.TempDir(), t.TempDir()
	npm := func(dir string, args ...string) string {
		return runIn(t, dir, append([]string{"npm_config_registry=" + registry, "npm_config_audit=false", "npm_config_fund=false", "npm_config_cache=" + cache}, env...), args...)
	}
	write(t, filepath.Join(dir, "agent", "agent.mjs"), nodeAgent, 0o600)
	agent := filepath.Join(dir, "agent")
	npm(agent, "npm", "install", "llmtap")
	must.Contain(t, npm(agent, "npx", "--no-install", "llmtap", "--version"), "llmtap ", "the collector")
	recorded := "pending 2 " + strings.TrimPrefix(releaseVersion, "v") + "\n"
	must.Contain(t, npm(agent, "node", "--require", "llmtap/register", "agent.mjs"), recorded, "the hook")
	shim := filepath.Join(agent, "node_modules", ".bin", "llmtap")
	must.Contain(t, npm(agent, shim, "run", "--", "node", "agent.mjs"), recorded, "the hook, by the collector")
	stop(t, shim)

	write(t, filepath.Join(dir, "npx", "empty"), "", 0o600)
	must.Contain(t, npm(filepath.Join(dir, "npx"), "npx", "--yes", "llmtap", "--version"), "llmtap ", "npx")

	alone := filepath.Join(dir, "alone")
	write(t, filepath.Join(alone, "package.json"), "{}", 0o600)
	npm(alone, "npm", "install", "--omit=optional", "llmtap")
	out, err := exec.CommandContext(t.Context(), filepath.Join(alone, "node_modules", ".bin", "llmtap")).CombinedOutput()
	must.Contain(t, string(out), "is not installed: run npm install with --include=optional", "the hook without the collector")
	if err == nil {
		t.Error("no error without the collector")
	}

	for platform, collector := range map[string]string{"darwin-arm64": "darwin_arm64", "linux-arm64": "linux_arm64", "win32-x64": ""} {
		other := filepath.Join(dir, platform)
		node, cpu, _ := strings.Cut(platform, "-")
		write(t, filepath.Join(other, "package.json"), "{}", 0o600)
		npm(other, "npm", "install", "--os="+node, "--cpu="+cpu, "llmtap")
		paths := must.Get(filepath.Glob(filepath.Join(other, "node_modules", "@llmtap", "*", "bin", "llmtap")))(t)
		if collector == "" && len(paths) == 0 {
			continue
		}
		must.Equal(t, len(paths), 1, "collectors for %s", platform)
		must.Contain(t, string(must.Get(os.ReadFile(paths[0]))(t)), "collector of "+collector, platform)
	}
}

// stop starts llmtap, which the program shim starts, and ends it as supervisors do: when the shim has ended, so has the collector.
func stop(t *testing.T, shim string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), shim, "provider", "--provider-port", "0")
	out := must.Get(cmd.StdoutPipe())(t) // ends when no process holds it
	cmd.Stderr = cmd.Stdout
	must.Do(t, cmd.Start())
	first := make([]byte, 1)
	_, err := io.ReadFull(out, first)
	must.Do(t, err)
	must.Do(t, cmd.Process.Signal(syscall.SIGTERM))
	rest := must.Get(io.ReadAll(out))(t)
	if err := cmd.Wait(); err != nil {
		t.Errorf("llmtap provider: %v\n%s%s", err, first, rest)
	}
}

// npmRegistry serves the archives of dist as npm's registry does, and refers to the configured one for all other packages.
func npmRegistry(t *testing.T, dist string) string {
	t.Helper()
	upstream := strings.TrimRight(strings.TrimSpace(run(t, nil, "npm", "config", "get", "registry")), "/")
	packages := map[string][]byte{}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for _, path := range must.Get(filepath.Glob(filepath.Join(dist, "*.tgz")))(t) {
		manifest := must.JSON[map[string]any](t, []byte(run(t, nil, "tar", "xzOf", path, "package/package.json")))
		name, version := manifest["name"].(string), manifest["version"].(string)
		manifest["dist"] = map[string]string{"tarball": server.URL + "/-/" + filepath.Base(path)}
		packages["/"+name] = must.Get(json.Marshal(map[string]any{
			"name": name, "dist-tags": map[string]string{"latest": version}, "versions": map[string]any{version: manifest},
		}))(t)
	}
	mux.Handle("/-/", http.StripPrefix("/-/", http.FileServer(http.Dir(dist))))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch p, ok := packages[r.URL.Path]; {
		case ok:
			_, _ = w.Write(p)
		case strings.Contains(r.URL.Path, "llmtap"):
			http.NotFound(w, r)
		default:
			http.Redirect(w, r, upstream+r.URL.EscapedPath(), http.StatusFound)
		}
	})
	return server.URL
}

// checkBinary checks what packages promise: the size, and the version of glibc that their tags name.
func checkBinary(t *testing.T, path string) {
	t.Helper()
	if info := must.Get(os.Stat(path))(t); info.Size() > 60e6 {
		t.Errorf("the binary has %d bytes", info.Size())
	}
	f := must.Get(elf.Open(path))(t)
	defer func() { must.Do(t, f.Close()) }()
	for _, symbol := range must.Get(f.ImportedSymbols())(t) {
		if symbol.Version != "" {
			t.Errorf("%s of %s: does glibc 2.17 have it?", symbol.Name, symbol.Version)
		}
	}
}
