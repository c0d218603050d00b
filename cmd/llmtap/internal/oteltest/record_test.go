package oteltest

import (
	"compress/gzip"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

var record = flag.String("record", "", "write the payloads of six calls of each agent to this `directory` instead; the tests of ingest/otlp read them from its testdata")

// startRecorder runs a receiver until the test ends, and then writes the spans that it received to a file, without what
// describes this machine.
func startRecorder(t *testing.T, file string) (url string) {
	t.Helper()
	all := ptrace.NewTraces()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		b, err := io.ReadAll(body)
		if err != nil || r.URL.Path != "/v1/traces" {
			return
		}
		q := ptraceotlp.NewExportRequest()
		read := q.UnmarshalProto
		if strings.Contains(r.Header.Get("Content-Type"), "json") {
			read = q.UnmarshalJSON
		}
		if err := read(b); err != nil {
			t.Error(err)
			return
		}
		q.Traces().ResourceSpans().MoveAndAppendTo(all.ResourceSpans())
	}))
	t.Cleanup(func() {
		srv.Close()
		for _, rs := range all.ResourceSpans().All() {
			rs.Resource().Attributes().RemoveIf(func(k string, _ pcommon.Value) bool {
				return !strings.HasPrefix(k, "service.") && !strings.HasPrefix(k, "deployment.")
			})
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					message, _, _ := strings.Cut(s.Status().Message(), "Traceback")
					s.Status().SetMessage(message)
					for _, e := range s.Events().All() {
						e.Attributes().Remove("exception.stacktrace")
					}
				}
			}
		}
		b, err := (&ptrace.JSONMarshaler{}).MarshalTraces(all)
		if err == nil {
			err = os.WriteFile(file, append(b, '\n'), 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	})
	return srv.URL
}
