package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A findTest is a collector with two stored calls of service checkout.
type findTest struct {
	t            *testing.T
	dir, listen  string
	natsURL, dsn string
	exchange     string // the failed call
}

// newFindTest runs a collector on dir. A name on its network address requires the token, unless it is empty.
func newFindTest(t *testing.T, dir, token string) *findTest {
	t.Helper()
	needClickHouse(t)
	cfg := collectortest.Config(t, func(cfg *config.Config) {
		cfg.DataDir, cfg.Listen, cfg.HTTP.Token = dir, fmt.Sprintf("127.0.0.1:%d", freePort(t)), token
		collectortest.WithProvider(t, cfg)
	})
	col := runCollector(t, cfg)
	collectortest.CallProxy(t, cfg.Proxy.Listen)
	f := &findTest{t: t, dir: dir, listen: cfg.Listen, natsURL: strings.Replace(col.NATSURL(), "://", "://"+collectortest.CollectorToken+"@", 1)}
	f.dsn, _ = chdb.Running(config.ClickHouseDir(dir))
	f.exchange = f.waitFailed(col.ClickHouse().Query)
	return f
}

// waitFailed waits until both calls are stored and returns the id of the failed one.
func (f *findTest) waitFailed(query func(context.Context, string, map[string]string) (*clickhouse.Result, error)) string {
	f.t.Helper()
	var res *clickhouse.Result
	must.Wait(f.t, "the calls are stored", func() (ok bool) {
		var err error
		res, err = query(f.t.Context(), "SELECT argMax(exchange_id, failed) FROM exchanges_final HAVING count() = 2", nil)
		return err == nil && len(res.Rows) == 1
	})
	return res.Rows[0][0].(string)
}

// file writes a configuration file.
func (f *findTest) file(text string) string { return filetest.Temp(f.t, "llmtap.yaml", text) }

// A way is how a command finds the collector.
type way struct {
	name   string
	args   []string
	env    map[string]string
	system string // config.SystemFile
	api    bool   // through the query API
}

// llmtap runs a command until it ends or its output contains until. The variables of hooks are set.
func (f *findTest) llmtap(w *way, until string, args ...string) (stdout, stderr string, code int) {
	f.t.Helper()
	defer func(file string) { config.SystemFile = file }(config.SystemFile)
	if config.SystemFile = w.system; w.system == "" {
		config.SystemFile = filepath.Join(f.t.TempDir(), "none.yaml")
	}
	env := map[string]string{"LLMTAP_NATS_URL": "nats://127.0.0.1:1", "LLMTAP_SHAPE_KEY": "k", "LLMTAP_HOSTS": "llm.example", "XDG_DATA_HOME": f.t.TempDir()}
	maps.Copy(env, w.env)
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Minute)
	defer cancel()
	var out, errs lockedBuffer
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, append(args, w.args...), strings.NewReader(recordedCall), &out, &errs, func(k string) string { return env[k] })
	}()
	for {
		select {
		case err := <-done:
			code = command.Report(err, &errs)
			return out.String(), errs.String(), code
		case <-time.After(10 * time.Millisecond):
			if until != "" && strings.Contains(out.String(), until) {
				cancel()
			}
		}
	}
}

const recordedCall = `{"url":"https://api.openai.com/v1/chat/completions","request":{"model":"gpt-5","messages":[]},"status":200,"response":{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}]}}`

