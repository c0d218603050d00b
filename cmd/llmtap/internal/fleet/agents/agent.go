package agents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

// Stages of a task.
const (
	planner    = "planner"
	executor   = "executor"
	summariser = "summariser"
)

// maxTurns is the maximum number of turns of a conversation.
const maxTurns = 20

// An agent is one version of a service: a client with its own hook, as in a separate process.
type agent struct {
	service, version string
	model            string
	client           openai.Client
	tally            *tally
	log              *slog.Logger
}

// newAgent returns an agent that calls the provider at base through rt.
func newAgent(service, version, model, base string, rt http.RoundTripper, t *tally, log *slog.Logger) *agent {
	return &agent{
		service: service, version: version, model: model, tally: t, log: log.With("service", service, "version", version),
		client: openai.NewClient(option.WithBaseURL(base), option.WithAPIKey("demo"), option.WithMaxRetries(0),
			option.WithHTTPClient(&http.Client{Transport: rt})),
	}
}

// A conversation configures one message history.
type conversation struct {
	id, stage string
	system    string
	user      string
	tools     []string
	stream    bool
	saver     saver
}

// converse runs the agent loop until the model calls no more tools. It returns false if a call failed. The agents in the
// incidents ignored such failures.
func (a *agent) converse(ctx context.Context, c conversation) bool {
	ctx = llmtap.WithStage(llmtap.WithConversation(ctx, c.id), c.stage)
	history := []message{openai.SystemMessage(c.system), openai.UserMessage(c.user)}
	for range maxTurns {
		history = c.saver.compact(history)
		m, err := a.call(ctx, c, history)
		if len(m.ToolCalls) == 0 { // after an error, m is empty; the error is swallowed here
			a.log.Debug("no tool calls, task finished", "stage", c.stage, "conversation_id", c.id)
			return err == nil
		}
		history = c.saver.answer(history, m)
		history = c.saver.replies(history, m, func(call openai.ChatCompletionMessageToolCallUnion) string {
			return fmt.Sprintf(`{"tool":%q,"ok":true}`, call.Function.Name)
		})
	}
	return true
}

// call makes one call, streamed or not, and counts it.
func (a *agent) call(ctx context.Context, c conversation, history []message) (openai.ChatCompletionMessage, error) {
	params := openai.ChatCompletionNewParams{Model: a.model, Messages: history, Tools: functions(c.tools)}
	var answer *openai.ChatCompletion
	var err error
	if c.stream {
		answer, err = a.stream(ctx, params)
	} else {
		answer, err = a.client.Chat.Completions.New(ctx, params)
	}
	if err == nil && len(answer.Choices) == 0 {
		err = errors.New("answer has no choices")
	}
	a.tally.count(a, c.stage, err)
	if err != nil {
		return openai.ChatCompletionMessage{}, err
	}
	return answer.Choices[0].Message, nil
}

func (a *agent) stream(ctx context.Context, params openai.ChatCompletionNewParams) (*openai.ChatCompletion, error) {
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := a.client.Chat.Completions.NewStreaming(ctx, params)
	defer func() { _ = stream.Close() }() // errors are in stream.Err
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	return &acc.ChatCompletion, stream.Err()
}

// functions declares tools with one string parameter.
func functions(names []string) []openai.ChatCompletionToolUnionParam {
	var fs []openai.ChatCompletionToolUnionParam
	for _, name := range names {
		fs = append(fs, openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: name,
			Parameters: openai.FunctionParameters{
				"type": "object", "properties": map[string]any{"step": map[string]string{"type": "string"}}, "required": []string{"step"},
			},
		}))
	}
	return fs
}
