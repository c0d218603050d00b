package oteltest

import (
	"flag"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/show"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
	"github.com/llmtap/llmtap/ingest/sdk/python/pythontest"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

var all = flag.Bool("otel", false, "run all instrumentations of Python and Node, which takes minutes")

func TestMain(m *testing.M) {
	chdb.RunChild() // the embedded ClickHouse is this binary again
	m.Run()
}

const healthy = 1000 // calls of each agent

const sdkPackages = "opentelemetry-sdk>=1.30,<2 opentelemetry-exporter-otlp-proto-http>=1.30,<2 opentelemetry-exporter-otlp-proto-grpc>=1.30,<2 openai>=1.60,<3 "

// pythonPackages are the packages of each instrumentation.
var pythonPackages = map[string]string{
	"openai-v2":     sdkPackages + "opentelemetry-instrumentation-openai-v2>=2.4b0,<3 opentelemetry-util-genai>=0.4b0,<1",
	"traceloop":     sdkPackages + "opentelemetry-instrumentation-openai>=0.40,<1",
	"langchain":     sdkPackages + "openinference-instrumentation-openai>=0.1.20,<1 openinference-instrumentation-langchain>=0.1.40,<1 langchain-openai>=1,<2",
	"openinference": sdkPackages + "openinference-instrumentation-openai>=0.1.20,<1",
}

// The calls of an instrumented Python agent arrive in ClickHouse with their labels, tokens, latencies and errors, and
// healthy calls yield no finding.
func TestPython(t *testing.T) {
	slowtest.Skip(t)
	w := newWorld(t)
	pythontest.Watch(t, "python")
	run := func(t *testing.T, instrumentation, protocol string) {
		t.Helper()
		python := pythontest.Interpreter(t, strings.Fields(pythonPackages[instrumentation])...)
		w.run(t, python, filepath.Join("python", "agent.py"), instrumentation, protocol, w.all)
	}
	if !*all {
		run(t, "openai-v2", "http")
		return
	}
	for instrumentation := range pythonPackages {
		for _, protocol := range []string{"http", "grpc"} {
			t.Run(instrumentation+"/"+protocol, func(t *testing.T) { run(t, instrumentation, protocol) })
		}
	}
}

// A world is a provider and a collector.
type world struct {
	provider   string
	http, grpc string // endpoints for exporters
	sink       *clickhouse.Sink
}

func newWorld(t *testing.T) *world {
	t.Helper()
	collectortest.NeedClickHouse(t)
	p := httptest.NewServer(provider.New(provider.Config{}))
	t.Cleanup(p.Close)
	w := &world{provider: p.URL + provider.OpenAIPath}
	cfg := collectortest.Config(t, func(cfg *config.Config) {
		cfg.Roles = []string{config.RoleAnalyze, config.RoleReceive}
		cfg.Receive.Listen = fmt.Sprintf("127.0.0.1:%d", testnet.FreePort(t))
		cfg.Receive.GRPCListen = fmt.Sprintf("127.0.0.1:%d", testnet.FreePort(t))
		cfg.Receive.OTLPCapture = event.CaptureFull
		w.http, w.grpc = "http://"+cfg.Receive.Listen, "http://"+cfg.Receive.GRPCListen
	})
	c := must.Get(collector.Open(t.Context(), cfg, collector.Options{Logger: slog.New(slog.DiscardHandler), Progress: func(s string) { t.Log(s) }}))(t)
	collectortest.RunReady(t, c)
	w.sink = c.ClickHouse()
	return w
}

// run runs an agent that makes healthy calls and one that is refused, and checks what is stored of them.
func (w *world) run(t *testing.T, interpreter, agent, instrumentation, protocol string, reports func(t *testing.T, service string)) {
	t.Helper()
	endpoint, calls := w.http, healthy
	switch {
	case *record != "" && protocol == "grpc":
		return
	case *record != "":
		endpoint, calls = startRecorder(t, filepath.Join(*record, instrumentation+".json")), 6
	case protocol == "grpc":
		endpoint = w.grpc
	}
	cmd := exec.CommandContext(t.Context(), interpreter, agent, instrumentation, protocol, fmt.Sprint(calls))
	cmd.Env = append(os.Environ(), "PROVIDER="+w.provider, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_EXPORTER_OTLP_COMPRESSION=gzip",
		"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true", "PYTHONDONTWRITEBYTECODE=1", "TRACELOOP_TELEMETRY=false",
		"OTEL_NODE_RESOURCE_DETECTORS=none")
	started := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), fmt.Sprint(calls)) {
		t.Fatalf("%s %s: %v\n%s", agent, instrumentation, err, out)
	}
	t.Logf("%d calls in %v", calls, time.Since(started).Round(time.Millisecond))
	if strings.Contains(string(out), "Failed to export") || strings.Contains(string(out), "Traceback") {
		t.Errorf("the exporter failed:\n%s", out)
	}
	if *record != "" {
		return
	}
	service := "otel-" + instrumentation + "-" + protocol
	reports(t, service)
	counts := w.query(t, reported, service)
	t.Logf("of %d exchanges of %s, these report messages, tool calls, a stream, the first token, the response id: %v", healthy+1, service, counts)
	if found := w.query(t, findings, service); found[0] != uint64(0) {
		t.Errorf("%s: findings: %v", service, found)
	}
	if counts[0] != uint64(0) {
		w.shows(t, w.query(t, newest, service)[0].(string))
	}
}

