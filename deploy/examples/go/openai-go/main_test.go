package main

import (
	"strings"
	"testing"

	"github.com/llmtap/llmtap/deploy/examples/go/internal/model"
	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

// The agent works without NATS, and what it did waits for it.
func TestAsk(t *testing.T) {
	url := model.Start(t)
	t.Setenv("OPENAI_BASE_URL", url+"/v1")
	t.Setenv("OPENAI_API_KEY", "sk-test")
	hook, err := llmtap.Open(llmtap.Config{
		URL: "nats://127.0.0.1:1", Capture: "full", Hosts: []string{strings.TrimPrefix(url, "http://")}, FlushTimeout: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer hook.Close()
	text, err := ask(t.Context(), hook, "What is the weather in Bern?")
	if err != nil || text != model.Text {
		t.Fatalf("text %q, error %v", text, err)
	}
	// Two calls of two halves, a tool and a run that start and end.
	if s := hook.Stats(); s.Pending != 8 || s.Open != 0 {
		t.Errorf("stats %+v", s)
	}
}
