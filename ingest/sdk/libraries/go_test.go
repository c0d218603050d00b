package libraries

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// setsClient is the place where an SDK takes the HTTP client of the agent.
var setsClient = regexp.MustCompile(`r\.HTTPClient = (c|selected)\n`)

var packageName = regexp.MustCompile(`(?m)^package \w+$`)

const testMain = `
import ("os"; "testing"; "PATH/option")

func TestMain(m *testing.M) {
	code := m.Run()
	option.LlmtapClose()
	os.Exit(code)
}
`

// hosts are those of the tests, besides the known providers.
const hosts = "LLMTAP_HOSTS=localhost,127.0.0.1,::1,*.com,*.net,*.org,*.test,*.example,*.invalid,*.internal,*.local"

// openGo copies a Go SDK and adds the hook to its http.DefaultTransport and to each http.Client that its tests pass to
// option.WithHTTPClient, as an agent would: the hook cannot be added from outside of the module.
func openGo(t testing.TB, l *library) suite {
	t.Helper()
	module := must.JSON[struct{ Dir string }](t, download(t, "go", "mod", "download", "-json", l.source+"@"+l.version))
	dir := t.TempDir()
	write := func(path, text string) {
		must.Do(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600))
	}
	read := func(path string) string {
		data := must.Get(os.ReadFile(path))(t)
		return string(data)
	}
	must.Do(t, os.CopyFS(dir, os.DirFS(module.Dir)))
	options := filepath.Join(dir, "option", "requestoption.go")
	edited := setsClient.ReplaceAllString(read(options), "r.HTTPClient = llmtapClient($1)\n")
	if err := os.Remove(options); err != nil || strings.Count(edited, "llmtapClient") != 1 {
		t.Fatalf("%v: WithHTTPClient has changed", err)
	}
	write("option/requestoption.go", edited)
	write("option/llmtap.go", read("testdata/hook.go.txt"))
	// The tests of the root package make most calls, and have no TestMain.
	name := packageName.FindString(read(filepath.Join(dir, "client_test.go")))
	write("llmtap_test.go", name+strings.ReplaceAll(testMain, "PATH", l.source))
	command(t, dir, nil, "go", "work", "init", ".", absolute(t, "../go"))
	return suite{
		run: func(env, args []string) (r run) {
			var lines string
			lines, r.seconds = command(t, dir, slices.Concat(env, []string{hosts}), "go", slices.Concat([]string{"test", "-trimpath", "-vet=off", "-count=1", "-json"}, args)...)
			r.tests = map[string]string{}
			for text := range strings.Lines(lines) {
				var line struct{ Action, Package, Test, Output string }
				switch _ = json.Unmarshal([]byte(text), &line); line.Action {
				case "pass", "fail", "skip":
					if line.Test != "" {
						r.tests[line.Package+" "+line.Test] = line.Action
					}
				case "output", "build-output":
					r.output += line.Output
				case "build-fail":
					t.Fatal(r.output)
				}
			}
			return r
		},
		alone: func(test string) []string {
			pkg, name, _ := strings.Cut(test, " ")
			name, _, _ = strings.Cut(name, "/")
			return []string{pkg, "-run", "^" + name + "$"}
		},
	}
}
