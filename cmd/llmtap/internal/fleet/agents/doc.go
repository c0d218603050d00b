// Package agents implements the fleet of the demo: three services whose agents call a provider over HTTP and
// are recorded by the real hook. Three of the agents have the bugs of real incidents.
//
//	             ┌─ planner ── tools ──┐
//	task ── run ─┼─ executor ── tools ─┼─ HTTP ── hook ──> provider
//	             └─ summariser         ┘
//
//	checkout-agent  DeepSeek  planner 2.4.0 saves role and content but not tool_calls (incident 0); 2.3.9 does not
//	research-agent  OpenAI    executor keeps the last messages of a long history and separates a call from its reply (incident 2)
//	support-agent   DeepSeek  executor leaves a parallel call without a reply, or answers one twice (incident 4)
//
// An agent is a loop: call the model, save its answer, run the tools it called, save their replies, repeat. The bugs are in
// the code that saves histories, see history.go. Like the agents in the incidents, all agents swallow errors: a rejected
// call looks like an answer without tool calls, so the agent logs that its task is finished.
//
// # Why the work is a number of tasks
//
// Config.Tasks and Config.Seed determine what the fleet does; Config.Duration only spreads the tasks over time. So a test
// does in one second what the demo does in twenty-five.
package agents
