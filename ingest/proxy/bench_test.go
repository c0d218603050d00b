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

// BenchmarkProxy measures a call through the proxy, all bodies recorded, beside the same call through a bare
// httputil.ReverseProxy and without any, one after the other. It prints what each adds to a call, in microseconds: as
// the caller of a single call sees it (what it recorded is published before the next), and with calls back to back,
// where NATS, in this process and on the same cores, stores all bodies meanwhile.
func BenchmarkProxy(b *testing.B) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nbody each way\tcall µs\tReverseProxy adds\tproxy adds\tproxy adds, back to back")
	for _, size := range []int{10 << 10, 100 << 10} {
		body := bytes.Repeat([]byte("x"), size)
		p := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = w.Write(body)
		})
		r := start(b, p, nil)
		upstream := "http://" + r.upstreams["test"].host
		front := httptest.NewServer(bareProxy(b, upstream))
		b.Cleanup(front.Close)
		measure := func(name, target string, between func(*testing.B)) (perCall time.Duration) {
			b.Run(fmt.Sprintf("%dKB/%s", size>>10, name), func(b *testing.B) {
				b.SetBytes(int64(2 * len(body)))
				b.ReportAllocs()
				for b.Loop() {
					r.call(b, target, body)
					if between != nil {
						b.StopTimer()
						between(b)
						b.StartTimer()
					}
				}
				perCall = b.Elapsed() / time.Duration(b.N)
			})
			return perCall
		}
		flush := func(b *testing.B) {
			if err := r.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		direct := measure("direct", upstream+"/v1/chat/completions", flush)
		bare := measure("bare", front.URL+"/v1/chat/completions", flush)
		full := measure("proxy", r.url+chat, flush)
		load := measure("back_to_back", r.url+chat, nil)
		µs := func(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d.Nanoseconds())/1000) }
		fmt.Fprintf(table, "%d KB\t%s\t%s\t%s\t%s\n", size>>10, µs(direct), µs(bare-direct), µs(full-direct), µs(load-direct))
	}
	_ = table.Flush()
}

func (r *rig) call(b *testing.B, target string, body []byte) {
	resp, err := r.client.Post(target, "application/json", bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != int64(len(body)) {
		b.Fatal(n, err)
	}
}

// bareProxy is the least that one would write by hand. It asks for full duplex as the proxy does, because without it
// some calls of this benchmark break off.
func bareProxy(b *testing.B, upstream string) http.Handler {
	u, err := url.Parse(upstream)
	if err != nil {
		b.Fatal(err)
	}
	base := newTransport()
	b.Cleanup(base.CloseIdleConnections)
	p := &httputil.ReverseProxy{Rewrite: func(pr *httputil.ProxyRequest) { pr.SetURL(u) }, Transport: base, FlushInterval: -1, BufferPool: &buffers}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		p.ServeHTTP(w, r)
	})
}