// Every command finds the collector in every way.
func TestCommandsFindCollector(t *testing.T) {
	slowtest.Skip(t)
	parent := t.TempDir()
	f := newFindTest(t, filepath.Join(parent, "llmtap"), "")
	url := "http://" + f.listen
	inFile := f.file("data_dir: " + f.dir + "\nlisten: " + f.listen + "\n")
	// On another machine, which has neither the data directory nor a collector.
	elsewhere := "listen: 127.0.0.1:1\n"
	ways := []way{
		{name: "--data-dir", args: []string{"--data-dir", f.dir}},
		{name: "--config", args: []string{"--config", inFile}},
		{name: "LLMTAP_CONFIG", env: map[string]string{"LLMTAP_CONFIG": inFile}},
		{name: "system file", system: inFile},
		{name: "default data directory", env: map[string]string{"XDG_DATA_HOME": parent}, system: f.file(elsewhere)},
		{name: "DSN in the environment", env: map[string]string{"LLMTAP_CLICKHOUSE_DSN": f.dsn, "LLMTAP_COLLECTOR_NATS_URL": f.natsURL}},
		{name: "DSN in the file", system: f.file("clickhouse:\n  dsn: " + f.dsn + "\nnats:\n  url: " + f.natsURL + "\n")},
		{name: "--url", args: []string{"--url", url}, system: f.file(elsewhere), api: true},
		{name: "--url before a file", args: []string{"--url", url}, system: f.file("clickhouse:\n  dsn: http://127.0.0.1:1/llmtap\n"), api: true},
		{name: "LLMTAP_URL", env: map[string]string{"LLMTAP_URL": url}, system: f.file(elsewhere), api: true},
		{name: "ui.external_url", system: f.file("ui:\n  external_url: " + url + "/\n" + elsewhere), api: true},
		{name: "listen", system: f.file("listen: " + f.listen + "\n"), api: true},
	}
	commands := []struct {
		args   []string
		want   string // in the output
		direct bool   // requires NATS or ClickHouse itself
		follow bool   // runs until the output contains want
	}{
		{args: []string{"show", f.exchange}, want: "orphan_tool_reply"},
		{args: []string{"show", f.exchange, "--format", "json"}, want: "orphan_tool_reply"},
		{args: []string{"query", "causes", "--since", "1h"}, want: "orphan_tool_reply"},
		{args: []string{"query", "--sql", "SELECT count() AS n FROM exchanges_final WHERE service = 'checkout'", "--format", "csv"}, want: "n\n2\n"},
		{args: []string{"tail", "--since", "10m", "--failed"}, want: "orphan_tool_reply", follow: true},
		{args: []string{"explain", "--unknown", "--format", "jsonl"}},
		{args: []string{"alerts", "backtest", "--since", "1h"}, want: "calls"},
		{args: []string{"schema", "status"}, want: "exchanges", direct: true},
		{args: []string{"doctor"}, want: "schema        up to date", direct: true},
		{args: []string{"import", "--wait=false", "-"}, want: "1 call", direct: true},
		{args: []string{"forget", "--conversation", "none", "--dry-run"}, want: "would be deleted", direct: true},
	}
	first := map[string]string{} // output of show, which is the same in every way
	for i := range ways {
		if ways[i].name == "LLMTAP_URL" {
			f.testAllQueries(&ways[i])
		}
		for _, c := range commands {
			w, until := &ways[i], ""
			if c.follow {
				until = c.want
			}
			if w.api && c.direct {
				continue // see TestFindErrors
			}
			out, errs, code := f.llmtap(w, until, c.args...)
			if code != command.ExitOK || !strings.Contains(out, c.want) {
				t.Errorf("%s: llmtap %s: exit code %d, want %q in\n%s%s", w.name, strings.Join(c.args, " "), code, c.want, out, errs)
			}
			out, page, linked := strings.Cut(out, "The page: ")
			if linked != (c.args[0] == "show" && len(c.args) == 2 && !strings.HasPrefix(w.name, "DSN")) || linked && !strings.HasSuffix(page, "/exchange/"+f.exchange+"\n") {
				t.Errorf("%s: llmtap %s: page %q", w.name, strings.Join(c.args, " "), page)
			}
			if linked && w.name != "ui.external_url" && !answers(t, strings.TrimSpace(page)) { // that one is wrong in this test
				t.Errorf("%s: page %q is not served", w.name, page)
			}
			if id := strings.Join(c.args, " "); i == 0 {
				first[id] = out
			} else if c.args[0] == "show" && out != first[id] {
				t.Errorf("%s: llmtap %s (-%s +%s):\n%s", w.name, id, ways[0].name, w.name, cmp.Diff(first[id], out))
			}
		}
	}
}

// testAllQueries runs every stored query through the query API.
func (f *findTest) testAllQueries(w *way) {
	f.t.Helper()
	for _, name := range queries.Names() {
		q := must.Get(queries.Get(name))(f.t)
		args := []string{"query", name, "--format", "jsonl"}
		for _, p := range q.Parameters {
			if p.Required {
				args = append(args, "--"+p.Name, "x")
			}
		}
		if out, errs, code := f.llmtap(w, "", args...); code != command.ExitOK {
			f.t.Errorf("%s: llmtap %q: exit code %d\n%s%s", w.name, args, code, out, errs)
		}
	}
}

