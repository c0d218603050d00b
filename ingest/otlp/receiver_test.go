package otlp

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // of TestGRPC
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/llmtap/llmtap/ingest/httpbody"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func newReceiver(t *testing.T, s *store, budget int64) (*Receiver, http.Handler, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	r := New(defaultConfig(), Options{Publish: s.publish, Remember: s.remember, Recall: s.recall, Budget: httpbody.NewBudget(budget), Logger: slog.New(slog.DiscardHandler)}, reg)
	mux := http.NewServeMux()
	r.Register(mux)
	return r, mux, reg
}

func post(t *testing.T, h http.Handler, path, media, encoding string, body []byte) *httptest.ResponseRecorder {
	t.Helper()
	q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
	q.Header.Set("Content-Type", media)
	if encoding != "" {
		q.Header.Set("Content-Encoding", encoding)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q)
	return w
}

func zip(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

func encoded(t *testing.T, spans ...testSpan) (inProto, inJSON []byte) {
	t.Helper()
	q := ptraceotlp.NewExportRequestFromTraces(payload(t, spans...))
	inProto = must.Get(q.MarshalProto())(t)
	inJSON = must.Get(q.MarshalJSON())(t)
	return inProto, inJSON
}

func TestHTTP(t *testing.T) {
	inProto, inJSON := encoded(t, testSpan{id: 2, attrs: current}, testSpan{attrs: current}, testSpan{id: 4, attrs: m{}})
	f := func(media, encoding string, body []byte) {
		t.Helper()
		s := new(store)
		_, h, _ := newReceiver(t, s, 1<<20)
		w := post(t, h, tracesPath, media, encoding, body)
		answer := ptraceotlp.NewExportResponse()
		read := answer.UnmarshalProto
		if strings.HasPrefix(media, "application/json") {
			read = answer.UnmarshalJSON
		}
		if err := read(w.Body.Bytes()); err != nil || w.Code != 200 || !strings.HasPrefix(media, w.Header().Get("Content-Type")) {
			t.Fatalf("%s %s: %d, %v", media, encoding, w.Code, err)
		}
		if n, why := answer.PartialSuccess().RejectedSpans(), answer.PartialSuccess().ErrorMessage(); len(s.events) != 2 || n != 1 || why == "" {
			t.Errorf("%s %s: %d events, %d rejected: %s", media, encoding, len(s.events), n, why)
		}
	}
	f("application/x-protobuf", "", inProto)
	f("application/x-protobuf", "gzip", zip(inProto))
	f("application/json", "", inJSON)
	f("application/json; charset=utf-8", "gzip", zip(inJSON))
}

// Refusals have the status, the body and the Retry-After that the specification of OTLP requires.
func TestHTTPRefusals(t *testing.T) {
	inProto, inJSON := encoded(t, testSpan{id: 2, attrs: current})
	f := func(s *store, budget int64, media, encoding string, body []byte, code int, class codes.Code, retry bool) {
		t.Helper()
		_, h, _ := newReceiver(t, s, budget)
		w := post(t, h, tracesPath, media, encoding, body)
		var p spb.Status
		var err error
		if w.Header().Get("Content-Type") == "application/json" {
			err = protojson.Unmarshal(w.Body.Bytes(), &p)
		} else {
			err = proto.Unmarshal(w.Body.Bytes(), &p)
		}
		if w.Code != code || err != nil || codes.Code(p.GetCode()) != class || p.GetMessage() == "" || (w.Header().Get("Retry-After") != "") != retry || len(s.events) > 0 { //nolint:gosec // a code
			t.Errorf("%d %v %q, Retry-After %q, %v", w.Code, codes.Code(p.GetCode()), p.GetMessage(), w.Header().Get("Retry-After"), err) //nolint:gosec // a code
		}
	}
	const x, j = "application/x-protobuf", "application/json"
	f(new(store), 1<<20, x, "", []byte("\xff\xff"), 400, codes.InvalidArgument, false)
	f(new(store), 1<<20, j, "", []byte("{"), 400, codes.InvalidArgument, false)
	f(new(store), 1<<20, x, "gzip", inProto, 400, codes.InvalidArgument, false)
	f(new(store), 1<<20, x, "br", inProto, 415, codes.InvalidArgument, false)
	f(new(store), 1<<20, "text/plain", "", inProto, 415, codes.InvalidArgument, false)
	f(new(store), 100, x, "", inProto, 429, codes.ResourceExhausted, true)
	f(new(store), 64<<20, x, "gzip", zip(make([]byte, 4<<20)), 413, codes.InvalidArgument, false)
	f(&store{err: errors.New("NATS is unreachable")}, 1<<20, x, "", inProto, 503, codes.Unavailable, true)
	f(&store{err: errors.New("NATS is unreachable")}, 1<<20, j, "", inJSON, 503, codes.Unavailable, true)
}

// A call whose events can never be stored is rejected, once.
func TestRejections(t *testing.T) {
	s := &store{rejected: []jetstream.Rejection{{Index: 0, Err: errors.New("too large")}, {Index: 1, Err: errors.New("too large")}}}
	r, _, reg := newReceiver(t, s, 1<<20)
	answer, err := r.traces(t.Context(), payload(t, testSpan{id: 2, attrs: current}, testSpan{id: 3, attrs: current}))
	if err != nil || answer.rejected != 1 || answer.why != "too large" {
		t.Errorf("%+v, %v", answer, err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	must.Equal(t, testutil.ToFloat64(r.m.published.WithLabelValues(signalTraces)), 1, "published")
}

// Metrics are accepted, so that an exporter of all signals reports no errors.
func TestMetricsAccepted(t *testing.T) {
	s := new(store)
	_, h, _ := newReceiver(t, s, 1<<20)
	if w := post(t, h, metricsPath, "application/x-protobuf", "", []byte("\x0a\x00")); w.Code != 200 || w.Body.Len() > 2 || len(s.events) > 0 {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	ld := plog.NewLogs()
	ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr("hello")
	b := must.Get(plogotlp.NewExportRequestFromLogs(ld).MarshalProto())(t)
	if w := post(t, h, logsPath, "application/x-protobuf", "", b); w.Code != 200 || len(s.events) > 0 {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// serveGRPC serves a receiver on loopback, and returns a connection to it.
func serveGRPC(t *testing.T, s *store, budget int64) *grpc.ClientConn {
	t.Helper()
	_, h, _ := newReceiver(t, s, budget)
	srv := httptest.NewUnstartedServer(h)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	conn := must.Get(grpc.NewClient(srv.Listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestGRPC(t *testing.T) {
	s := new(store)
	conn := serveGRPC(t, s, 1<<20)
	traces := ptraceotlp.NewExportRequestFromTraces(payload(t, testSpan{id: 2, attrs: current}, testSpan{attrs: current}))
	for i, opts := range [][]grpc.CallOption{nil, {grpc.UseCompressor("gzip")}} {
		answer, err := ptraceotlp.NewGRPCClient(conn).Export(t.Context(), traces, opts...)
		must.Do(t, err)
		if len(s.events) != 2*(i+1) || answer.PartialSuccess().RejectedSpans() != 1 || answer.PartialSuccess().ErrorMessage() == "" {
			t.Errorf("%d events, %d rejected, %v", len(s.events), answer.PartialSuccess().RejectedSpans(), err)
		}
	}
	logs := must.Get(plogotlp.NewGRPCClient(conn).Export(t.Context(), plogotlp.NewExportRequest()))(t)
	must.Equal(t, logs.PartialSuccess().RejectedLogRecords(), 0, "rejected")
	must.Do(t, conn.Invoke(t.Context(), metricsMethod, &emptypb.Empty{}, &emptypb.Empty{}))
	err := conn.Invoke(t.Context(), "/other.Service/Export", &emptypb.Empty{}, &emptypb.Empty{})
	must.Equal(t, status.Code(err), codes.Unimplemented, "%v: code", err)
}

// Exporters retry what is refused, and are told when.
func TestGRPCRefusals(t *testing.T) {
	f := func(s *store, budget int64, want codes.Code) {
		t.Helper()
		conn := serveGRPC(t, s, budget)
		_, err := ptraceotlp.NewGRPCClient(conn).Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(payload(t, testSpan{id: 2, attrs: current})))
		retry := false
		for _, d := range status.Convert(err).Details() {
			info, ok := d.(*errdetails.RetryInfo)
			retry = ok && info.GetRetryDelay().AsDuration() > 0
		}
		if status.Code(err) != want || !retry {
			t.Errorf("got %v, retry %v; want %v", err, retry, want)
		}
	}
	f(new(store), 100, codes.ResourceExhausted)
	f(&store{err: errors.New("NATS is unreachable")}, 1<<20, codes.Unavailable)
	f(&store{err: io.ErrUnexpectedEOF}, 1<<20, codes.Unavailable)
}
