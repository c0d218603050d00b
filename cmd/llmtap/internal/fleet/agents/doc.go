// Package agents is the demo's fleet: three services whose agents talk to a provider with the real openai-go client,
// recorded by the real hook. Most of it is healthy; three agents have the bugs of real incidents.
//
//	             ┌─ planner ── tools ──┐
//	task ── run ─┼─ executor ── tools ─┼─ openai-go ── hook ──> provider
//	             └─ summariser         ┘
//
//	checkout-agent  DeepSeek  planner 2.4.0 saves role and content but not tool_calls (incident 0); 2.3.9 does not
//	research-agent  OpenAI    executor keeps the last messages of a long history and cuts a call from its reply (incident 2)
//	support-agent   DeepSeek  executor leaves a parallel call without a reply, or answers one twice (incident 4)
//
// An agent is a loop: ask the model, save its answer, run the tools it called, save their replies, ask again. The bugs
// are in how it saves, see history.go. All agents swallow errors, as those of the incidents did: a rejected call looks
// like an answer without tool calls, so the agent logs that its task is finished.
//
// # Why tasks are counted and not timed
//
// What the fleet does is a function of Config.Tasks and Config.Seed; Config.Duration only spreads the tasks over time.
// So a test sees in a second what the demo shows in twenty-five.
package agents
