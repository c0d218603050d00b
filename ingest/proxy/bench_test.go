package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"testing"
	"text/tabwriter"
	"time"
)

// BenchmarkProxy measures a call through the proxy, all bodies recorded and published, beside the same call through a
// bare httputil.ReverseProxy and without any, one after the other. It prints what each adds to a call.
func BenchmarkProxy(b *testing.B) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nbody each way\tdirect µs\tReverseProxy adds µs\tproxy adds µs\tof it the recording µs")
	for _, size := range []int{10 << 10, 100 << 10} {
		var direct, bare, full time.Duration
		body := bytes.Repeat([]byte("x"), size)
		p := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = w.Write(body)
		})
		r := start(b, p, nil)
		upstream := "http://" + r.upstreams["test"].host
		front := httptest.NewServer(bareProxy(b, upstream))
		b.Run(fmt.Sprintf("%dKB/direct", size>>10), func(b *testing.B) { direct = r.measure(b, upstream+"/v1/chat/completions", body) })
		b.Run(fmt.Sprintf("%dKB/bare", size>>10), func(b *testing.B) { bare = r.measure(b, front.URL+"/v1/chat/completions", body) })
		b.Run(fmt.Sprintf("%dKB/proxy", size>>10), func(b *testing.B) { full = r.measure(b, r.url+chat, body) })
		front.Close()
		µs := func(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d.Nanoseconds())/1000) }
		fmt.Fprintf(table, "%d KB\t%s\t%s\t%s\t%s\n", size>>10, µs(direct), µs(bare-direct), µs(full-direct), µs(full-bare))
		if s := r.Stats(); s.Dropped > 0 {
			b.Logf("NATS was slower than the calls: %d exchanges dropped", s.Dropped)
		}
	}
	_ = table.Flush()
}

// measure returns the time of a call.
func (r *rig) measure(b *testing.B, target string, body []byte) time.Duration {
	b.SetBytes(int64(2 * len(body)))
	b.ReportAllocs()
	for b.Loop() {
		resp, err := r.client.Post(target, "application/json", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != int64(len(body)) {
			b.Fatal(n, err)
		}
		resp.Body.Close()
	}
	return b.Elapsed() / time.Duration(b.N)
}

func bareProxy(b *testing.B, upstream string) http.Handler {
	u, err := url.Parse(upstream)
	if err != nil {
		b.Fatal(err)
	}
	base := newTransport()
	b.Cleanup(base.CloseIdleConnections)
	return &httputil.ReverseProxy{Rewrite: func(pr *httputil.ProxyRequest) { pr.SetURL(u) }, Transport: base, FlushInterval: -1, BufferPool: &buffers}
}
