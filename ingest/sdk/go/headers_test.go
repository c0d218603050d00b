package llmtap

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The table of the event contract: the headers of each kind and the pattern of their values. "" is no header.
func TestHeaders(t *testing.T) {
	const (
		id   = `[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`
		ms   = `[0-9]+(\.[0-9]+)?`
		none = ""
	)
	// In the order of the stream: request, response, tool started, run failed.
	table := []struct{ header, request, response, tool, run string }{
		{"Nats-Msg-Id", id + `\.q\.1`, id + `\.s\.1`, `call_1\.` + id + `\.started`, `run-1\.error`},
		{"Llmtap-Exchange", id, id, id, none},
		{"Llmtap-Time", `2\d{3}-.*Z`, `2\d{3}-.*Z`, `2\d{3}-.*Z`, `2\d{3}-.*Z`},
		{"Llmtap-Url", `http://provider\.test/v1/messages`, none, none, none},
		{"Llmtap-Method", `POST`, none, none, none},
		{"Llmtap-Api-Version", `2023-06-01, beta-1, beta-2`, none, none, none},
		{"Llmtap-Account", event.HashAccount(nil, "sk-ant-api03-secret\n\n"), none, none, none},
		{"Llmtap-Status", none, `429`, none, none},
		{"Llmtap-Error", none, none, none, none},
		{"Llmtap-Duration-Ms", none, ms, none, none},
		{"Llmtap-First-Byte-Ms", none, ms, none, none},
		{"Llmtap-Provider-Request-Id", none, `req_7`, none, none},
		{"Llmtap-Rate-Limits", none, `tokens=7/150000/6m0s retry_after=20`, none, none},
		{"Llmtap-Retry", `2`, none, none, none},
		{"Llmtap-Code", `headers_test\.go:\d+ TestHeaders`, none, none, none},
		{"Llmtap-Service", `svc`, `svc`, `svc`, `svc`},
		{"Llmtap-Service-Version", `1\.2\.3`, `1\.2\.3`, `1\.2\.3`, `1\.2\.3`},
		{"Llmtap-Environment", `test`, `test`, `test`, `test`},
		{"Llmtap-Agent", `assistant`, `assistant`, `assistant`, `assistant`},
		{"Llmtap-Stage", `%E8%A7%84%E5%88%92`, `%E8%A7%84%E5%88%92`, `%E8%A7%84%E5%88%92`, `%E8%A7%84%E5%88%92`},
		{"Llmtap-Conversation", `conv-1`, `conv-1`, `conv-1`, `conv-1`},
		{"Llmtap-Run", `run-1`, `run-1`, `run-1`, `run-1`},
		{"Llmtap-User", `[0-9a-f]{16}`, `[0-9a-f]{16}`, `[0-9a-f]{16}`, `[0-9a-f]{16}`},
		{"Llmtap-Instance", id, id, id, id},
		{"Llmtap-Seq", `1`, `2`, `3`, `4`},
		{"Llmtap-Dropped", none, none, none, none},
		{"Llmtap-Attr-tenant", `t1`, `t1`, `t1`, `t1`},
		{"Llmtap-Capture", `full`, `full`, none, none},
		{"Llmtap-Origin", `hook`, `hook`, `hook`, `hook`},
		{"Llmtap-Degraded", none, none, none, none},
		{"Content-Type", `application/json`, `text/plain`, none, none},
		{"Content-Encoding", `zstd`, none, none, none}, // errors are decoded for masking
		{"Llmtap-Part", none, none, none, none},
		{"Llmtap-Body-Bytes", none, none, none, none},
		{"Llmtap-Sdk", `go/0\.1\.0`, `go/0\.1\.0`, `go/0\.1\.0`, `go/0\.1\.0`},
		{"Traceparent", `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`, none, none, none},
		{"Llmtap-Run-Status", none, none, none, `error`},
		{"Llmtap-Tool-Call-Id", none, none, `call_1`, none},
		{"Llmtap-Tool-Status", none, none, `started`, none},
	}

	n := startNATS(t, t.TempDir(), -1)
	h := openHook(t, n.url, "http://provider.test", func(c *Config) {
		c.Traceparent = func(context.Context) string { return "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" }
	})
	ctx := WithAttr(WithAttr(WithUser(WithRun(WithStage(WithConversation(WithAgent(t.Context(),
		"assistant"), "conv-1"), "规划"), "run-1"), "anna@example.com"), "tenant", "t1"), "Not A Key", "x")
	rt := h.Transport(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		r.Body.Close()
		body := zipped("slow down")
		return &http.Response{StatusCode: 429, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Header: http.Header{
			"Content-Type": {"text/plain"}, "Content-Encoding": {"GZIP"}, "Request-Id": {"req_7"}, "Set-Cookie": {"secret"},
			"X-Ratelimit-Remaining-Tokens": {"7"}, "X-Ratelimit-Limit-Tokens": {"150000"}, "X-Ratelimit-Reset-Tokens": {"6m0s"}, "Retry-After": {"20"},
		}}, nil
	}))
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, "http://user:secret@provider.test/v1/messages?key=secret", strings.NewReader("{}")))(t)
	req.Header = http.Header{
		"Authorization": {"secret"}, "X-Api-Key": {"sk-ant-api03-secret"}, "Cookie": {"secret"}, "Content-Type": {"application/json"}, "Content-Encoding": {"zstd"},
		"Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"beta-1", "beta-2"}, "X-Stainless-Retry-Count": {"2"},
	}
	resp := must.Get(rt.RoundTrip(req))(t)
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	h.ToolStarted(ctx, "call_1")
	h.RunEnded(ctx, io.EOF)
	// Without a call, an id or a run: not published.
	h.ToolStarted(t.Context(), "call_1")
	h.ToolEnded(ctx, "", nil)
	h.RunStarted(t.Context())
	flush(t, h)

	stream := must.Get(n.js.Stream(t.Context(), event.StreamEvents))(t)
	var got []nats.Header
	for i := range stream.CachedInfo().State.LastSeq {
		m := must.Get(stream.GetMsg(t.Context(), i+1))(t)
		if strings.Contains(fmt.Sprint(m.Header, string(m.Data)), "secret") || strings.Contains(fmt.Sprint(m.Header, string(m.Data)), "anna") {
			t.Errorf("message %d contains a secret: %v %s", i, m.Header, m.Data)
		}
		if !event.IsFrame(m.Subject) {
			got = append(got, m.Header)
			continue
		}
		for _, m := range must.Get(event.SplitFrame(m.Subject, event.Header(m.Header), m.Data))(t) {
			id := must.Get(event.Decode(m.Subject, m.Header, m.Data))(t).Encode()[event.HeaderMsgID]
			m.Header[event.HeaderMsgID] = id // not part of a frame
			got = append(got, nats.Header(m.Header))
		}
	}
	if len(got) != 4 {
		t.Fatalf("%d events, want 4", len(got))
	}
	known := make(map[string]bool)
	for _, row := range table {
		known[row.header] = true
		for i, want := range [...]string{row.request, row.response, row.tool, row.run} {
			if v := got[i][row.header]; len(v) > 1 || want == "" && len(v) > 0 || want != "" && (len(v) == 0 || !regexp.MustCompile(`^(?:`+want+`)$`).MatchString(v[0])) {
				t.Errorf("message %d: %s is %q, want %q", i, row.header, v, want)
			}
		}
	}
	for i := range got {
		for k := range got[i] {
			if !known[k] && !strings.HasPrefix(k, "Nats-") { // set by the server
				t.Errorf("message %d: header %s is not in the contract", i, k)
			}
		}
	}
	if got[0].Get("Llmtap-Exchange") != got[1].Get("Llmtap-Exchange") || got[0].Get("Llmtap-Exchange") != got[2].Get("Llmtap-Exchange") {
		t.Error("request, response and tool have different exchange ids")
	}
}

