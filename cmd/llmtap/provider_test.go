package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Every printed base URL rejects a reply without its call.
func TestProvider(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, stdout := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"provider", "--provider-port", "0"}, nil, stdout, io.Discard, func(string) string { return "" })
		stdout.CloseWithError(err)
		done <- err
	}()
	lines := bufio.NewScanner(out)
	var bases [][2]string // name, URL
	for len(bases) < len(providerPaths) && lines.Scan() {
		if name, base, ok := strings.Cut(strings.TrimSpace(lines.Text()), " "); ok && strings.Contains(base, "http://") {
			bases = append(bases, [2]string{name, strings.TrimSpace(base)})
		}
	}
	for _, b := range bases {
		path, message := "/chat/completions", `{"role":"tool","tool_call_id":"c","content":"x"}`
		if b[0] == "Anthropic" {
			path, message = "/v1/messages", `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}`
		}
		resp := must.Get(http.Post(b[1]+path, "application/json", strings.NewReader(`{"model":"m","max_tokens":9,"messages":[`+message+`]}`)))(t)
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d: %s", b[0], resp.StatusCode, text)
		}
	}
	stop()
	if err := <-done; err != nil || len(bases) != len(providerPaths) {
		t.Errorf("%d base URLs, error %v", len(bases), err)
	}
}
