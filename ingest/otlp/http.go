package otlp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/llmtap/llmtap/ingest/httpbody"
)

// Paths of the signals over HTTP.
const (
	tracesPath  = "/v1/traces"
	logsPath    = "/v1/logs"
	metricsPath = "/v1/metrics"
)

const (
	mediaProto = "application/x-protobuf"
	mediaJSON  = "application/json"
)

// Register adds the paths of OTLP over HTTP and the methods of gRPC to mux. The caller checks tokens, hosts and origins, and
// serves HTTP/2, also without TLS.
func (r *Receiver) Register(mux *http.ServeMux) {
	for _, s := range []struct {
		signal string
		paths  []string
		export exporter
	}{
		{signalTraces, []string{tracesPath, tracesMethod}, func(ctx context.Context, body []byte, media string) (answer, error) {
			td, err := decode(body, media, (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces, (&ptrace.JSONUnmarshaler{}).UnmarshalTraces)
			if err != nil {
				return answer{}, err
			}
			return r.traces(ctx, td)
		}},
		{signalLogs, []string{logsPath, logsMethod}, func(ctx context.Context, body []byte, media string) (answer, error) {
			ld, err := decode(body, media, (&plog.ProtoUnmarshaler{}).UnmarshalLogs, (&plog.JSONUnmarshaler{}).UnmarshalLogs)
			if err != nil {
				return answer{}, err
			}
			return r.logs(ctx, ld)
		}},
		{signalMetrics, []string{metricsPath, metricsMethod}, func(context.Context, []byte, string) (answer, error) {
			r.metricsArrived() // without decoding them
			return answer{}, nil
		}},
	} {
		for _, path := range s.paths {
			mux.HandleFunc("POST "+path, func(w http.ResponseWriter, hr *http.Request) { r.serve(w, hr, s.signal, s.export) })
		}
	}
}

// An exporter stores the items of a payload in the format media.
type exporter func(ctx context.Context, body []byte, media string) (answer, error)

// An answer is the response to a payload of which some items are rejected. The zero value rejects none.
type answer struct {
	items    string // their name in JSON
	rejected int
	why      string
}

// marshal returns the answer as ExportTracePartialSuccess or ExportLogsPartialSuccess, whose fields have the same numbers, in the
// response of the signal.
func (a answer) marshal(media string) []byte {
	if media == mediaJSON {
		partial := map[string]string{}
		if a.rejected > 0 {
			partial[a.items], partial["errorMessage"] = strconv.Itoa(a.rejected), a.why
		}
		b, _ := json.Marshal(map[string]any{"partialSuccess": partial}) // never fails
		return b
	}
	if a.rejected == 0 {
		return nil
	}
	return appendMessage(nil, 1, appendMessage(appendNumber(nil, 1, a.rejected), 2, []byte(a.why)))
}

func appendNumber(b []byte, field protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(n)) //nolint:gosec // never negative
}

// appendMessage appends a field that is a message, or a text.
func appendMessage(b []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), message)
}

// decode decodes a payload. The messages of requests have the fields of the data that a file would contain.
func decode[T any](body []byte, media string, fromProto, fromJSON func([]byte) (T, error)) (data T, err error) {
	switch {
	case media != mediaJSON:
		data, err = fromProto(body)
	case tooDeep(body):
		err = errNesting
	default:
		data, err = fromJSON(body)
	}
	if err != nil {
		return data, &httpbody.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("decode the payload: %v", err)}
	}
	return data, nil
}

// serve reads a payload, and writes what export returns for it in the format of the payload.
func (r *Receiver) serve(w http.ResponseWriter, hr *http.Request, signal string, export exporter) {
	media, _, _ := mime.ParseMediaType(hr.Header.Get("Content-Type"))
	if media == mediaGRPC+"+proto" {
		media = mediaGRPC
	}
	a, err := r.receive(hr, media, export)
	switch {
	case err != nil && media == mediaGRPC:
		r.refused(signal, err).writeGRPC(w)
	case err != nil:
		r.refused(signal, err).write(w, media)
	case media == mediaGRPC:
		writeGRPC(w, a.marshal(media))
	default:
		w.Header().Set("Content-Type", media)
		_, _ = w.Write(a.marshal(media)) // fails only if the exporter disconnected
	}
}

func (r *Receiver) receive(hr *http.Request, media string, export exporter) (answer, error) {
	if media != mediaJSON && media != mediaProto && media != mediaGRPC {
		return answer{}, &httpbody.Error{
			Status: http.StatusUnsupportedMediaType, Message: fmt.Sprintf("Content-Type %.40q is not %s or %s", media, mediaProto, mediaJSON),
		}
	}
	body, err := httpbody.Read(hr, r.o.Budget)
	if err != nil {
		return answer{}, err
	}
	defer body.Release()
	payload := body.Bytes
	if media == mediaGRPC {
		if payload, err = unframe(body, hr.Header.Get("Grpc-Encoding")); err != nil {
			return answer{}, err
		}
	}
	if !body.Grow(decoded * int64(len(payload))) {
		return answer{}, httpbody.ErrBehind
	}
	return export(hr.Context(), payload, media)
}

// A refusal is the answer to a payload that is not accepted: a google.rpc.Status, as the specification of OTLP requires.
type refusal struct {
	status  int // of HTTP
	code    int // of gRPC
	message string
}

// Codes of gRPC.
const (
	invalidArgument   = 3
	resourceExhausted = 8
	unavailable       = 14
)

// refused counts a refused payload, and returns its answer.
func (r *Receiver) refused(signal string, err error) refusal {
	s := refusal{http.StatusServiceUnavailable, unavailable, err.Error()}
	if refused, ok := errors.AsType[*httpbody.Error](err); ok {
		s.status = refused.Status
	}
	reason := refusedUnavailable
	switch s.status {
	case http.StatusTooManyRequests:
		reason, s.code = refusedBehind, resourceExhausted
	case http.StatusServiceUnavailable:
	default:
		reason, s.code = refusedMalformed, invalidArgument
	}
	r.m.refused.WithLabelValues(signal, reason).Inc()
	return s
}

// retry reports whether the exporter is to send the payload again.
func (s refusal) retry() bool { return s.code != invalidArgument }

func (s refusal) write(w http.ResponseWriter, media string) {
	b := s.marshal()
	if media == mediaJSON {
		b, _ = json.Marshal(map[string]any{"code": s.code, "message": s.message}) // never fails
	} else {
		media = mediaProto
	}
	w.Header().Set("Content-Type", media)
	if s.retry() {
		w.Header().Set("Retry-After", httpbody.RetryAfter)
	}
	w.WriteHeader(s.status)
	_, _ = w.Write(b) // fails only if the exporter disconnected
}

// marshal returns s as a google.rpc.Status, with a google.rpc.RetryInfo of one second, without which exporters do not retry
// RESOURCE_EXHAUSTED.
func (s refusal) marshal() []byte {
	b := appendMessage(appendNumber(nil, 1, s.code), 2, []byte(s.message))
	if s.retry() {
		info := appendMessage(nil, 1, appendNumber(nil, 1, 1)) // retry_delay.seconds
		b = appendMessage(b, 3, appendMessage(appendMessage(nil, 1, []byte("type.googleapis.com/google.rpc.RetryInfo")), 2, info))
	}
	return b
}
