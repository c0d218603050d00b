package examples_test

import (
	"context"
	"log"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

func Example() {
	hook, err := llmtap.Open(llmtap.Config{Service: "checkout-agent", ServiceVersion: "2.4.0"})
	if err != nil {
		log.Fatal(err)
	}
	defer hook.Close()
	client := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: hook.Transport(nil)}))

	ctx := llmtap.WithStage(llmtap.WithConversation(context.Background(), "order-17"), "planner")
	client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{ /* as always */ })
}
