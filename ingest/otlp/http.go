package otlp

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/llmtap/llmtap/ingest/httpbody"
)

// Paths of the signals.
const (
	TracesPath  = "/v1/traces"
	LogsPath    = "/v1/logs"
	MetricsPath = "/v1/metrics"
)

const (
	mediaProto = "application/x-protobuf"
	mediaJSON  = "application/json"
)

// Register adds the paths of OTLP over HTTP to mux. The caller checks tokens, hosts and origins.
func (r *Receiver) Register(mux *http.ServeMux) {
	mux.HandleFunc("POST "+TracesPath, r.serveTraces)
	mux.HandleFunc("POST "+LogsPath, r.serveLogs)
	mux.HandleFunc("POST "+MetricsPath, r.serveMetrics)
}

// An answer is the response of a signal.
type answer interface {
	MarshalProto() ([]byte, error)
	MarshalJSON() ([]byte, error)
}

func (r *Receiver) serveTraces(w http.ResponseWriter, hr *http.Request) {
	r.serve(w, hr, signalTraces, func(ctx context.Context, body []byte, media string) (answer, error) {
		q := ptraceotlp.NewExportRequest()
		if err := unmarshal(body, media, q.UnmarshalProto, q.UnmarshalJSON); err != nil {
			return nil, err
		}
		return r.traces(ctx, q.Traces())
	})
}

func (r *Receiver) serveLogs(w http.ResponseWriter, hr *http.Request) {
	r.serve(w, hr, signalLogs, func(ctx context.Context, body []byte, media string) (answer, error) {
		q := plogotlp.NewExportRequest()
		if err := unmarshal(body, media, q.UnmarshalProto, q.UnmarshalJSON); err != nil {
			return nil, err
		}
		return r.logs(ctx, q.Logs())
	})
}

// serveMetrics accepts metrics without decoding them. The response is that of traces, which is empty too.
func (r *Receiver) serveMetrics(w http.ResponseWriter, hr *http.Request) {
	r.serve(w, hr, signalMetrics, func(context.Context, []byte, string) (answer, error) {
		r.metricsArrived()
		return ptraceotlp.NewExportResponse(), nil
	})
}

func unmarshal(body []byte, media string, fromProto, fromJSON func([]byte) error) error {
	from, deep := fromProto, tooDeep(body, typeRequest, 0)
	if media == mediaJSON {
		from, deep = fromJSON, tooDeepJSON(body)
	}
	err := errNesting
	if !deep {
		err = from(body)
	}
	if err != nil {
		return &httpbody.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("decode the payload: %v", err)}
	}
	return nil
}

// serve reads a payload, and writes what export returns for it in the format of the payload.
func (r *Receiver) serve(w http.ResponseWriter, hr *http.Request, signal string, export func(ctx context.Context, body []byte, media string) (answer, error)) {
	media, _, _ := mime.ParseMediaType(hr.Header.Get("Content-Type"))
	if media != mediaJSON && media != mediaProto {
		r.refuse(w, signal, mediaProto, &httpbody.Error{
			Status: http.StatusUnsupportedMediaType, Message: fmt.Sprintf("Content-Type %.40q is not %s or %s", media, mediaProto, mediaJSON),
		})
		return
	}
	body, err := httpbody.Read(hr, r.o.Budget)
	if err != nil {
		r.refuse(w, signal, media, err)
		return
	}
	defer body.Release()
	if !body.Grow(decoded * int64(len(body.Bytes))) {
		r.refuse(w, signal, media, httpbody.ErrBehind)
		return
	}
	out, err := export(hr.Context(), body.Bytes, media)
	if err != nil {
		r.refuse(w, signal, media, err)
		return
	}
	marshal := out.MarshalProto
	if media == mediaJSON {
		marshal = out.MarshalJSON
	}
	b, err := marshal()
	if err != nil {
		r.refuse(w, signal, media, err)
		return
	}
	w.Header().Set("Content-Type", media)
	_, _ = w.Write(b) // fails only if the exporter disconnected
}

// refuse writes err as google.rpc.Status, as the specification of OTLP requires. Exporters retry after 429 and 503.
func (r *Receiver) refuse(w http.ResponseWriter, signal, media string, err error) {
	s, code := r.status(signal, err)
	p := s.Proto()
	marshal := proto.Marshal
	if media == mediaJSON {
		marshal = protojson.Marshal
	}
	b, err := marshal(p)
	if err != nil {
		http.Error(w, err.Error(), code)
		return
	}
	w.Header().Set("Content-Type", media)
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", httpbody.RetryAfter)
	}
	w.WriteHeader(code)
	_, _ = w.Write(b) // fails only if the exporter disconnected
}

// status counts a refused payload and returns its gRPC status and its HTTP status.
func (r *Receiver) status(signal string, err error) (*status.Status, int) {
	code := http.StatusServiceUnavailable
	if refused, ok := errors.AsType[*httpbody.Error](err); ok {
		code = refused.Status
	}
	reason, class := refusedMalformed, codes.InvalidArgument
	switch code {
	case http.StatusTooManyRequests:
		reason, class = refusedBehind, codes.ResourceExhausted
	case http.StatusServiceUnavailable:
		reason, class = refusedUnavailable, codes.Unavailable
	}
	r.m.refused.WithLabelValues(signal, reason).Inc()
	return status.New(class, err.Error()), code
}
