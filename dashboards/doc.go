/*
Package dashboards contains SQL queries for on-call engineers who investigate an alert.

	ClickHouse, <table>_final views ──> queries/*.sql ──> llmtap query NAME

It does not import any other package of the project; the caller runs the queries.
*/
package dashboards
