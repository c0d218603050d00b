// The anthropic-sdk-go example is an agent with one tool and streamed answers. Its settings are the environment
// variables ANTHROPIC_API_KEY and MODEL, and ANTHROPIC_BASE_URL for another provider.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/uuid"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

func main() {
	// llmtap: one hook per process. Add other providers to Hosts.
	hook, err := llmtap.Open(llmtap.Config{Service: "example-anthropic-sdk-go", Agent: "assistant", Capture: "full"})
	if err != nil {
		log.Fatal(err)
	}
	text, err := ask(context.Background(), hook, "What is the weather in Bern?")
	if err := hook.Close(); err != nil {
		log.Print(err)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
}

// ask answers a question in one run of the agent.
func ask(ctx context.Context, hook *llmtap.Hook, question string) (text string, err error) {
	// llmtap: the hook is the transport of the client.
	client := anthropic.NewClient(option.WithHTTPClient(&http.Client{Transport: hook.Transport(nil)}))

	// llmtap: labels of all calls under ctx; start and end of the run.
	ctx = llmtap.WithConversation(llmtap.WithRun(ctx, uuid.NewString()), uuid.NewString())
	hook.RunStarted(ctx)
	defer func() { hook.RunEnded(ctx, err) }()

	p := anthropic.MessageNewParams{
		Model:     os.Getenv("MODEL"),
		MaxTokens: 1000,
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(question))},
		Tools: []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
			Name:        "weather",
			InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{"city": map[string]string{"type": "string"}}},
		}}},
	}
	if p.Model == "" {
		p.Model = anthropic.ModelClaudeSonnet5
	}
	for {
		m, err := answer(llmtap.WithStage(ctx, "answer"), client, p)
		if err != nil {
			return "", fmt.Errorf("ask the model: %w", err)
		}
		p.Messages = append(p.Messages, m.ToParam()) // with the tool calls; otherwise the provider rejects the next request
		var results []anthropic.ContentBlockParamUnion
		for _, block := range m.Content {
			switch block := block.AsAny().(type) {
			case anthropic.TextBlock:
				text = block.Text
			case anthropic.ToolUseBlock:
				hook.ToolStarted(ctx, block.ID) // llmtap: start and end of each tool call
				result, err := weather(string(block.Input))
				hook.ToolEnded(ctx, block.ID, err)
				if err != nil {
					result = err.Error() // reply to every call, even if its tool failed
				}
				results = append(results, anthropic.NewToolResultBlock(block.ID, result, err != nil))
			}
		}
		if len(results) == 0 {
			return text, nil
		}
		p.Messages = append(p.Messages, anthropic.NewUserMessage(results...))
	}
}

// answer requests a message from the model and returns it when its stream has ended.
func answer(ctx context.Context, client anthropic.Client, p anthropic.MessageNewParams) (*anthropic.Message, error) {
	s := client.Messages.NewStreaming(ctx, p)
	defer func() { _ = s.Close() }()
	m := new(anthropic.Message)
	for s.Next() {
		if err := m.Accumulate(s.Current()); err != nil {
			return nil, err
		}
	}
	return m, s.Err()
}

// weather is the agent's tool.
func weather(string) (string, error) { return "-3 °C, snow", nil }
