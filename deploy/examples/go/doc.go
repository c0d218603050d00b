// Package examples shows how to record the calls of an agent, in one program per Go client:
//
//	openai-go/         github.com/openai/openai-go
//	anthropic-sdk-go/  github.com/anthropics/anthropic-sdk-go
//	go-openai/         github.com/sashabaranov/go-openai
//
// All programs are the same agent: it asks a model about the weather, runs the tool that the model calls, sends the
// result to the model and prints the answer. Comments with "llmtap:" mark the lines that record the calls. The
// examples are a separate module, as an agent would be. Start the collector first:
//
//	llmtap up
//	OPENAI_API_KEY=sk-… go -C deploy/examples/go run ./openai-go
//	llmtap query failures_by_stage
//
// The hook publishes to LLMTAP_NATS_URL, by default the embedded NATS of llmtap up. The agents also work without NATS.
package examples
