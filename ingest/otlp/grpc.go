package otlp

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/url"
	"strconv"

	"github.com/llmtap/llmtap/ingest/httpbody"
)

const mediaGRPC = "application/grpc"

// Methods of gRPC to which exporters send the signals.
const (
	tracesMethod  = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	logsMethod    = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
	metricsMethod = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
)

// prefix is the size of what precedes a message: 1 if it is compressed, else 0, and its length in four bytes. See
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, as of November 2026.
const prefix = 5

// unframe returns the decompressed message of a call, which has one. Its memory is released with the body.
func unframe(body *httpbody.Body, encoding string) ([]byte, error) {
	b := body.Bytes
	if len(b) < prefix || int64(binary.BigEndian.Uint32(b[1:])) != int64(len(b)-prefix) {
		return nil, &httpbody.Error{Status: http.StatusBadRequest, Message: "the call does not consist of one message"}
	}
	if b[0] == 0 {
		return b[prefix:], nil
	}
	return body.Inflate(encoding, b[prefix:])
}

// writeGRPC answers a call with a message.
func writeGRPC(w http.ResponseWriter, message []byte) {
	w.Header().Set("Content-Type", mediaGRPC)
	w.Header().Set("Trailer", "Grpc-Status")
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) //nolint:gosec // answers are short
	_, _ = w.Write(append(b, message...))                               // fails only if the exporter disconnected
	w.Header().Set("Grpc-Status", "0")
}

// writeGRPC answers a call with s. Without a message, the headers are the trailers.
func (s refusal) writeGRPC(w http.ResponseWriter) {
	w.Header().Set("Content-Type", mediaGRPC)
	w.Header().Set("Grpc-Status", strconv.Itoa(s.code))
	w.Header().Set("Grpc-Message", url.PathEscape(s.message))
	w.Header().Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(s.marshal()))
}