// newest is the newest answered exchange of a service whose span had messages.
const newest = "SELECT argMaxIf(exchange_id, stored_at, messages > 0 AND NOT failed AND finish_reason = 'stop') FROM exchanges_final WHERE service = {service:String}"

// shows checks that the messages of an exchange can be read, and are not called the request as sent.
func (w *world) shows(t *testing.T, exchange string) {
	t.Helper()
	e := must.Get(show.Store{Q: w.sink}.Exchange(t.Context(), exchange))(t)
	if len(e.Messages) == 0 || slices.Contains(e.Messages, "") || e.Answer == "" || len(e.Missing) != 1 || !strings.Contains(e.Missing[0], "marked these messages as incomplete") {
		t.Errorf("exchange %s: messages %q, answer %q, missing %q", exchange, e.Messages, e.Answer, e.Missing)
	}
}

// stored summarizes the exchanges of a service.
const stored = `
SELECT
    toUInt64(count()), toUInt64(uniqExact(exchange_id)), toUInt64(countIf(failed)), toUInt64(countIf(NOT failed AND status = 200 AND input_tokens > 0 AND output_tokens > 0)),
    toUInt64(countIf(duration > 0 AND duration < 60)), toUInt64(countIf(startsWith(conversation_id, 'conversation-'))),
    toUInt64(countIf(model = 'gpt-4.1' AND provider = 'openai')), toUInt64(countIf(origin = 'otlp' AND degraded)),
    toUInt64(countIf(finish_reason IN ('tool_calls', 'tool_call')) > 0), toUInt64(sum(findings)),
    anyIf(cause, failed), toUInt64(anyIf(status, failed)), anyIf(conversation_id, failed), any(service_version), any(environment), any(agent),
    toUInt64(length(any(user)))
FROM exchanges_final WHERE service = {service:String}`

// reported counts what only some instrumentations report.
const reported = `SELECT countIf(messages > 0), countIf(tool_calls > 0), countIf(stream), countIf(first_byte > 0), countIf(response_id != '')
FROM exchanges_final WHERE service = {service:String}`

const findings = "SELECT toUInt64(count()), arrayStringConcat(groupUniqArray(rule_id), ' ') FROM findings_final WHERE service = {service:String}"

// all checks that everything is stored of each call of a service.
func (w *world) all(t *testing.T, service string) {
	t.Helper()
	const n, total = uint64(healthy), uint64(healthy) + 1
	want := []any{
		total, total, uint64(1), n, total, total, total, total, uint64(1), uint64(0),
		"orphan_tool_reply", uint64(400), "conversation-broken", "1.2.3", "test", "planner", uint64(16),
	}
	got := w.await(t, stored, service, total)
	must.Agree(t, cmp.Diff(want, got), service, "rows")
}

// unary checks what is stored of the calls of a service whose instrumentation reports neither failed calls, because it never
// ends their spans, nor the tokens of streams.
func (w *world) unary(t *testing.T, service string) {
	t.Helper()
	const sql = `
SELECT toUInt64(count()), toUInt64(countIf(duration > 0 AND duration < 60 AND startsWith(conversation_id, 'conversation-'))),
    toUInt64(countIf(input_tokens > 0 AND output_tokens > 0) >= count() / 2 - 3)
FROM exchanges_final WHERE service = {service:String} AND NOT failed AND status = 200 AND model = 'gpt-4.1' AND provider = 'openai'`
	want := []any{uint64(healthy), uint64(healthy), uint64(1)}
	must.Agree(t, cmp.Diff(want, w.await(t, sql, service, uint64(healthy))), service, "rows")
}

// await returns the result of sql once its first value is count.
func (w *world) await(t *testing.T, sql, service string, count uint64) []any {
	t.Helper()
	var got []any
	must.Wait(t, fmt.Sprint(service, ": ", count), func() bool { got = w.query(t, sql, service); return got[0] == count }, func() any { return got })
	return got
}

func (w *world) query(t *testing.T, sql, service string) []any {
	t.Helper()
	res := must.Get(w.sink.Query(t.Context(), sql, map[string]string{"service": service}))(t)
	return res.Rows[0]
}
