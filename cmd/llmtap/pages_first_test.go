package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/browsertest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// claims are words and colors that say something of calls of which nothing is known.
var claims = regexp.MustCompile(`class="verdict ok"|Nothing is wrong|\b0 m?s\b|>\$0<|NaN`)

// Pages without a call, and with one whose tokens and price are unknown, claim nothing. A list that follows new calls shows one that
// arrives while it is open.
func TestFirstPages(t *testing.T) {
	slowtest.Skip(t)
	needClickHouse(t)
	t.Parallel()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","model":"own","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)
	}))
	defer provider.Close()
	config := filepath.Join(t.TempDir(), "llmtap.yaml")
	filetest.Write(t, config, []byte(fmt.Sprintf("proxy: {upstreams: {openai: %q}}\n", provider.URL)))
	u := startUp(t, "--config", config)
	u.ready(t)
	base := running(t, u.dir).PagesURL
	proxy := u.inBanner(t, `Proxy\s+(http://\S+/openai/v1)`)
	call := func() {
		t.Helper()
		resp := must.Get(http.Post(proxy+"/chat/completions", "application/json", strings.NewReader(`{"model":"own","messages":[{"role":"user","content":"hello"}]}`)))(t)
		defer resp.Body.Close()
		must.Equal(t, resp.StatusCode, http.StatusOK, "status")
	}
	walk := func(of string) {
		t.Helper()
		for _, path := range []string{
			"/", "/?service=shop", "/problems", "/traffic/calls", "/traffic/conversations", "/traffic/runs", "/traffic/users", "/alerts", "/alerts/backtest?rule=StageFailureRate&range=15m", "/versions", "/calls", "/providers",
			"/explore", "/explore?measure=cost&by=model", "/explore?measure=p95", "/explore/calls_by", "/incident?service=shop&stage=planner", "/search?q=shop", "/views", "/timeline?conversation=c1", "/exchange/none",
		} {
			status, body := fetchPage(t, base+path)
			_, body, _ = strings.Cut(body, "<main")
			if path == "/alerts" {
				body = strings.ReplaceAll(body, `<td class="n">0 s</td>`, "") // age of the newest tally, of CollectorBlind
			}
			if found := claims.FindAllString(body, -1); status >= http.StatusInternalServerError || len(found) > 0 {
				t.Errorf("%s, %s: status %d, %q", of, path, status, found)
			}
		}
	}
	walk("no call")
	p := browsertest.Start(t).Page(t, pageViews[2])
	p.Open(base + "/")
	call()
	p.Wait(`!document.querySelector("[data-waiting]") && document.querySelector("#totals")`)
	if text := p.Text("#totals"); !strings.Contains(text, "1 call without a price") || !strings.Contains(text, "Tokens\n–") {
		t.Errorf("totals: %q", text)
	}

	p.Open(base + "/traffic/calls?follow=yes")
	p.Eval(`window.sameDocument = true`, nil)
	p.Wait(`document.querySelectorAll("#list tbody tr").length === 1`)
	call()
	p.Wait(`window.sameDocument && document.querySelectorAll("#list tbody tr").length === 2 && document.querySelectorAll("#list tr.new").length === 1`)
	if cell := p.Text(`#list td[data-label="cost"]`) + p.Text(`#list td[data-label="input tokens"]`); strings.Contains(cell, "0") {
		t.Errorf("an unknown cost or number of tokens is %q", cell)
	}
	if wide := p.Overflow(); len(wide) > 0 {
		t.Errorf("the page scrolls horizontally: %v", wide)
	}
	clean(t, p)
}
