package llmtap

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// shapesOf makes one call with a new hook and returns the published exchange.
func shapesOf(t *testing.T, n *natsd, target, path, body string, header http.Header, change func(*Config)) (req, res *event.Event) {
	t.Helper()
	h := openHook(t, n.url, target, func(c *Config) {
		c.Capture = ""
		if change != nil {
			change(c)
		}
	})
	if got := call(t, h, target+path, strings.NewReader(body), header); header.Get("X-Gzip") == "" && string(got) != body {
		t.Errorf("the agent read %.200s", got)
	}
	req, res = only(t, n, h)
	if s := h.Stats(); s.Bytes != 0 || s.Dropped != 0 {
		t.Errorf("stats %+v", s)
	}
	return req, res
}

const (
	chatPath = "/v1/chat/completions"
	chatBody = `{"model":"gpt-5","messages":[{"role":"user","content":"the secret \"plan\""}],"choices":[{"index":0,"message":{"role":"assistant","content":"secret"}}]}`
)

func TestShapeIsTheDefault(t *testing.T) {
	t.Setenv("LLMTAP_SHAPE_KEY", "key of the fleet")
	n := startNATS(t, t.TempDir(), -1)
	target := startEcho(t)
	s := shape.New([]byte("key of the fleet"))
	wantReq := string(s.Request(wire.OpenAIChat, []byte(chatBody), 1<<20))
	wantRes := string(s.Response(wire.OpenAIChat, []byte(chatBody), 1<<20))
	opaque := func(body string) string { return string(s.Opaque([]byte(body))) }

	f := func(name, path, body string, header http.Header, wantReq, wantRes string, change func(*Config)) {
		t.Helper()
		req, res := shapesOf(t, n, target, path, body, header, change)
		if string(req.Body) != wantReq || string(res.Body) != wantRes || req.Capture != event.CaptureShape || res.Capture != event.CaptureShape {
			t.Errorf("%s: published %s (%s) and %s (%s)\nwant %s\nand %s", name, req.Body, req.Capture, res.Body, res.Capture, wantReq, wantRes)
		}
		if res.ContentEncoding != "" || res.BodyBytes != len(res.Body) {
			t.Errorf("%s: encoding %q, %d bytes", name, res.ContentEncoding, res.BodyBytes)
		}
	}
	f("a call", chatPath, chatBody, nil, wantReq, wantRes, nil)
	f("a compressed answer", chatPath, chatBody, http.Header{"Accept-Encoding": {"gzip"}, "X-Gzip": {"1"}}, wantReq, wantRes, nil)
	f("another API", "/v1/embeddings", chatBody, nil, opaque(chatBody), opaque(chatBody), nil)
	f("no JSON", chatPath, "a secret", nil, opaque("a secret"), opaque("a secret"), nil)
	f("broken JSON", chatPath, `{"a secret`, nil, opaque(`{"a secret`)+":bad", opaque(`{"a secret`)+":bad", nil)
	f("a redactor that shows less", chatPath, chatBody, nil,
		strings.Replace(wantReq, `"gpt-5"`, `"a model"`, 1), strings.Replace(wantRes, `"gpt-5"`, `"a model"`, 1),
		func(c *Config) {
			c.Redact = func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("gpt-5"), []byte("a model")) }
		})
	f("little memory", chatPath, chatBody, nil, wantReq, wantRes, func(c *Config) { c.MemoryLimit = minMemoryLimit })
	// Too little memory even for a shape of usual length.
	long := `{"messages":[{"role":"user","content":"` + strings.Repeat("secret ", 40_000) + `"}]}`
	f("too little memory", chatPath, long, nil, opaque(long), opaque(long), func(c *Config) { c.MemoryLimit = minMemoryLimit })
	// Encodings that the hook cannot decode.
	zipped := string(zipped(chatBody)) + "damaged"
	f("a damaged encoding", chatPath, zipped, http.Header{"Content-Encoding": {"gzip"}}, opaque(zipped), opaque(zipped), nil)
	f("zstd", chatPath, "(zstd)", http.Header{"Content-Encoding": {"zstd"}}, opaque("(zstd)"), opaque("(zstd)"), nil)
}

// The first part of an error response is published in every mode, for its cause.
func TestShapeOfErrors(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	target := startEcho(t)
	body := `{"error":{"message":"Invalid parameter: messages with role 'tool'","more":"` + strings.Repeat("x", 10_000) + `"}}`
	for _, header := range []http.Header{{"X-Status": {"400"}}, {"X-Status": {"400"}, "X-Gzip": {"1"}, "Accept-Encoding": {"gzip"}}} {
		req, res := shapesOf(t, n, target, chatPath, body, header, func(c *Config) {
			c.Redact = func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("tool"), []byte("****")) }
		})
		want := strings.ReplaceAll(body, "tool", "****")[:maxError]
		if bytes.Contains(req.Body, []byte("Invalid")) || string(res.Body) != want || res.Capture != event.CaptureShape {
			t.Errorf("published %.100s and %d bytes: %.100s (%s)", req.Body, len(res.Body), res.Body, res.Capture)
		}
	}
}

// Bodies over the size limit are stubbed; a stub cannot be shaped.
func TestShapeOfLongBodies(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	target := startEcho(t)
	body := `{"messages":[{"role":"user","content":"` + strings.Repeat("secret ", maxBody/7+1) + `"}]}`
	req, res := shapesOf(t, n, target, chatPath, body, nil, nil)
	for _, ev := range []*event.Event{req, res} {
		if len(ev.Body) > 40 || !bytes.HasPrefix(ev.Body, []byte("~")) || ev.Capture != event.CaptureCut {
			t.Errorf("published %.100s (%s)", ev.Body, ev.Capture)
		}
	}
}

// The shape of a stream assembles to the shape of the whole text.
func TestShapeOfStreams(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	srv := startProvider(t, new(traffic), 200, streamed)
	h := openHook(t, n.url, srv.URL, func(c *Config) { c.Capture = "" })
	call(t, h, srv.URL+chatPath, strings.NewReader(chatBody), nil)
	_, res := only(t, n, h)
	text := string(shape.New(h.cfg.shapeKey).Opaque([]byte("hello")))
	if got := string(res.Body); strings.Count(got, "data: ") != 3 || !strings.Contains(got, fmt.Sprintf(`"content":%q`, text)) || !strings.Contains(got, "[DONE]") {
		t.Errorf("published %s", got)
	}
}

// Hooks of one process use the same key, set or generated.
func TestShapeKey(t *testing.T) {
	key := func(set string) string {
		t.Helper()
		var c Config
		must.Do(t, c.validate(func(name string) string {
			if name == "LLMTAP_SHAPE_KEY" {
				return set
			}
			return ""
		}))
		return string(c.shapeKey)
	}
	if first, again := key(""), key(""); first != again || len(first) != 32 || first == string(make([]byte, 32)) || key("set") != "set" {
		t.Errorf("keys %x, %x and %q", first, again, key("set"))
	}
}
