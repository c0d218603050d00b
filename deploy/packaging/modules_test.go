package packaging

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

const (
	releaseVersion = "v0.0.1-rc.1"
	llmtapModule   = "github.com/llmtap/llmtap"
	hookModule     = llmtapModule + "/ingest/sdk/go"
)

// agent is the program of a stranger who knows the README only. It calls a model and prints what the hook recorded.
const agent = `package main

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

func main() {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "{}") }))
	defer model.Close()
	hook, err := llmtap.Open(llmtap.Config{
		URL: "nats://127.0.0.1:1", Service: "agent", Hosts: []string{strings.TrimPrefix(model.URL, "http://")}, FlushTimeout: time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer hook.Close()
	client := &http.Client{Transport: hook.Transport(nil)}
	resp, err := client.Post(model.URL+"/v1/chat/completions", "application/json", strings.NewReader("{\"messages\":[]}"))
	if err != nil {
		log.Fatal(err)
	}
	resp.Body.Close()
	fmt.Println("pending", hook.Stats().Pending)
}
`

// TestModules releases the commit that is checked out to a module proxy of files, and gets the hook and installs llmtap from
// there as a stranger does: without a checkout, workspace or replacement.
func TestModules(t *testing.T) {
	in := func(dir string, env []string, args ...string) string { return runIn(t, dir, env, args...) }
	dir := t.TempDir()
	repo := released(t)
	proxy := filepath.Join(dir, "proxy")
	publish(t, proxy, repo, llmtapModule, "")
	publish(t, proxy, repo, hookModule, "ingest/sdk/go")

	host := must.JSON[struct{ GOMODCACHE, GOPROXY string }](t, []byte(run(t, nil, "go", "env", "-json", "GOMODCACHE", "GOPROXY")))
	bin := filepath.Join(dir, "bin")
	stranger := []string{
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(host.GOMODCACHE, "cache", "download") + "," + host.GOPROXY,
		"GOSUMDB=off", // it does not know this release
		"GOMODCACHE=" + filepath.Join(dir, "mod"), "GOBIN=" + bin, "GOWORK=", "GOFLAGS=-modcacherw -trimpath", // -trimpath: the build cache serves every folder
	}
	home := filepath.Join(dir, "agent")
	must.Do(t, os.Mkdir(home, 0o700))
	must.Do(t, os.WriteFile(filepath.Join(home, "main.go"), []byte(agent), 0o600))
	in(home, stranger, "go", "mod", "init", "example.com/agent")
	in(home, stranger, "go", "get", hookModule+"@"+releaseVersion)
	must.Contain(t, in(home, stranger, "go", "run", "."), "pending 2\n", "the hook recorded")
	for m := range strings.Lines(in(home, stranger, "go", "list", "-m", "all")) {
		if strings.HasPrefix(m, llmtapModule+" ") || strings.Contains(m, "nats-server") {
			t.Errorf("the hook requires %s", m)
		}
	}
	in(home, stranger, "go", "install", llmtapModule+"/cmd/llmtap@"+releaseVersion)
	llmtap := filepath.Join(bin, "llmtap")
	if out := in(home, stranger, llmtap, "version"); !strings.HasPrefix(out, "llmtap "+releaseVersion+" ") {
		t.Errorf("version: %s", out)
	}
	in(home, stranger, llmtap, "rules", "orphan_tool_reply")
}

// released returns a clone in which the commit that is checked out is released.
func released(t *testing.T) string {
	t.Helper()
	repo := filepath.Join(t.TempDir(), "repo")
	run(t, nil, "git", "clone", "--quiet", top, repo)
	identity := []string{"GIT_AUTHOR_NAME=release", "GIT_AUTHOR_EMAIL=release@localhost", "GIT_COMMITTER_NAME=release", "GIT_COMMITTER_EMAIL=release@localhost"}
	runIn(t, repo, identity, "deploy/packaging/release.sh", releaseVersion)
	return repo
}

// runIn returns the output of a command in the directory dir, which must succeed.
func runIn(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	return run(t, env, "env", append([]string{"-C", dir}, args...)...)
}

// publish adds the module in the folder subdir of the tagged release to the proxy.
func publish(t *testing.T, proxy, repo, path, subdir string) {
	t.Helper()
	dir := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	must.Do(t, os.MkdirAll(dir, 0o700))
	archive := must.Get(os.Create(filepath.Join(dir, releaseVersion+".zip")))(t)
	tag := strings.TrimPrefix(subdir+"/"+releaseVersion, "/")
	must.Do(t, zip.CreateFromVCS(archive, module.Version{Path: path, Version: releaseVersion}, repo, tag, subdir))
	must.Do(t, archive.Close())
	mod := must.Get(os.ReadFile(filepath.Join(repo, subdir, "go.mod")))(t)
	for name, data := range map[string]string{
		releaseVersion + ".mod": string(mod), releaseVersion + ".info": `{"Version":"` + releaseVersion + `"}`, "list": releaseVersion + "\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
	}
}
