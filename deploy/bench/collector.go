package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/deploy/bench/process"
	"github.com/llmtap/llmtap/sinks/chdb"
)

const (
	collectorAddr = "127.0.0.1:14317"
	builder       = "go.opentelemetry.io/collector/cmd/builder@v0.161.0"

	exportBytes  = 500_000 // bodies of one request of an exporter
	exportsAhead = 4
)

//go:embed builder.yaml
var builderYAML []byte

//go:embed collector.yaml
var collectorYAML []byte

// buildCollector builds the collector with its own builder, unless it is in the cache already, and returns its path.
func buildCollector(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "otelcol-bench-0.161.0")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	fmt.Fprintln(os.Stderr, "building the OpenTelemetry Collector, which takes some minutes")
	src := filepath.Join(dir, "otelcol-src")
	if err := os.MkdirAll(src, 0o755); err != nil {
		return "", err
	}
	file := filepath.Join(src, "builder.yaml")
	if err := os.WriteFile(file, builderYAML, 0o644); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "run", builder, "--config", file)
	cmd.Dir = src
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the collector: %w\n%s", err, out)
	}
	return binary, os.Rename(filepath.Join(src, "dist", "otelcol-bench"), binary)
}

// measureCollector exports a workload to a fresh collector, which inserts so many spans at once. See export for alone, and
// index for words.
func measureCollector(ctx context.Context, binary, dir string, w load.Workload, spans int, alone bool, words string) (*result, error) {
	cfg := chdb.Default()
	cfg.Dir = filepath.Join(dir, "clickhouse")
	engine, err := chdb.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { _ = engine.Close(context.WithoutCancel(ctx)) }() // the data is removed
	child, err := process.In("engine", cfg.Dir)
	if err != nil {
		return nil, err
	}
	store, err := openStore(engine.DSN())
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }() // used for reading only
	dsn, err := url.Parse(engine.DSN())
	if err != nil {
		return nil, err
	}
	password, _ := dsn.User.Password()
	config := filepath.Join(dir, "collector.yaml")
	if err := os.WriteFile(config, collectorYAML, 0o600); err != nil {
		return nil, err
	}
	queue := filepath.Join(dir, "queue")
	cmd, stop, err := process.Start(ctx, filepath.Join(dir, "collector.log"), append(os.Environ(),
		"BENCH_QUEUE="+queue, "BENCH_ENDPOINT=http://"+dsn.Host+"?compress=none&materialize_skip_indexes_on_insert=0", "BENCH_USER="+dsn.User.Username(), "BENCH_PASSWORD="+password,
		"BENCH_DATABASE="+strings.TrimPrefix(dsn.Path, "/"), "BENCH_BATCH="+strconv.Itoa(spans),
	), binary, "--config", config)
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := listening(ctx, collectorAddr); err != nil {
		return nil, fmt.Errorf("%w; see %s", err, filepath.Join(dir, "collector.log"))
	}
	if err := index(ctx, engine.DSN(), words, false); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(collectorAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing is in flight
	const stored = "SELECT toInt64(count()) FROM otel_traces"
	s := subject{
		processes: []process.Process{{Name: "collector", PID: cmd.Process.Pid}, child}, store: store, queue: queue,
		poll: stored, stored: stored, double: "SELECT toInt64(count() - uniqExact(TraceId, SpanId)) FROM otel_traces",
		search: search("otel_traces", theirBody),
	}
	r := &result{Side: "collector"}
	return r, s.measure(ctx, r, func(sent *published) error { return export(ctx, grpcExporter(conn), w, sent, alone) }, func(int) {})
}

// An exporter sends spans.
type exporter func(context.Context, ptraceotlp.ExportRequest) error

func grpcExporter(conn *grpc.ClientConn) exporter {
	client := ptraceotlp.NewGRPCClient(conn)
	return func(ctx context.Context, spans ptraceotlp.ExportRequest) error {
		_, err := client.Export(ctx, spans)
		return err
	}
}

// export sends the calls of w as spans: two requests of exportBytes at a time or, if each call is alone in its request, 32.
func export(ctx context.Context, send exporter, w load.Workload, sent *published, alone bool) error {
	exports := make(chan ptrace.Traces, exportsAhead)
	g, ctx := errgroup.WithContext(ctx)
	concurrent := 2
	if alone {
		concurrent = 32
	}
	for range concurrent {
		g.Go(func() error {
			for traces := range exports {
				if err := send(ctx, ptraceotlp.NewExportRequestFromTraces(traces)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(exports)
		traces, size := newTraces(), 0
		enqueue := func() bool {
			select {
			case exports <- traces:
			case <-ctx.Done():
				return false
			}
			traces, size = newTraces(), 0
			return true
		}
		err := w.Calls(func(c *load.Call) bool {
			sent.add(c)
			span(c, traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans().AppendEmpty())
			size += c.Size()
			return size < exportBytes && !alone || enqueue()
		})
		if err == nil && size > 0 {
			enqueue()
		}
		return err
	})
	return g.Wait()
}

func newTraces() ptrace.Traces {
	t := ptrace.NewTraces()
	rs := t.ResourceSpans().AppendEmpty()
	for k, v := range map[string]string{"service.name": "coder", "service.version": "1.4.2", "deployment.environment.name": "bench", "service.instance.id": "bench"} {
		rs.Resource().Attributes().PutStr(k, v)
	}
	rs.ScopeSpans().AppendEmpty().Scope().SetName("bench")
	return t
}

// span writes c to s, with the names of the semantic conventions.
func span(c *load.Call, s ptrace.Span) {
	id := pcommon.TraceID([]byte(strings.ReplaceAll(c.ID, "-", ""))[:16])
	s.SetTraceID(id)
	s.SetSpanID(pcommon.SpanID([]byte(strings.ReplaceAll(c.ID, "-", ""))[24:32]))
	s.SetName("chat gpt-4.1")
	s.SetKind(ptrace.SpanKindClient)
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(c.At))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(c.At.Add(900 * time.Millisecond)))
	a := s.Attributes()
	a.PutStr("gen_ai.operation.name", "chat")
	a.PutStr("gen_ai.provider.name", "openai")
	a.PutStr("gen_ai.request.model", "gpt-4.1")
	a.PutStr("gen_ai.agent.name", "coder")
	a.PutStr("gen_ai.conversation.id", c.Labels.Conversation)
	a.PutInt("gen_ai.usage.input_tokens", 2000)
	a.PutInt("gen_ai.usage.output_tokens", 90)
	a.PutInt("http.response.status_code", int64(c.Status))
	a.PutStr("gen_ai.input.messages", string(c.Request))
	a.PutStr("gen_ai.output.messages", string(c.Response))
}

// listening waits until something listens on addr.
func listening(ctx context.Context, addr string) error {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr); err == nil {
			return c.Close()
		}
	}
	return errors.New("nothing listens on " + addr)
}
