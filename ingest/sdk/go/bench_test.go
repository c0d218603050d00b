package llmtap

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkCall is what a call costs the agent's own goroutine, without network: once without the hook, then with the
// hook and NATS there, and with NATS away and the queue full.
func BenchmarkCall(b *testing.B) {
	const target = "http://provider.test/v1/chat/completions"
	request := bytes.Repeat([]byte("r"), 20<<10)
	reply := strings.Repeat("a", 2<<10)
	provider := roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: 200, ContentLength: -1, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(reply))}, nil
	})
	run := func(b *testing.B, rt http.RoundTripper) {
		ctx := WithStage(WithConversation(b.Context(), "conv-1"), "planner")
		b.SetBytes(int64(len(request) + len(reply)))
		b.ReportAllocs()
		for b.Loop() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(request))
			if err != nil {
				b.Fatal(err)
			}
			resp, err := rt.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	b.Run("hook=off", func(b *testing.B) { run(b, provider) })
	b.Run("hook=on", func(b *testing.B) {
		n := startNATS(b, b.TempDir(), -1)
		h := openHook(b, n.url, target, nil)
		run(b, h.Transport(provider))
	})
	b.Run("hook=on,nats=down", func(b *testing.B) {
		h := openHook(b, agentURL(freePort(b)), target, func(c *Config) { c.MemoryLimit, c.FlushTimeout = minMemoryLimit, 1 })
		run(b, h.Transport(provider))
	})
}
