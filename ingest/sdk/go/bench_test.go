package llmtap

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
)

// BenchmarkCall measures the time that the hook adds to a call on the agent's goroutine: p50 and p99 of calls with the hook
// minus those of calls without it, which alternate. There is no network; request and response have the same size; NATS is
// up or down. If it is down, the queue is full after 200 calls at most, and each call drops an older one.
func BenchmarkCall(b *testing.B) {
	for _, size := range [...]int{10 << 10, 100 << 10} {
		for _, up := range [...]bool{true, false} {
			b.Run(fmt.Sprintf("body=%dKB/nats=%s", size>>10, map[bool]string{true: "up", false: "down"}[up]), func(b *testing.B) {
				benchmarkCall(b, size, up)
			})
		}
	}
}

func benchmarkCall(b *testing.B, size int, up bool) {
	const target = "http://provider.test/v1/chat/completions"
	body := bytes.Repeat([]byte("x"), size)
	provider := roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: 200, ContentLength: -1, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body))}, nil
	})
	url := agentURL(testnet.FreePort(b))
	if up {
		url = startNATS(b, b.TempDir(), -1).url
	}
	h := openHook(b, url, target, func(c *Config) {
		if !up {
			c.FlushTimeout, c.MemoryLimit = 1, 4<<20
		}
	})
	hooked := h.Transport(provider)
	ctx := WithStage(WithConversation(b.Context(), "conv-1"), "planner")
	buf := make([]byte, 32<<10)
	call := func(rt http.RoundTripper) time.Duration {
		req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body)))(b)
		start := time.Now()
		resp, err := rt.RoundTrip(req)
		must.Do(b, err)
		for err == nil {
			_, err = resp.Body.Read(buf)
		}
		resp.Body.Close()
		return time.Since(start)
	}
	var with, without []time.Duration
	for b.Loop() {
		without = append(without, call(provider))
		with = append(with, call(hooked))
		// Calls of an agent are far apart: the background work of the hook falls between them.
		for up && h.Stats().Pending > 0 {
			runtime.Gosched()
		}
	}
	added := func(p int) float64 {
		at := min(len(with)-1, len(with)*p/100)
		return float64((with[at] - without[at]).Nanoseconds()) / 1e3
	}
	slices.Sort(with)
	slices.Sort(without)
	b.ReportMetric(0, "ns/op") // includes waiting for the background work
	b.ReportMetric(added(50), "added-p50-µs")
	b.ReportMetric(added(99), "added-p99-µs")
	if s := h.Stats(); up && s.Dropped > 0 {
		b.Errorf("stats %+v", s)
	}
}
