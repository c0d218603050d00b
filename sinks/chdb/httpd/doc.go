// Package httpd serves ClickHouse's HTTP interface over connections of the engine library.
//
//	POST /?query=…&setting=…&param_x=…
//	   │ Host and Origin, password
//	   ▼
//	 request ── hello? ──> answered here (hello.go)
//	   │ slot of MaxConcurrentQueries
//	   ▼
//	 fresh connection (or the session's): SET settings, USE database
//	   ├─ INSERT … FORMAT f   body ──> insert stream; commits only a body that came whole
//	   ├─ SELECT, WITH        chunks ──> response as they come
//	   └─ all else            whole output ──> response
//
// # Why revision 0
//
// The engine writes its Native format without a client's protocol revision. clickhouse-go decodes the answer to its
// first query at its own revision and every later one at the revision that this answer names. So the first query is
// answered here and names revision 0, and what the engine writes needs no transcoding.
//
// # Why a connection per request
//
// Settings, current database, temporary tables and the left-overs of a failed statement live in a connection. A
// fresh one costs 0.15 ms and shares none of them.
package httpd
