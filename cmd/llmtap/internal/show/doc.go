/*
Package show reassembles stored exchanges and conversations.

	id or prefix ─> Store.Resolve ─> exchange ─────> Store.Exchange ─────> Exchange: request, answer, findings
	                      │
	                      └────────> conversation ─> Store.Conversation ─> Conversation: the messages each exchange added

ClickHouse stores only the new messages of a request (analyzer.HistoryEntry, analyzer.Content). One query reads the history of
the conversation; this package follows its branches. Missing lists what is not stored.

Memory is bounded: one request and its answer, or up to 1,000 exchanges of one conversation with one line per new message.
*/
package show
