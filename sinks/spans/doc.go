/*
Package spans exports LLM calls as OpenTelemetry spans, so that other tools show why a call failed and what it cost.

	analyzer ── rows ──> Add ── at most 8,192 spans ──> Run ── OTLP over HTTP ──> Collector, Langfuse, Phoenix, Datadog, ...
	                      │ full                         │ refused
	                      └── dropped, counted <─────────┘

A call is a client span with the names of OpenTelemetry's conventions for generative AI. Its findings are events of the span, and those
that come later (such as a tool call without a reply) are spans below it. In a trace of the agent (traceparent), the span is a child of the
agent's; otherwise the calls of a run, or else of a conversation, are one trace. What llmtap knows beyond the conventions:

	llmtap.exchange      id of the call: llmtap show ID
	llmtap.run, .stage   as the agent named them
	llmtap.cause         why the call failed; llmtap.cause.known says how this is known
	llmtap.root_cause    what the agent did wrong before
	llmtap.problem       of a finding: the beginning of the id of its problem
	gen_ai.usage.cost    dollars, if the model has a price

Texts of messages are not exported. Calls that came as spans, and imported ones, are not exported either: their tool has them.

A span is sent again until the endpoint accepts it (429, 502, 503, 504, no answer), and meanwhile at most one further batch waits. What is
not sent when the process ends is lost; ClickHouse has all calls. After a crash, calls that are read again have the same ids.
*/
package spans
