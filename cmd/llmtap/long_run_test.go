package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/browsertest"
	sdk "github.com/llmtap/llmtap/ingest/sdk/go"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// longRunCalls is the number of calls of a run that a timeline shows.
const longRunCalls = 500

// TestLongRun publishes a run of 500 calls with tools, retries and an agent that calls another one, and reads its timeline in a browser.
func TestLongRun(t *testing.T) {
	slowtest.Skip(t)
	needClickHouse(t)
	b, provider := browsertest.Start(t), standInProvider(t)
	u := startUp(t)
	u.ready(t)
	hook := must.Get(sdk.Open(sdk.Config{
		URL: fmt.Sprintf("nats://127.0.0.1:%d", u.port), Service: "shop", ServiceVersion: "1.0.0", Hosts: []string{strings.TrimPrefix(provider.URL, "http://")},
	}))(t)
	client := &http.Client{Transport: hook.Transport(nil)}
	for i := range longRunCalls {
		agent, conversation, span := "buyer", "c-buyer", 1
		if i%10 > 3 && i%10 < 7 { // called by a tool of the buyer
			agent, conversation, span = "searcher", fmt.Sprint("c-searcher-", i/10), 2+i/10
		}
		ctx := sdk.WithAgent(sdk.WithRun(sdk.WithConversation(t.Context(), conversation), "long-run"), agent)
		body := chatCall
		if i%2 == 0 {
			body = `{"model":"gpt-5","messages":[{"role":"user","content":"hello"}],"tools":[{"type":"function","function":{"name":"look_up"}}]}`
		}
		req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, provider.URL+"/v1/chat/completions", strings.NewReader(body)))(t)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Traceparent", fmt.Sprintf("00-%032x-%016x-01", 7, span))
		req.Header.Set("X-Call", fmt.Sprint("call_", i))
		switch i % 25 {
		case 3:
			req.Header.Set("X-Fail", "yes")
		case 4:
			req.Header.Set("X-Stainless-Retry-Count", "1")
		}
		resp := must.Get(client.Do(req))(t)
		_, err := io.Copy(io.Discard, resp.Body)
		must.Do(t, err)
		must.Do(t, resp.Body.Close())
	}
	must.Do(t, hook.Close())
	waitFor(t, u, "all calls", func() bool {
		res, err := u.rows().query(t.Context(), "SELECT count() FROM exchanges_final WHERE run_id = 'long-run' AND trace_id != ''")
		return err == nil && fmt.Sprint(res.Rows[0][0]) == fmt.Sprint(longRunCalls)
	})
	for _, v := range []browsertest.View{pageViews[0], pageViews[2]} {
		p := b.Page(t, v)
		begin := time.Now()
		p.Open(running(t, u.dir).PagesURL + "/timeline?run=long-run")
		took := time.Since(begin)
		var seen struct {
			First, Load, Longest, Frames, Calls, Retries, Tools, Nested, Bytes float64
		}
		p.Eval(`(async () => {
			const load = performance.getEntriesByType("navigation")[0], count = (s) => document.querySelectorAll("#timeline " + s).length;
			const frame = () => new Promise((done) => requestAnimationFrame(done));
			let longest = 0, frames = 0, before = await frame();
			for (scrollTo(0, 0); scrollY + innerHeight < document.documentElement.scrollHeight - 2 && frames < 3000; frames++) {
				scrollBy(0, 6 * innerHeight);
				const now = await frame();
				longest = Math.max(longest, now - before);
				before = now;
			}
			scrollTo(0, 0);
			return {first: load.responseStart, load: load.loadEventEnd, bytes: load.decodedBodySize, longest, frames, calls: count("tr.call"), tools: count("tr.tool"), nested: count("tr.call.d1")};
		})()`, &seen)
		// The times are for people: they depend on the machine.
		t.Logf("%v: %.0f calls, %.0f tools, %.0f nested, %.0f kB: first byte after %.0f ms, loaded after %.0f ms (%v in all); scrolled through in %.0f frames, the longest took %.0f ms",
			v, seen.Calls, seen.Tools, seen.Nested, seen.Bytes/1000, seen.First, seen.Load, took.Round(time.Millisecond), seen.Frames, seen.Longest)
		if seen.Calls != longRunCalls || seen.Tools == 0 || seen.Nested != 3*longRunCalls/10 || seen.Frames == 0 || seen.Frames == 3000 {
			t.Errorf("the timeline shows %+v", seen)
		}
		if !strings.Contains(p.Text("#timeline"), "20 retries of the SDK") {
			t.Errorf("retries:\n%.300s", p.Text("#timeline"))
		}
		if wide := p.Overflow(); len(wide) > 0 {
			t.Errorf("the page scrolls horizontally: %v", wide)
		}
		if *screenshots != "" {
			must.Do(t, os.WriteFile(filepath.Join(*screenshots, fmt.Sprintf("long-run-%d.png", v.Width)), p.Screenshot(), 0o600))
		}
		clean(t, p)
	}
}
