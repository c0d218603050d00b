/*
Package dashboards contains SQL queries and web pages for on-call engineers who investigate an alert.

	ClickHouse, <table>_final views ──> queries/*.sql ──> llmtap query NAME, web
	                                └─> stored: the shape of an exchange, for llmtap show and web

It does not import any other package of the project; the caller runs the queries.
*/
package dashboards
