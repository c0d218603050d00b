/*
Package dashboards holds what people look at: the questions an on-call engineer asks after an alert, as SQL.

	ClickHouse, <table>_final views ──> queries/*.sql ──> llmtap query NAME

It imports nothing of the project; whoever shows something passes in what reads the store.
*/
package dashboards
