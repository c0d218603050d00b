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

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// BenchmarkProxy measures calls through the proxy, through a bare httputil.ReverseProxy, and without either, and prints the
// added time of each. Calls are back to back, and NATS stores the events in this process on the same cores: more load than
// agents make.
func BenchmarkProxy(b *testing.B) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nbody each way\tcall µs\tReverseProxy adds\tproxy adds, capture none\tproxy adds, capture full")
	for _, size := range []int{10 << 10, 100 << 10} {
		body := bytes.Repeat([]byte("x"), size)
		p := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = w.Write(body)
		})
		full := start(b, p, nil)
		none := start(b, p, func(c *Config) { c.Capture = event.CaptureNone })
		upstream := "http://" + full.upstreams["test"].host
		bare := httptest.NewServer(bareProxy(b, upstream))
		b.Cleanup(bare.Close)
		var perCall []time.Duration
		for _, to := range []struct{ name, url string }{
			{"direct", upstream + "/v1/chat/completions"},
			{"bare", bare.URL + "/v1/chat/completions"},
			{"none", none.url + chat},
			{"full", full.url + chat},
		} {
			last := time.Duration(0)
			b.Run(fmt.Sprintf("%dKB/%s", size>>10, to.name), func(b *testing.B) {
				b.SetBytes(int64(2 * len(body)))
				b.ReportAllocs()
				for b.Loop() {
					full.call(b, to.url, body)
				}
				last = b.Elapsed() / time.Duration(b.N)
			})
			perCall = append(perCall, last)
		}
		fmt.Fprintf(table, "%d KB\t%d", size>>10, perCall[0].Microseconds())
		for _, d := range perCall[1:] {
			fmt.Fprintf(table, "\t%d", (d - perCall[0]).Microseconds())
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush()
}

func (r *rig) call(b *testing.B, target string, body []byte) {
	resp := must.Get(r.client.Post(target, "application/json", bytes.NewReader(body)))(b)
	defer resp.Body.Close()
	must.Equal(b, must.Get(io.Copy(io.Discard, resp.Body))(b), int64(len(body)), "bytes")
}

// bareProxy returns a minimal reverse proxy. It enables full duplex as the proxy does, because without it some calls of this
// benchmark break off.
func bareProxy(b *testing.B, upstream string) http.Handler {
	u := must.Get(url.Parse(upstream))(b)
	base := newTransport()
	b.Cleanup(base.CloseIdleConnections)
	p := &httputil.ReverseProxy{Rewrite: func(pr *httputil.ProxyRequest) { pr.SetURL(u) }, Transport: base, FlushInterval: -1, BufferPool: &buffers}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		p.ServeHTTP(w, r)
	})
}
