package spans

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/ingest/otlp"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpoint receives spans over OTLP as a Collector does.
type endpoint struct {
	*httptest.Server
	mu       sync.Mutex
	answers  []func(http.ResponseWriter) // of the next requests; then all are accepted
	requests int
	headers  http.Header
	got      []ptrace.Traces
}

func newEndpoint(t *testing.T, answers ...func(http.ResponseWriter)) *endpoint {
	e := &endpoint{answers: answers}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		zipped, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		req := ptraceotlp.NewExportRequest()
		if err := req.UnmarshalProto(must.Get(io.ReadAll(zipped))(t)); err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%v, %v", r.Header, err)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.requests++
		e.headers = r.Header
		if len(e.answers) > 0 {
			answer := e.answers[0]
			e.answers = e.answers[1:]
			answer(w)
			return
		}
		e.got = append(e.got, req.Traces())
	}))
	t.Cleanup(e.Close)
	return e
}

func status(code int, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		http.Error(w, "why not", code)
	}
}

// lines returns the spans that arrived, as text.
func (e *endpoint) lines() (lines []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, td := range e.got {
		for _, r := range td.ResourceSpans().All() {
			for _, ss := range r.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					lines = append(lines, fmt.Sprintf("%s %s/%s below %q: %s, %d ns, %s %q %v", r.Resource().Attributes().AsRaw(), s.TraceID(), s.SpanID(), s.ParentSpanID(), s.Name(),
						s.EndTimestamp()-s.StartTimestamp(), s.Status().Code(), s.Status().Message(), s.Attributes().AsRaw()))
					for _, ev := range s.Events().All() {
						lines = append(lines, fmt.Sprintf("  %s %v", ev.Name(), ev.Attributes().AsRaw()))
					}
				}
			}
		}
	}
	return lines
}

// start runs an exporter until the test, or what start returns, ends it.
func start(t *testing.T, cfg Config) (e *Exporter, stop func()) {
	t.Helper()
	must.Do(t, cfg.Validate())
	e = must.Get(New(cfg, price.Table{{Model: "m", Input: 2, Output: 10}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry()))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { e.Run(ctx) })
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return e, stop
}

func (e *Exporter) drops(reason string) float64 {
	return testutil.ToFloat64(e.dropped.WithLabelValues(reason))
}

var at = time.Date(2026, 11, 20, 5, 7, 2, 0, time.UTC)

func call(id string) analyzer.Exchange {
	return analyzer.Exchange{ID: id, Labels: event.Labels{Service: "shop"}, StartedAt: at, Duration: time.Second, Model: "m", Status: 200, Origin: event.OriginHook}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	failed := call("x1")
	failed.Labels = event.Labels{Service: "shop", ServiceVersion: "1.2", Environment: "prod", Agent: "planner", Stage: "plan", Run: "r1", User: "u"}
	failed.Trace, failed.Span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	failed.Operation, failed.Provider, failed.Server, failed.Conversation = "chat", "openai", "api.openai.com", "c1"
	failed.Status, failed.Failed, failed.ErrorType, failed.ErrorText = 400, true, "invalid_request_error", strings.Repeat("é", maxText)
	failed.Cause, failed.CauseKnown, failed.RootCause = "orphan_tool_reply", "both", "assistant_rebuilt"
	failed.Attrs = map[string]string{"region": "eu"}
	found := analyzer.Finding{ID: "f1", Exchange: "x1", Fingerprint: "af00", Rule: "orphan_tool_reply", Severity: "reject", Summary: "Message 3 answers no call.", Fix: "Keep the call."}
	healthy := call("x2")
	healthy.InputTokens, healthy.OutputTokens, healthy.CachedTokens, healthy.Stream, healthy.FirstByte = 1000, 100, 10, true, 300*time.Millisecond
	healthy.FinishReason, healthy.ResponseModel = "stop", "m-2026"
	otel, imported := call("x3"), call("x4")
	otel.Origin, imported.Origin = event.OriginOTLP, event.OriginImport
	late := analyzer.Finding{ID: "f2", Exchange: "x0", Labels: event.Labels{Service: "shop"}, Conversation: "c9", Rule: "tool_call_without_reply", ToolName: "read", StoredAt: at}

	s := newEndpoint(t)
	e, stop := start(t, Config{URL: s.URL + "/v1/traces", Headers: "authorization=Bearer%20s3cret, x-a = b"})
	e.Add(&analyzer.Output{Exchanges: []analyzer.Exchange{failed, healthy, otel, imported}, Findings: []analyzer.Finding{found, late}})
	stop()
	must.Agree(t, cmp.Diff([]string{
		`map[deployment.environment.name:prod service.name:shop service.version:1.2] 0af7651916cd43dd8448eb211c80319c/` + spanID("x1").String() + ` below "b7ad6b7169203331": chat m, 1000000000 ns, Error "` +
			strings.Repeat("é", maxText/2) + `…" map[error.type:invalid_request_error gen_ai.agent.name:planner gen_ai.conversation.id:c1 gen_ai.operation.name:chat gen_ai.provider.name:openai gen_ai.request.model:m ` +
			`http.response.status_code:400 llmtap.cause:orphan_tool_reply llmtap.cause.known:both llmtap.exchange:x1 llmtap.root_cause:assistant_rebuilt llmtap.run:r1 llmtap.stage:plan ` +
			`openinference.span.kind:LLM region:eu server.address:api.openai.com user.id:u]`,
		`  llmtap.finding map[llmtap.fix:Keep the call. llmtap.problem:af00 llmtap.rule:orphan_tool_reply llmtap.severity:reject llmtap.summary:Message 3 answers no call.]`,
		`map[service.name:shop] ` + traceID("", &healthy.Labels, "", "x2").String() + `/` + spanID("x2").String() + ` below "": chat m, 1000000000 ns, Unset "" map[gen_ai.operation.name:chat gen_ai.request.model:m ` +
			`gen_ai.response.finish_reasons:[stop] gen_ai.response.model:m-2026 gen_ai.response.time_to_first_chunk:0.3 gen_ai.usage.cache_creation.input_tokens:0 gen_ai.usage.cache_read.input_tokens:10 ` +
			`gen_ai.usage.cost:0.00298 gen_ai.usage.input_tokens:1000 gen_ai.usage.output_tokens:100 http.response.status_code:200 llmtap.exchange:x2 openinference.span.kind:LLM]`,
		`map[service.name:shop] ` + traceID("", &late.Labels, "c9", "x0").String() + `/` + spanID("f2").String() + ` below "` + spanID("x0").String() + `": llmtap.finding tool_call_without_reply, 0 ns, Unset "" ` +
			`map[gen_ai.conversation.id:c9 gen_ai.tool.name:read llmtap.exchange:x0 llmtap.rule:tool_call_without_reply]`,
	}, s.lines()))
	if s.headers.Get("Authorization") != "Bearer s3cret" || s.headers.Get("X-A") != "b" {
		t.Error(s.headers)
	}
	must.Equal(t, testutil.ToFloat64(e.exported), 3, "exported")

	// A Collector that sends the spans back causes no calls.
	mapped := otlp.NewMapper(otlp.Config{}).Traces(s.got[0])
	must.Equal(t, len(mapped.Events), 0, "events")
	must.Equal(t, mapped.Others, 3, "other spans")
}

