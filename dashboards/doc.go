/*
Package dashboards contains SQL queries and web pages for on-call engineers who investigate an alert.

	ClickHouse, tables with FINAL   ──> queries/*.sql ──> llmtap query NAME, web
	                                ├─> stored: the shape of an exchange, for llmtap show and web
	                                └─> differs: what some calls have in common, for all of them

The caller runs the queries.
*/
package dashboards