// A command that cannot find or use a collector says why, and what to do.
func TestFindErrors(t *testing.T) {
	f := newFindTest(t, t.TempDir(), "s3cret")
	url, closed := "http://"+f.listen, fmt.Sprintf("http://127.0.0.1:%d", freePort(t))
	nowhere := f.file("listen: " + strings.TrimPrefix(closed, "http://") + "\nnats_server:\n  port: -1\n")
	token := func(s string) map[string]string { return map[string]string{"LLMTAP_HTTP_TOKEN": s} }
	fails := func(want string, env map[string]string, args ...string) {
		t.Helper()
		out, errs, code := f.llmtap(&way{env: env, system: nowhere}, "", args...)
		if code == command.ExitOK || !strings.Contains(errs, want) {
			t.Errorf("llmtap %q: exit code %d, want %q in\n%s%s", args, code, want, out, errs)
		}
	}
	query := []string{"query", "causes"}
	for _, reads := range [][]string{query, {"show", f.exchange}, {"tail"}, {"explain", "--unknown"}, {"alerts", "backtest"}} {
		fails(url+" requires a token: set LLMTAP_HTTP_TOKEN", nil, append(reads, "--url", url)...)
		fails(url+" rejects the token: set LLMTAP_HTTP_TOKEN", token("wrong"), append(reads, "--url", url)...)
		fails("reach llmtap at "+closed+": dial tcp", nil, append(reads, "--url", closed)...)
		fails("no collector answers at "+closed+", and llmtap is not running on ", nil, reads...)
		fails("llmtap is not running on nowhere; start it with llmtap up", nil, append(reads, "--data-dir", "nowhere")...)
	}
	out, errs, code := f.llmtap(&way{env: token("s3cret"), system: nowhere}, "", append(query, "--url", url)...)
	if code != command.ExitOK || !strings.Contains(out, "orphan_tool_reply") {
		t.Errorf("with the token: exit code %d\n%s%s", code, out, errs)
	}
	fails(`--url (LLMTAP_URL): "collector:8088" is not the URL of a collector`, nil, append(query, "--url", "collector:8088")...)
	fails("--url cannot be combined with --clickhouse-dsn or --data-dir", nil, append(query, "--url", url, "--data-dir", f.dir)...)
	fails("only read-only statements are allowed", token("s3cret"), "query", "--sql", "KILL QUERY WHERE 1", "--url", url)
	fails("readonly", token("s3cret"), "query", "--sql", "SELECT 1 SETTINGS max_execution_time = 0", "--url", url)
	fails("Unknown expression identifier", token("s3cret"), "query", "--sql", "SELECT nosuch FROM exchanges", "--url", url)
	const direct = "itself, which --url does not reach: set "
	fails("NATS "+direct+"--nats-url", nil, "import", "--url", url, "-")
	fails("NATS "+direct+"--nats-url", nil, "forget", "--url", url, "--conversation", "x", "--yes")
	fails("ClickHouse "+direct+"--clickhouse-dsn", nil, "schema", "status", "--url", url)
	for _, publishes := range [][]string{{"import", "-"}, {"forget", "--conversation", "x", "--yes"}, {"schema", "status"}} {
		fails("llmtap is not running on nowhere; start it with llmtap up", nil, append(publishes, "--data-dir", "nowhere")...)
		fails("llmtap is not running on ", nil, publishes...)
	}
}

// A collector with external servers is found by its data directory, and queried through its API.
func TestFindExternal(t *testing.T) {
	needClickHouse(t)
	natsURL, dsn := servers(t)
	cfg := collectortest.Config(t, func(cfg *config.Config) { cfg.NATS.URL, cfg.ClickHouse.DSN = natsURL, dsn })
	runCollector(t, cfg)
	f := &findTest{t: t}
	here := &way{args: []string{"--data-dir", cfg.DataDir}}
	if out, errs, code := f.llmtap(here, "", "query", "--sql", "SELECT count() AS n FROM exchanges", "--format", "csv"); out != "n\n0\n" {
		t.Errorf("query: exit code %d, %s%s", code, out, errs)
	}
	for _, args := range [][]string{{"import", "-"}, {"schema", "status"}} {
		if out, errs, code := f.llmtap(here, "", args...); code != command.ExitFailed || !strings.Contains(errs, "uses an external ") {
			t.Errorf("%q: exit code %d, %s%s", args, code, out, errs)
		}
	}
}
