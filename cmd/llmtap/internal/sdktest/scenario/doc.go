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
// # Why unexpected findings fail
//
// An unexpected root cause accuses the wrong change, so it fails the test, as does a predicted rejection of a valid request.
package scenario
