// Package scenario contains a small agent with the bug for each root cause, and similar agents that are healthy or have a
// different bug. It consists of tests only.
//
//	agent's loop ── openai-go ── hook ──> strict provider (loopback)
//	                               └────> nats-server ── events in order ──> analyzer ──> findings, root causes
//
// A scenario is an entry of a table: the answers of the model, the loop, and the expected findings. The loop is the code that a
// developer would fix, with a comment at the bug. Each scenario runs three times with the same result: with full bodies, with
// their shapes, and with shapes without conversation ids.
//
// It runs a fourth time with the TypeScript hook: a process of Node.js makes each call of the loop with the SDK of OpenAI or Anthropic.
//
// # The prompt cache
//
// Agents with long prompts call a provider that caches as documented (package promptcaching), and break its cache in one way each, or
// look as if they did. Time is that of a run: the agent moves it, the provider lives in it, and the events of the hook get it
// before the analyzer reads them. What is expected of a call is written down by the agent, which knows what it does, and never
// taken from the analyzer. The runs are many, because prompts, places and times differ; the table has them by kind and dialect.
//
// # Why unexpected findings fail
//
// An unexpected root cause accuses the wrong change, so it fails the test, as does a predicted rejection of a valid request.
package scenario
