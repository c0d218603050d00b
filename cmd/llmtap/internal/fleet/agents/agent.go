package agents

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

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
	client           client
	tally            *tally
	log              *slog.Logger
}

// newAgent returns an agent that calls the provider at base through rt.
func newAgent(service, version, model, base string, rt http.RoundTripper, t *tally, log *slog.Logger) *agent {
	return &agent{
		service: service, version: version, model: model, tally: t, log: log.With("service", service, "version", version),
		client: client{base: base, http: &http.Client{Transport: rt}},
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
	history := []message{text("system", c.system), text("user", c.user)}
	for range maxTurns {
		history = c.saver.compact(history)
		m, err := a.call(ctx, c, history)
		if len(m.ToolCalls) == 0 { // after an error, m is empty; the error is swallowed here
			a.log.Debug("no tool calls, task finished", "stage", c.stage, "conversation_id", c.id)
			return err == nil
		}
		history = c.saver.answer(history, m)
		history = c.saver.replies(history, m, func(call toolCall) string {
			return fmt.Sprintf(`{"tool":%q,"ok":true}`, call.Function.Name)
		})
	}
	return true
}

// call makes one call, streamed or not, and counts it.
func (a *agent) call(ctx context.Context, c conversation, history []message) (message, error) {
	m, err := a.client.complete(ctx, a.model, history, c.tools, c.stream)
	a.tally.count(a, c.stage, err)
	return m, err
}
