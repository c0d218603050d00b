package main

import (
	"strings"
	"testing"

	"github.com/llmtap/llmtap/deploy/examples/go/internal/model"
	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

// Without NATS the agent works and its events are queued.
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
	// Request and response of two calls, start and end of a tool and of a run.
	if s := hook.Stats(); s.Pending != 8 || s.Open != 0 {
		t.Errorf("stats %+v", s)
	}
}
