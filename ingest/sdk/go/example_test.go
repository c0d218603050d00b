package llmtap_test

import (
	"context"
	"log"
	"net/http"
	"strings"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

func Example() {
	hook, err := llmtap.Open(llmtap.Config{Service: "checkout-agent", ServiceVersion: "2.4.0"})
	if err != nil {
		log.Fatal(err)
	}
	defer hook.Close()
	// SDKs take this client, for example openai-go with option.WithHTTPClient.
	client := &http.Client{Transport: hook.Transport(nil)}

	ctx := llmtap.WithStage(llmtap.WithConversation(context.Background(), "order-17"), "planner")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.openai.com/v1/chat/completions", strings.NewReader(`{}`))
	if err != nil {
		log.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
}
