// Package chdb runs ClickHouse without a ClickHouse server: its engine as a library (libchdb) in a supervised child
// process that speaks ClickHouse's HTTP interface on loopback. The rest of the project sees a DSN.
//
//	parent: Server                               child: RunChild (the same binary)
//	  FindLibrary: env, cache, npm                 engine: libchdb through purego
//	  lock of the directory                        httpd: HTTP interface
//	  listening socket ──────── fd 3 ────────────>   accepts
//	  config, password ──────── stdin ───────────> stays open; its end ends the child
//	  metrics, log     <─────── fd 4 ──────────── one JSON line per statement
//
//	Dir/llmtap.lock   held by the parent; says who it is and its DSN (mode 0600)
//	Dir/config.xml    written by the child at every start, with users.xml
//	Dir/data          the engine's own directory
//
// # Why a child process
//
// The engine is 566 MB of C++: when it aborts or is killed for memory, the collector must live on. A child that dies
// is started again, with back-off; 15 kills with SIGKILL under load lost no acknowledged batch and left no partial
// one. A restart takes 0.1 to 0.5 s.
//
// # Why the parent owns the socket
//
// The port stays the same over restarts, and clients that connect meanwhile wait in the socket's queue instead of
// being refused.
//
// # Why HTTP
//
// clickhouse-go speaks it, and a request maps to a connection of the library one to one. Its native protocol would
// need every block transcoded (see httpd for why HTTP does not).
//
// # Safety
//
// Loopback only, with a password made anew at every start, handed over on stdin. The user has grants on tables but
// on no source of files or URLs; INTO OUTFILE, FROM INFILE and the function file, which grants do not cover, are
// refused by their tokens. The child has an environment of its own without the parent's secrets.
package chdb
