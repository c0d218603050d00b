// Package httpd serves ClickHouse's HTTP interface on top of package engine.
//
//	POST /?query=…&setting=…&param_x=…
//	   │ Host and Origin, password
//	   ▼
//	 request ── hello? ──> handled here (hello.go)
//	   │ slot of MaxConcurrentQueries
//	   ▼
//	 new connection, or that of the session: SET settings, USE database
//	   ├─ INSERT … FORMAT f   body ──> insert stream; only a complete body is committed
//	   ├─ SELECT, WITH        chunks ──> response, one by one
//	   └─ other               whole output ──> response
//
// # Why revision 0
//
// The engine writes its Native format without the protocol revision of the client. clickhouse-go decodes the response
// to its first query at its own revision, and later responses at the revision in the first response. This package
// answers the first query itself and reports revision 0, so the output of the engine requires no transcoding.
//
// # Why a connection per request
//
// Settings, the current database, temporary tables and the partial output of a failed statement belong to a connection.
// A new connection has no such state and costs only 0.15 ms.
package httpd
