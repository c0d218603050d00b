// Package httpd serves the HTTP interface of ClickHouse with connections of the engine library.
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
// The engine writes its Native format without the protocol revision of the client. clickhouse-go decodes the response to its
// first query at its own revision and later ones at the revision in that response. So this package handles the first query
// with revision 0, and the output of the engine requires no transcoding.
//
// # Why a connection per request
//
// Settings, the current database, temporary tables and the partial output of a failed statement are state of a connection. A
// new connection costs 0.15 ms and has none of it.
package httpd
