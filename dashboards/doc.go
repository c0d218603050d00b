/*
Package dashboards contains the SQL queries of an on-call engineer after an alert.

	ClickHouse, <table>_final views ──> queries/*.sql ──> llmtap query NAME

It imports no other package of the project; the caller runs the queries.
*/
package dashboards
