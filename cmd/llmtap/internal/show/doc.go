/*
Package show puts stored calls together again.

	an id, or its start ─> Store.Resolve ─> an exchange ────> Store.Exchange ────> Exchange: body, answer, findings
	                              │
	                              └───────> a conversation ─> Store.Conversation ─> Conversation: what each exchange added

A request is stored as what is new in it (analyzer.HistoryEntry, analyzer.Content): the history of its conversation is read
by one query, and the branches of it are followed here. What is not stored any more, or never was, is said in Missing.

What is kept in memory is bounded: one request and its answer, or the exchanges of one conversation, up to 1,000, with one
line for each message that was new.
*/
package show
