package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/browsertest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// chatCall is the body of a call that a standInProvider answers.
const chatCall = `{"model":"gpt-5","messages":[{"role":"user","content":"hello"}]}`

// standInProvider answers calls as OpenAI and Anthropic do. A request with the header X-Stainless-Retry-Count is the second attempt of
// one that failed.
func standInProvider(t *testing.T) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/messages"):
			_, _ = io.WriteString(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}`)
		case r.Header.Get("X-Fail") != "":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":{"message":"overloaded","type":"server_error"}}`)
		case strings.Contains(string(body), `"tools"`):
			fmt.Fprintf(w, `{"id":"c","object":"chat.completion","model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"look_up","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":30,"completion_tokens":5}}`, r.Header.Get("X-Call"))
		default:
			_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`)
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

// TestFirstCall copies each way in from the first page, runs it word for word, and waits until the page shows the call by itself. The
// provider is at a loopback address, and claude is a script that makes one call.
func TestFirstCall(t *testing.T) {
	slowtest.Skip(t)
	needClickHouse(t)
	t.Parallel()
	b, provider := browsertest.Start(t), standInProvider(t)
	f := func(way string, prepare func(t *testing.T, dir string), run func(dir, code string) string) {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			config := filepath.Join(dir, "llmtap.yaml")
			filetest.Write(t, config, []byte(fmt.Sprintf("proxy: {upstreams: {openai: %q, anthropic: %q}}\n", provider.URL, provider.URL)))
			u := startUp(t, "--config", config)
			u.ready(t)
			p := b.Page(t, pageViews[0])
			p.Open(running(t, u.dir).PagesURL + "/")
			var code string
			p.Eval(`[...document.querySelectorAll("details.way")].find((d) => d.querySelector("summary").textContent === "`+way+`").querySelector("pre").textContent`, &code)
			if prepare != nil {
				prepare(t, dir)
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", run(dir, code))
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "LLMTAP_HOSTS="+strings.TrimPrefix(provider.URL, "http://"), "PROVIDER="+provider.URL)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s\n%s", err, code, out)
			}
			p.Wait(`!document.querySelector("[data-waiting]") && document.querySelector("#totals")`)
			if got := p.Text("#totals"); !strings.HasPrefix(strings.TrimPrefix(got, "Calls"), "\n1\n") {
				t.Errorf("totals: %q", got)
			}
			clean(t, p)
		})
	}
	// clone copies a hook to where it is in a clone.
	clone := func(t *testing.T, dir, hook string) {
		t.Helper()
		cmd := exec.Command("git", "archive", "--format=tar", "--prefix=ingest/sdk/"+hook+"/", "HEAD:ingest/sdk/"+hook)
		cmd.Dir = filepath.Join("..", "..")
		tar := exec.Command("tar", "-x", "-C", dir)
		tar.Stdin = must.Get(cmd.StdoutPipe())(t)
		must.Do(t, cmd.Start())
		must.Do(t, tar.Run())
		must.Do(t, cmd.Wait())
	}
	script := func(t *testing.T, dir, name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o700))
	}
	as := func(code string) func(string, string) string {
		return func(_, copied string) string { return copied + "\n" + code }
	}

	llmtap := func(t *testing.T, dir string) {
		t.Helper()
		must.Do(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o700))
		must.Do(t, os.Symlink(must.Get(os.Executable())(t), filepath.Join(dir, "bin", "llmtap")))
	}
	python := func(t *testing.T, dir string) {
		llmtap(t, dir)
		clone(t, dir, "python")
		must.Do(t, exec.Command("python3", "-m", "venv", dir).Run())
		script(t, dir, "agent.py", `import os, urllib.request
request = urllib.request.Request(os.environ["PROVIDER"] + "/v1/chat/completions", b'`+chatCall+`', {"Content-Type": "application/json"})
urllib.request.urlopen(request).read()
`)
	}
	node := func(file string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			llmtap(t, dir)
			clone(t, dir, "typescript")
			script(t, dir, file, `fetch(process.env.PROVIDER + "/v1/chat/completions", {method: "POST", headers: {"Content-Type": "application/json"}, body: '`+chatCall+`'}).then((r) => r.text());
`)
		}
	}
	f("Python", python, as(""))
	f("Python, in its code", python, as(""))
	f("Node.js", node("agent.js"), as(""))
	f("Node.js, in its code", node("agent.mjs"), as(""))
	f("Go", func(t *testing.T, dir string) {
		sdk := must.Get(filepath.Abs(filepath.Join("..", "..", "ingest", "sdk", "go")))(t)
		script(t, dir, "go.mod", "module agent\n\ngo 1.25.0\n\nrequire github.com/llmtap/llmtap/ingest/sdk/go v0.0.0\n\nreplace github.com/llmtap/llmtap/ingest/sdk/go => "+sdk+"\n")
		script(t, dir, "go.sum", source(t, "ingest/sdk/go/go.sum"))
	}, func(dir, code string) string {
		export, program, _ := strings.Cut(code, "\n\n")
		text := "package main\n\nimport (\n\t\"log\"\n\t\"net/http\"\n\t\"os\"\n\t\"strings\"\n\n\tllmtap \"github.com/llmtap/llmtap/ingest/sdk/go\"\n)\n\nfunc main() {\n" + program + `
	resp, err := client.Post(os.Getenv("PROVIDER")+"/v1/chat/completions", "application/json", strings.NewReader(` + "`" + chatCall + "`" + `))
	if err != nil {
		log.Fatal(err)
	}
	resp.Body.Close()
}
`
		_ = os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o600) // go run reports that it is missing
		return export + "\nGOWORK=off GOFLAGS=-mod=mod go run .\n"
	})
	f("Any language", nil, as(`curl -sSf -H "Content-Type: application/json" -H "Authorization: Bearer k" -d '`+chatCall+`' "$OPENAI_BASE_URL/chat/completions"`))
	f("Claude Code", func(t *testing.T, dir string) {
		script(t, dir, "bin/claude", `#!/bin/sh -e
curl -sSf -H "Content-Type: application/json" -H "X-Api-Key: k" -H "Anthropic-Version: 2023-06-01" -d '{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}' "$ANTHROPIC_BASE_URL/v1/messages"
`)
	}, as(""))
	now := time.Now().UnixNano()
	f("OpenTelemetry", nil, as(`curl -sSf -H "Content-Type: application/json" -d '{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeSpans":[{"scope":{"name":"test"},"spans":[{"traceId":"0123456789abcdef0123456789abcdef","spanId":"0123456789abcdef","name":"chat gpt-5","kind":3,"startTimeUnixNano":"`+
		fmt.Sprint(now-1e9)+`","endTimeUnixNano":"`+fmt.Sprint(now)+`","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.provider.name","value":{"stringValue":"openai"}},{"key":"gen_ai.request.model","value":{"stringValue":"gpt-5"}}]}]}]}]}' "$OTEL_EXPORTER_OTLP_ENDPOINT/v1/traces"`))
}
