// Package examples shows how an agent is watched, in one program for each Go client:
//
//	openai-go/         github.com/openai/openai-go
//	anthropic-sdk-go/  github.com/anthropics/anthropic-sdk-go
//	go-openai/         github.com/sashabaranov/go-openai
//
// Each is the same agent: it asks a model about the weather, runs the tool that the model calls, sends the result back
// and prints the answer. What makes it watched is marked with "llmtap:" in its source. Run the collector first:
//
//	llmtap up
//	OPENAI_API_KEY=sk-… go -C deploy/examples/go run ./openai-go
//	llmtap query failures_by_stage
//
// The hook publishes to LLMTAP_NATS_URL, by default the embedded NATS of llmtap up. Without it, the agents work as well.
package examples
