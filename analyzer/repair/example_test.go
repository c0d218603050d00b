package repair_test

import (
	"fmt"

	"github.com/llmtap/llmtap/analyzer/repair"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// An agent repairs a stored history before it sends it, with the answers that it still has.
func Example() {
	body := []byte(`{"model": "gpt-5", "messages": [
		{"role": "user", "content": "Which port?"},
		{"role": "assistant", "content": ""},
		{"role": "tool", "tool_call_id": "call_1", "content": "PORT=80"}]}`)

	target := wire.Target{Dialect: wire.OpenAIChat, Variant: wire.OpenAI}
	repaired, err := repair.Repair(target, body, repair.Options{})
	if err != nil {
		panic(err) // not judged
	}
	for _, s := range repaired.Steps {
		fmt.Println(s.Rule, "in message", s.Message)
		fmt.Println("repair:", s.Repair, "lost:", s.Lost)
	}
	fmt.Println(string(repaired.Body))
	// Output:
	// orphan_tool_reply in message 2
	// repair: removes a reply without its call lost: [the reply call_1 in message 2 (7 bytes)]
	// {"model": "gpt-5", "messages": [
	// 		{"role": "user", "content": "Which port?"}]}
}
