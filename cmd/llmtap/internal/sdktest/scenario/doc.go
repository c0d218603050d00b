// Package scenario holds, for each root cause, a small agent that really has the bug, and beside it healthy agents and
// agents with the neighbouring bug that look alike. All of it is tests.
//
//	agent's loop ── openai-go ── hook ──> strict provider (loopback)
//	                               └────> nats-server ── events in order ──> analyzer ──> findings, root causes
//
// A scenario is an entry of a table: what the model says, the loop, and what the analyzer must find. The loop is the
// code that a developer would have to fix, with a comment where the bug is. Each runs three times and must give the same:
// with bodies published in full, as their shape, and as their shape without ids of conversations.
//
// # Why nothing else may be found
//
// A root cause that is not in the table is a false accusation of somebody's change, so it fails the test, as does a
// predicted rejection of a request that is sound.
package scenario
