// The openai-go example is an agent with one tool. Its settings are the environment variables OPENAI_API_KEY and
// MODEL, and OPENAI_BASE_URL for another provider, such as http://localhost:11434/v1 for a local Ollama.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/google/uuid"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

func main() {
	// llmtap: one hook per process. Add other providers to Hosts.
	hook, err := llmtap.Open(llmtap.Config{Service: "example-openai-go", Agent: "assistant", Capture: "full"})
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
	client := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: hook.Transport(nil)}))

	// llmtap: labels of all calls under ctx; start and end of the run.
	ctx = llmtap.WithConversation(llmtap.WithRun(ctx, uuid.NewString()), uuid.NewString())
	hook.RunStarted(ctx)
	defer func() { hook.RunEnded(ctx, err) }()

	p := openai.ChatCompletionNewParams{
		Model:    os.Getenv("MODEL"),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name:       "weather",
			Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]string{"type": "string"}}},
		})},
	}
	if p.Model == "" {
		p.Model = openai.ChatModelGPT5_4Mini
	}
	for {
		r, err := client.Chat.Completions.New(llmtap.WithStage(ctx, "answer"), p)
		if err != nil {
			return "", fmt.Errorf("ask the model: %w", err)
		}
		m := r.Choices[0].Message
		if len(m.ToolCalls) == 0 {
			return m.Content, nil
		}
		p.Messages = append(p.Messages, m.ToParam()) // with the tool calls; otherwise the provider rejects the next request
		for _, call := range m.ToolCalls {
			hook.ToolStarted(ctx, call.ID) // llmtap: start and end of each tool call
			result, err := weather(call.Function.Arguments)
			hook.ToolEnded(ctx, call.ID, err)
			if err != nil {
				result = "error: " + err.Error() // reply to every call, even if its tool failed
			}
			p.Messages = append(p.Messages, openai.ToolMessage(result, call.ID))
		}
	}
}

// weather is the agent's tool.
func weather(string) (string, error) { return "-3 °C, snow", nil }
