package main

import (
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/browsertest"
	"github.com/llmtap/llmtap/ingest/proxy"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A page of another site cannot call a provider through the proxy of the machine on which it is read, in a real browser.
func TestProxyOtherSite(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	b := browsertest.Start(t)
	var mu sync.Mutex // guards reached and answers
	var reached []string
	answers := map[string][]int{} // statuses by the last part of the path
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		reached = append(reached, r.Method+" "+r.URL.Path)
	}))
	defer upstream.Close()
	cfg := proxy.Default()
	cfg.Upstreams, cfg.NATSURL, cfg.Logger = map[string]string{"up": upstream.URL}, fmt.Sprintf("nats://127.0.0.1:%d", freePort(t)), slog.New(slog.DiscardHandler)
	p := must.Get(proxy.Open(cfg, nil))(t)
	defer func() { _ = p.Close() }() // there is no NATS for what was recorded
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &statusWriter{ResponseWriter: w}
		p.ServeHTTP(s, r)
		mu.Lock()
		defer mu.Unlock()
		name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		answers[name] = append(answers[name], s.status)
	}))
	defer front.Close()
	// wait returns the statuses of the requests to a path, once there is one.
	wait := func(name string) (got []int) {
		must.Wait(t, "a request to "+name, func() bool {
			mu.Lock()
			defer mu.Unlock()
			got = answers[name]
			return len(got) > 0
		})
		return got
	}

	target := front.URL + "/up/v1/"
	rebound := must.Get(url.Parse(target))(t)
	rebound.Host = "rebound." + browsertest.OtherSite + ":" + rebound.Port()
	form := func(method, name string) string {
		return fmt.Sprintf(`<form method="%s" enctype="text/plain" target="f" action="%s%s"><input name='{"model":"x"' value='"}'></form><iframe name="f"></iframe><script>document.forms[0].submit()</script>`,
			method, target, name)
	}
	script := func(format string, args ...any) string {
		return "<script>" + fmt.Sprintf(format, args...) + "</script>"
	}
	pages := map[string]string{
		"img": `<img src="` + target + `img">`, "script": `<script src="` + target + `script"></script>`, "iframe": `<iframe src="` + target + `iframe"></iframe>`,
		"style": `<link rel="stylesheet" href="` + target + `style">`, "video": `<video src="` + target + `video" preload="auto"></video>`,
		"get": form("get", "get"), "post": form("post", "post"),
		"fetch":   script("fetch(%q, {mode: 'no-cors'})", target+"fetch"),
		"body":    script("fetch(%q, {mode: 'no-cors', method: 'POST', body: '{}'})", target+"body"),
		"cors":    script("fetch(%q, {method: 'POST', body: '{}', headers: {'Content-Type': 'application/json', Authorization: 'x'}})", target+"cors"),
		"beacon":  script("navigator.sendBeacon(%q, '{}')", target+"beacon"),
		"sandbox": `<iframe sandbox="allow-scripts" srcdoc="` + html.EscapeString(script("fetch(%q, {mode: 'no-cors', method: 'POST', body: '{}'})", target+"sandbox")) + `"></iframe>`,
		"quiet":   `<meta name="referrer" content="no-referrer"><img src="` + target + `quiet">`,
		"go":      script("location = %q", target+"go"),
		"rebound": `<iframe src="` + rebound.String() + `rebound"></iframe>`,
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!doctype html><title>x</title>", pages[r.URL.Path[1:]])
	}))
	defer site.Close()
	origin := strings.Replace(site.URL, "127.0.0.1", "page."+browsertest.OtherSite, 1)
	for name := range pages {
		t.Run(name, func(t *testing.T) {
			b.Page(t, browsertest.View{Width: 400, Height: 400}).Open(origin + "/" + name)
			got := wait(name)
			if len(got) == 0 {
				t.Fatal("the browser sent no request: this attack is not tested")
			}
			for _, status := range got {
				must.Equal(t, status, http.StatusForbidden, "statuses %v", got)
			}
		})
	}
	mu.Lock()
	if len(reached) > 0 {
		t.Errorf("reached the upstream: %q", reached)
	}
	mu.Unlock()
	resp := must.Get(http.Get(target + "agent"))(t)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || len(reached) != 1 {
		t.Errorf("an agent: status %d, %q reached the upstream", resp.StatusCode, reached)
	}
}

// A statusWriter notes the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
