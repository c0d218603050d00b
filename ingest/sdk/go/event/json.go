package event

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends e as an object of POST /v1/events, on one line. Its members are named as the headers, in snake case and
// without their prefix; texts are neither escaped as in headers nor truncated. The body is the member
// body if it is valid UTF-8, and otherwise body_base64. The origin and parts of bodies are not encoded: the receiver
// determines them.
func (e *Event) AppendJSON(dst []byte) []byte {
	w := jsonWriter{dst}
	w.key("kind")
	w.b[len(w.b)-len(`,"kind":`)] = '{'
	w.string(e.Kind.String())
	w.text("exchange", e.Exchange)
	if !e.Time.IsZero() {
		w.text("time", e.Time.UTC().Format(time.RFC3339Nano))
	}
	switch e.Kind {
	case Request:
		w.text("url", withoutSecrets(e.URL))
		w.text("method", e.Method)
		w.text("api_version", e.APIVersion)
		w.text("account", e.Account)
		w.uint("retry", uint64(max(e.Retry, 0)))
		w.text("code", e.Code)
		w.text("traceparent", e.Traceparent)
	case Response:
		w.raw("status", itoa(e.Status))
		w.text("error", e.Error)
		w.raw("duration_ms", millis(e.Duration))
		w.raw("first_byte_ms", millis(e.FirstByte))
		w.text("provider_request_id", e.ProviderRequestID)
		w.text("rate_limits", e.RateLimits)
	case Run:
		w.text("run_status", e.RunStatus)
	case Tool:
		w.text("tool_call_id", e.ToolCallID)
		w.text("tool_status", e.ToolStatus)
	case Hook:
		w.text("hook_status", e.HookStatus)
	case KindUnknown: // has no members of its own
	}
	w.text("service", e.Labels.Service)
	w.text("service_version", e.Labels.ServiceVersion)
	w.text("environment", e.Labels.Environment)
	w.text("agent", e.Labels.Agent)
	w.text("stage", e.Labels.Stage)
	w.text("conversation", e.Labels.Conversation)
	w.text("run", e.Labels.Run)
	w.text("user", e.Labels.User)
	w.text("instance", e.Instance)
	w.uint("seq", e.Seq)
	w.uint("dropped", e.Dropped)
	w.uint("uncaptured", e.Uncaptured)
	w.text("uncaptured_by", e.UncapturedBy)
	w.attrs(e.Attrs)
	w.text("capture", e.Capture)
	if e.Degraded {
		w.raw("degraded", "true")
	}
	w.text("content_type", e.ContentType)
	w.text("content_encoding", e.ContentEncoding)
	if e.stubbed() && e.BodyBytes > len(e.Body) {
		w.raw("body_bytes", itoa(e.BodyBytes))
	}
	w.text("sdk", e.SDK)
	w.body(e.Body)
	return append(w.b, '}')
}

// jsonWriter appends members to an object.
type jsonWriter struct{ b []byte }

func (w *jsonWriter) key(k string) {
	w.b = append(w.b, ',', '"')
	w.b = append(w.b, k...)
	w.b = append(w.b, '"', ':')
}

func (w *jsonWriter) raw(k, v string) {
	w.key(k)
	w.b = append(w.b, v...)
}

func (w *jsonWriter) uint(k string, n uint64) {
	if n != 0 {
		w.key(k)
		w.b = strconv.AppendUint(w.b, n, 10)
	}
}

func (w *jsonWriter) text(k, v string) {
	if v != "" {
		w.key(k)
		w.string(v)
	}
}

func (w *jsonWriter) string(s string) { w.b = appendString(w.b, s) }

func (w *jsonWriter) attrs(attrs map[string]string) {
	if len(attrs) == 0 {
		return
	}
	w.key("attrs")
	w.b = append(w.b, '{')
	for i, k := range slices.Sorted(maps.Keys(attrs)) {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.string(k)
		w.b = append(w.b, ':')
		w.string(attrs[k])
	}
	w.b = append(w.b, '}')
}

func (w *jsonWriter) body(b []byte) {
	switch {
	case len(b) == 0:
	case utf8.Valid(b):
		w.key("body")
		w.b = appendString(w.b, b)
	default:
		w.key("body_base64")
		w.b = append(w.b, '"')
		w.b = base64.StdEncoding.AppendEncode(w.b, b)
		w.b = append(w.b, '"')
	}
}

// appendString appends a JSON string. Unlike encoding/json, it copies bytes that are not UTF-8 unchanged: a label that was
// truncated inside a character must be the same in a header and in JSON.
func appendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', lowerHex[c>>4], lowerHex[c&15])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
