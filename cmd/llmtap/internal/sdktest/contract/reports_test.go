package contract

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
)

// An agent is a process with the hook of one language. It makes calls and exits as soon as the hook has logged the
// text until, or has stored its events if until is empty. It returns the log and the number of unrecorded calls.
type agent func(t *testing.T, natsURL, url string, calls int, until string) (log string, unrecorded int)

// agents are the agents by language.
func agents(t *testing.T, hosts string) map[string]agent {
	python, node := interpreter(t), nodePackages(t)
	return map[string]agent{
		"go": goAgent,
		"python": func(t *testing.T, natsURL, url string, calls int, until string) (string, int) {
			return pythonAgent(t, python, natsURL, hosts, url, calls, until)
		},
		"node": func(t *testing.T, natsURL, url string, calls int, until string) (string, int) {
			return nodeAgent(t, node, natsURL, hosts, url, calls, until)
		},
	}
}

// goAgent runs in this process.
func goAgent(t *testing.T, natsURL, url string, calls int, until string) (string, int) {
	log := new(testnet.Buffer)
	cfg := llmtap.Config{URL: natsURL, Service: service, Logger: slog.New(slog.NewTextHandler(log, nil)), FlushTimeout: 20 * time.Second}
	if until != "" {
		cfg.FlushTimeout = 200 * time.Millisecond
	}
	h := must.Get(llmtap.Open(cfg))(t)
	client := &http.Client{Transport: h.Transport(nil)}
	defer client.CloseIdleConnections()
	for range calls {
		resp := must.Get(client.Post(url, "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"q"}]}`)))(t)
		resp.Body.Close()
	}
	waitFor(time.Minute, func() bool { return strings.Contains(log.String(), until) })
	err := h.Close()
	must.Equal(t, err != nil, until != "", "Close: %v", err)
	return log.String(), int(h.Stats().Unrecorded)
}

func pythonAgent(t *testing.T, python, natsURL, hosts, url string, calls int, until string) (string, int) {
	sdk := must.Get(filepath.Abs(filepath.Join(root, "ingest", "sdk", "python")))(t)
	cmd := exec.CommandContext(t.Context(), python, filepath.Join("python", "agent.py"), url, fmt.Sprint(calls), until)
	cmd.Env = environ("PYTHONPATH="+sdk, "PYTHONDONTWRITEBYTECODE=1", "LLMTAP_NATS_URL="+natsURL, "LLMTAP_HOSTS="+hosts)
	cmd.Env = append(cmd.Env, transport()...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	must.Do(t, cmd.Run(), &log)
	unrecorded := -1
	if _, err := fmt.Sscan(out.String(), &unrecorded); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	return log.String(), unrecorded
}

// transport returns the variables of this process that set how agents connect. The hook of a goAgent reads them itself.
func transport() (env []string) {
	for _, name := range []string{event.EnvCAFile, event.EnvCertFile, event.EnvKeyFile, event.EnvEndpoint, event.EnvToken} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// startChat runs a provider at an unknown host.
func startChat(t *testing.T) (url, host string) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"a"}}]}`)
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1/chat/completions", strings.TrimPrefix(srv.URL, "http://")
}

// A hook logs an unknown host once and counts its calls. With LLMTAP_HOSTS it records them, in the format of their path.
func TestUnknownHost(t *testing.T) {
	url, host := startChat(t)
	n := newNATS(t)
	n.start(t)
	for language, run := range agents(t, "") {
		log, unrecorded := run(t, n.url(), url, 2, "")
		if unrecorded != 2 || strings.Count(log, "\n") != 1 || !strings.Contains(log, "LLMTAP_HOSTS="+host) || !strings.Contains(log, "not recorded") {
			t.Errorf("%s: %d unrecorded calls, log %s", language, unrecorded, log)
		}
	}
	if got := n.newMessages(t); len(got) > 0 {
		t.Errorf("%d events of an unknown host", len(got))
	}
	t.Setenv("LLMTAP_HOSTS", "llm.corp, "+host)
	for language, run := range agents(t, "llm.corp, "+host) {
		log, unrecorded := run(t, n.url(), url, 1, "")
		if unrecorded != 0 || log != "" {
			t.Errorf("%s: %d unrecorded calls, log %s", language, unrecorded, log)
		}
		got := n.newMessages(t)
		if len(got) != 2 || !strings.Contains(string(got[0].Data), `"role":"user"`) {
			t.Errorf("%s: %d events, want the shape of a chat request and its response", language, len(got))
		}
	}
}

// A hook that cannot publish logs where, why and what to do, once, and at exit the number of lost exchanges.
func TestUnreachableNATS(t *testing.T) {
	url, host := startChat(t)
	t.Setenv("LLMTAP_HOSTS", host)
	languages := agents(t, host)
	up := newNATS(t)
	up.start(t)
	address := strings.TrimPrefix(up.url(), "nats://agent:agent@")
	empty := newNATS(t)
	empty.start(t)
	js := must.Get(jetstream.New(empty.admin))(t)
	must.Do(t, js.DeleteStream(t.Context(), event.StreamEvents))
	t.Run("problems", func(t *testing.T) {
		f := func(name, natsURL string, want ...string) {
			for language, run := range languages {
				t.Run(name+" "+language, func(t *testing.T) {
					t.Parallel()
					log, _ := run(t, natsURL, url, 2, "cannot publish")
					lines := strings.Split(strings.TrimSuffix(log, "\n"), "\n")
					if len(lines) != 2 || !strings.Contains(lines[1], "discarded at exit") || !strings.Contains(lines[1], "2 exchanges") && !strings.Contains(lines[1], "exchanges=2") {
						t.Errorf("log:\n%s", log)
					}
					for _, line := range lines {
						for _, text := range want {
							must.Contain(t, strings.ToLower(line), strings.ToLower(text), text, line)
						}
					}
					if strings.Contains(log, "hunter2") {
						t.Errorf("password in\n%s", log)
					}
				})
			}
		}
		free := newNATS(t)
		refused := strings.TrimPrefix(free.url(), "nats://agent:agent@")
		f("refused", "nats://agent:hunter2@"+refused, "nats://"+refused, "refused", "run llmtap up")
		f("wrong password", "nats://agent:hunter2@"+address, "nats://"+address, "authorization violation", "LLMTAP_NATS_URL")
		f("no credentials", address, "nats://"+address, "authorization violation", "LLMTAP_NATS_URL")
		f("TLS", "tls://agent:agent@"+address, "tls://"+address, "uses TLS")
		f("no stream", strings.Replace(empty.url(), "agent:agent", "admin:admin", 1), "stream", "run llmtap up")
		f("denied", strings.Replace(up.url(), "agent:agent", "other:other", 1), "permissions violation", "llmtap.v1.*.svc.*")
	})
}
