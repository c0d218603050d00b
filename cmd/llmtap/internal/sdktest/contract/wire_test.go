package contract

import (
	"bytes"
	"cmp"
	"net/http"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// maxError is the number of bytes of an error response that are published in shape and none.
const maxError = 4 << 10

// checkWire compares the events of a run with the exchanges recorded by the provider.
func checkWire(t testing.TB, capture string, ms []*message, wire []*exchange) {
	t.Helper()
	at := make(map[string]*exchange)
	for _, m := range ms {
		switch m.ev.Kind {
		case event.Request:
			if len(at) >= len(wire) {
				continue // the request did not reach the provider
			}
			x := wire[len(at)]
			at[m.ev.Exchange] = x
			checkRequestHeaders(t, m, x)
			if want := published(m, capture, x, x.request, x.header.Get("Content-Encoding")); !bytes.Equal(m.Body, want) {
				t.Errorf("the payload of a request is\n%s\nwant\n%s", start(m.Body), start(want))
			}
		case event.Response:
			x := at[m.ev.Exchange]
			if x == nil || x.answer.Status == 0 {
				if m.ev.Status != 0 || len(m.Body) > 0 {
					t.Errorf("status %d, body %s without a response", m.ev.Status, start(m.Body))
				}
				continue
			}
			must.Equal(t, m.ev.Status, x.answer.Status, "status")
			same(t, m, event.HeaderContentType, header(x, "Content-Type"))
			same(t, m, event.HeaderProviderReq, cmp.Or(header(x, "X-Request-Id"), header(x, "Request-Id"), header(x, "X-Amzn-Requestid")))
			same(t, m, event.HeaderRateLimits, rateLimits(x))
			checkResponse(t, capture, m, x)
		default: // has no payload
		}
	}
}

// checkResponse accepts the whole body or, if the response ended early, any number of its first pieces.
func checkResponse(t testing.TB, capture string, m *message, x *exchange) {
	t.Helper()
	encoding := cmp.Or(x.answer.Encoding, header(x, "Content-Encoding"))
	want := published(m, capture, x, x.response(), encoding)
	ok := bytes.Equal(m.Body, want)
	for i := range x.pieces {
		ok = ok || m.class != "none" && bytes.Equal(m.Body, published(m, capture, x, bytes.Join(x.pieces[:i], nil), encoding))
	}
	if !ok {
		t.Errorf("the payload of a response is\n%s\nwant\n%s", start(m.Body), start(want))
	}
}

// checkRequestHeaders compares the headers of a request event with the received request.
func checkRequestHeaders(t testing.TB, m *message, x *exchange) {
	t.Helper()
	path, query, _ := strings.Cut(x.path, "?")
	same(t, m, event.HeaderURL, escaped("http://"+theHost+path))
	same(t, m, event.HeaderMethod, x.method)
	same(t, m, event.HeaderContentType, x.header.Get("Content-Type"))
	same(t, m, event.HeaderTraceparent, x.header.Get("Traceparent"))
	retry := x.header.Get("X-Stainless-Retry-Count")
	if retry == "0" {
		retry = ""
	}
	same(t, m, event.HeaderRetry, retry)
	account := wire.Account(x.header, query)
	if account != "" {
		account = event.HashAccount([]byte(shapeKey), account)
	}
	same(t, m, event.HeaderAccount, account)
	var versions []string
	for _, k := range []string{"Anthropic-Version", "Anthropic-Beta", "Openai-Beta", "Api-Version"} {
		versions = append(versions, x.header.Values(k)...)
	}
	if _, v, ok := strings.Cut(query, "api-version="); ok && versions == nil {
		versions = []string{v}
	}
	same(t, m, event.HeaderAPIVersion, strings.Join(versions, ", "))
}

func same(t testing.TB, m *message, key, want string) {
	t.Helper()
	must.Equal(t, m.Header[key], want, "%s", key)
}

// rateLimits returns what the response of x says of rate limits.
func rateLimits(x *exchange) string {
	h := http.Header{}
	for k, v := range x.answer.Headers {
		h.Set(k, v)
	}
	return wire.FormatRateLimits(h)
}

// header returns a header of the response of x.
func header(x *exchange, key string) string {
	for k, v := range x.answer.Headers {
		if strings.EqualFold(k, key) {
			return v
		}
	}
	return ""
}

// lastEvent ends streams of OpenAI.
const lastEvent = "data: [DONE]\n\n"

// published returns the payload for a body on the network in a capture mode.
func published(m *message, capture string, x *exchange, raw []byte, encoding string) []byte {
	body, err := decode(encoding, raw)
	if i := bytes.Index(body, []byte(lastEvent)); i >= 0 {
		body, err = body[:i+len(lastEvent)], nil // bytes after the end of the stream
	}
	dialect, _, _ := strings.Cut(x.path, "?")
	shaper, limit := shape.New([]byte(shapeKey)), 8*len(body)+4<<10 // a Shaper is not safe for concurrent use
	isError := m.ev.Kind == event.Response && m.ev.Status >= 400
	switch {
	case isError && capture == event.CaptureFull:
		return redact.Append(nil, body)
	case isError:
		masked := redact.Append(nil, redact.Truncate(body, maxError))
		return masked[:min(len(masked), maxError)]
	case capture == event.CaptureNone, len(raw) == 0:
		return nil
	case err != nil && len(body) == 0 && capture == event.CaptureFull:
		return raw // published undecoded
	case err != nil && m.class == "none" && capture == event.CaptureShape:
		return shaper.Opaque(raw)
	case capture == event.CaptureFull:
		return body
	case m.ev.Kind == event.Request:
		return shaper.Request(wire.PathDialect(dialect), body, limit)
	}
	return shaper.Response(wire.PathDialect(dialect), body, limit)
}

// start returns the first bytes of a body for an error message.
func start(b []byte) []byte { return b[:min(len(b), 600)] }
