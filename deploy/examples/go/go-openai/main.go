// The go-openai example is an agent with one tool. Its settings are the environment variables OPENAI_API_KEY and
// MODEL, and OPENAI_BASE_URL for another provider, such as http://localhost:11434/v1 for a local Ollama.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/google/uuid"
	"github.com/sashabaranov/go-openai"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

func main() {
	// llmtap: one hook per process. Add other providers to Hosts.
	hook, err := llmtap.Open(llmtap.Config{Service: "example-go-openai", Agent: "assistant", Capture: "full"})
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
	cfg := openai.DefaultConfig(os.Getenv("OPENAI_API_KEY"))
	cfg.HTTPClient = &http.Client{Transport: hook.Transport(nil)} // llmtap: the hook is the transport of the client
	if u := os.Getenv("OPENAI_BASE_URL"); u != "" {
		cfg.BaseURL = u
	}
	client := openai.NewClientWithConfig(cfg)

	// llmtap: labels of all calls under ctx; start and end of the run.
	ctx = llmtap.WithConversation(llmtap.WithRun(ctx, uuid.NewString()), uuid.NewString())
	hook.RunStarted(ctx)
	defer func() { hook.RunEnded(ctx, err) }()

	req := openai.ChatCompletionRequest{
		Model:    os.Getenv("MODEL"),
		Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: question}},
		Tools: []openai.Tool{{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
			Name:       "weather",
			Parameters: map[string]any{"type": "object", "properties": map[string]any{"city": map[string]string{"type": "string"}}},
		}}},
	}
	if req.Model == "" {
		req.Model = "gpt-5.4-mini"
	}
	for {
		r, err := client.CreateChatCompletion(llmtap.WithStage(ctx, "answer"), req)
		if err != nil {
			return "", fmt.Errorf("ask the model: %w", err)
		}
		if len(r.Choices) == 0 {
			return "", errors.New("ask the model: no choice in the answer")
		}
		m := r.Choices[0].Message
		if len(m.ToolCalls) == 0 {
			return m.Content, nil
		}
		req.Messages = append(req.Messages, m) // with the tool calls; otherwise the provider rejects the next request
		for _, call := range m.ToolCalls {
			hook.ToolStarted(ctx, call.ID) // llmtap: start and end of each tool call
			result, err := weather(call.Function.Arguments)
			hook.ToolEnded(ctx, call.ID, err)
			if err != nil {
				result = "error: " + err.Error() // reply to every call, even if its tool failed
			}
			req.Messages = append(req.Messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: call.ID, Content: result})
		}
	}
}

// weather is the agent's tool.
func weather(string) (string, error) { return "-3 °C, snow", nil }