func TestRefusals(t *testing.T) {
	for name, f := range map[string]struct {
		answers  []func(http.ResponseWriter)
		requests int
		exported float64
		refused  float64
	}{
		"overloaded, then accepted":  {[]func(http.ResponseWriter){status(429), status(503, "Retry-After", "1"), status(502)}, 4, 2, 0},
		"a wrong key":                {[]func(http.ResponseWriter){status(401)}, 1, 0, 2},
		"a redirect":                 {[]func(http.ResponseWriter){status(307, "Location", "/other")}, 1, 0, 2},
		"closed without an answer":   {[]func(http.ResponseWriter){func(http.ResponseWriter) { panic(http.ErrAbortHandler) }}, 2, 2, 0},
		"an answer that is no proto": {[]func(http.ResponseWriter){func(w http.ResponseWriter) { fmt.Fprint(w, "ok") }}, 1, 2, 0},
		"one of two accepted": {[]func(http.ResponseWriter){func(w http.ResponseWriter) {
			r := ptraceotlp.NewExportResponse()
			r.PartialSuccess().SetRejectedSpans(1)
			_, _ = w.Write(must.Get(r.MarshalProto())(t))
		}}, 1, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newEndpoint(t, f.answers...)
			e, _ := start(t, Config{URL: s.URL})
			e.Add(&analyzer.Output{Exchanges: []analyzer.Exchange{call("a"), call("b")}})
			must.Wait(t, "both calls end", func() bool { return testutil.ToFloat64(e.exported)+e.drops(reasonRefused) >= 2 })
			s.mu.Lock()
			defer s.mu.Unlock()
			must.Equal(t, s.requests, f.requests, "requests")
			must.Equal(t, testutil.ToFloat64(e.exported), f.exported, "exported")
			must.Equal(t, e.drops(reasonRefused), f.refused, "refused")
		})
	}
}

// An endpoint that hangs does not hold up storing, and costs what does not fit.
func TestHanging(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	s := newEndpoint(t)
	s.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released })
	t.Cleanup(func() { close(released) })
	e, stop := start(t, Config{URL: s.URL})
	rows := &analyzer.Output{}
	for i := range maxSend {
		rows.Exchanges = append(rows.Exchanges, call(fmt.Sprint(i)))
	}
	e.Add(rows)
	const more = 2 * maxSpans / maxSend
	for range more {
		e.Add(rows)
	}
	if e.drops(reasonFull) == 0 { // two batches of at most maxSpans are kept
		t.Error("nothing was dropped")
	}
	stop()
	must.Equal(t, e.drops(reasonFull)+e.drops(reasonShutdown), (more+1)*maxSend, "dropped")
}

func TestConfig(t *testing.T) {
	for cfg, want := range map[Config]string{
		{URL: "localhost:4318"}:                                 "url: is not an address",
		{Headers: "a=b"}:                                        "url: is empty",
		{URL: "http://h/v1/traces", Headers: "s3cret"}:          "headers: header 1 is not as name=value",
		{URL: "http://h", Headers: "a=b,c=%zz"}:                 "headers: header 2 is not as name=value",
		{URL: "http://h", Headers: "a=%0d%0aX:%20y"}:            "headers: header 1 is not as name=value",
		{URL: "http://h", Headers: "a=b", HeadersFile: "/file"}: "headers, headers_file: both are set",
	} {
		err := cfg.Validate()
		must.Fail(t, err, want, cfg)
		if strings.Contains(fmt.Sprint(err), "s3cret") {
			t.Error("a secret is quoted")
		}
	}
	_, err := New(Config{URL: "http://h", HeadersFile: "/no such file"}, nil, nil, prometheus.NewRegistry())
	must.Fail(t, err, "read traces.headers_file", "no such file")
}
