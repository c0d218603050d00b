/*
Package show reassembles stored exchanges and conversations.

	id or prefix ─> Store.Resolve ─> exchange ─────> Store.Exchange ─────> Exchange: request, answer, findings
	                      │
	                      ├────────> conversation ─> Store.Conversation ─> Conversation: what each exchange added
	                      │
	                      └────────> --tool ───────> Store.ToolCalls ────> ToolCall: arguments and reply

ClickHouse stores only the new messages of a request (analyzer.HistoryEntry, analyzer.Content). One query reads the history of
the conversation; this package follows its branches. Missing lists what is not stored.

For a finding, a Comparison compares the answer of the model with the message in its place in the request: its fields as a diff,
and the calls with their replies. The answer is found by the call ids in table tool_calls; without ids it is the answer to the
last request that ends before the message.

Memory is bounded: one request and its answer, or up to 10,000 exchanges of one conversation without bodies and the bodies of
at most Options.Limit exchanges.
*/
package show
