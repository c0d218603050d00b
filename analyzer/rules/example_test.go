package rules_test

import (
	"fmt"

	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// An agent's test checks the request that the agent is about to send, or has sent.
func Example() {
	body := []byte(`{"model": "gpt-5", "messages": [
		{"role": "user", "content": "Which port?"},
		{"role": "assistant", "content": ""},
		{"role": "tool", "tool_call_id": "call_1", "content": "PORT=80"}]}`)

	target := wire.Target{Dialect: wire.OpenAIChat, Variant: wire.OpenAI}
	violations, err := rules.Lint(target, body)
	if err != nil {
		panic(err) // not judged
	}
	for _, v := range violations {
		fmt.Println(v.Rule.ID, v.Predicted, "in message", v.Message)
		fmt.Println("fix:", v.Rule.Fix)
	}
	// Output:
	// orphan_tool_reply reject in message 2
	// fix: Store and resend the assistant message with its tool calls, and when trimming the history drop a call and its replies together.
}
