/*
Package dashboards contains what people look at: the queries of an on-call engineer after an alert, as SQL.

	ClickHouse, <table>_final views ──> queries/*.sql ──> llmtap query NAME

It imports no other package of the project; the caller passes in the store that it reads.
*/
package dashboards
