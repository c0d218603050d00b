// Package agenttest plays recorded conversations as the traffic of agents that have a certain bug, or none, so that a test can
// compare what the analyzer says about an agent with what is true of it.
//
//	recorded conversation ─> Parse ─> Run (no dialect) ─┐
//	Kind (what the agent does to its history) ──────────┼─> Play ─> events
//	Dialect (how a provider's API writes it) ───────────┘
//
// A bug damages what the agent stores or sends from some step on, and stays in its history, as in real agents. Some providers
// accept the damaged history; others refuse it, with their own error text or with one that explains nothing.
//
// # Why runs have no dialect
//
// Few recordings have several calls in an answer, and those of some dialects have hardly any tools. A run in no dialect can be
// written in each of them, and consecutive calls can be joined to parallel ones, so that each kind has many runs in each
// dialect. Call ids are made for each run in the form of the dialect, because recorded ids occur in several recordings.
package agenttest