// A context has at most 32 attributes, truncated values, and a copy of its own.
func TestAttrs(t *testing.T) {
	ctx := t.Context()
	for i := range event.MaxAttrs + 5 {
		ctx = WithAttr(ctx, fmt.Sprintf("k%d", i), strings.Repeat("v", 1000))
	}
	child := WithAttr(ctx, "k0", "changed")
	s, c := scopeOf(ctx), scopeOf(child)
	if len(s.attrs) != event.MaxAttrs || len(s.attrs["k0"]) != event.MaxHeaderValue || c.attrs["k0"] != "changed" || len(c.attrs) != event.MaxAttrs {
		t.Errorf("%d attributes, k0 %q; child %d, k0 %q", len(s.attrs), s.attrs["k0"], len(c.attrs), c.attrs["k0"])
	}
}

// Config.Attrs are published with every event; WithAttr overrides them, and the limit applies to both together.
func TestProcessAttributes(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	srv := startProvider(t, &traffic{}, 200, answer)
	attrs := map[string]string{"region": "eu", "tenant": "default"}
	h := openHook(t, n.url, srv.URL, func(c *Config) { c.Attrs = attrs })
	attrs["region"] = "changed later"
	h.RunStarted(WithRun(t.Context(), "run-1"))
	h.RunStarted(WithAttr(WithRun(t.Context(), "run-2"), "tenant", "acme"))
	call(t, h, srv.URL, strings.NewReader(question), nil)
	flush(t, h)
	evs := n.events(t)
	must.Equal(t, len(evs), 4, "events")
	for _, ev := range evs {
		want := map[string]string{"region": "eu", "tenant": "default"}
		if ev.Labels.Run == "run-2" {
			want["tenant"] = "acme"
		}
		if !maps.Equal(ev.Attrs, want) {
			t.Errorf("%v: attributes %v, want %v", ev.Kind, ev.Attrs, want)
		}
	}
	many := map[string]string{}
	for i := range event.MaxAttrs {
		many[fmt.Sprintf("k%d", i)] = "call"
	}
	if got := withDefaults(many, attrs); !maps.Equal(got, many) {
		t.Errorf("%d attributes", len(got))
	}
	many["one-more"] = "x"
	for _, bad := range []map[string]string{many, {"Not A Key": "x"}} {
		must.Fail(t, (&Config{Attrs: bad}).checkAttrs(), "config Attrs: ")
	}
}
