// Package chdb runs ClickHouse without a ClickHouse server: its engine as a library (libchdb) in a supervised child
// process that serves the HTTP interface of ClickHouse on loopback. The rest of the project uses its DSN.
//
//	parent: Server                               child: RunChild (the same binary)
//	  FindLibrary: env, cache, npm                 engine: libchdb through purego
//	  lock of the directory                        httpd: HTTP interface
//	  listening socket ──────── fd 3 ────────────>   accepts connections
//	  config, password ──────── stdin ───────────> stays open; the child exits when it is closed
//	  metrics, log     <─────── fd 4 ──────────── one JSON line per statement
//
//	Dir/llmtap.lock   held by the parent; contains its PID and its DSN (mode 0600)
//	Dir/config.xml    written by the child at every start, with users.xml
//	Dir/data          directory of the engine
//
// # Why a child process
//
// The engine is 566 MB of C++: the collector must survive when it aborts or is killed for its memory. A child that dies is
// restarted with backoff; 15 SIGKILLs under load lost no acknowledged batch and left no partial one. A restart takes 0.1
// to 0.5 s.
//
// # Why the parent owns the socket
//
// The port stays the same across restarts, and clients that connect in between wait in the accept queue.
//
// # Why HTTP
//
// clickhouse-go supports it, and a request corresponds to one connection of the library. The native protocol would require
// transcoding every block (see httpd for why HTTP does not).
//
// # Security
//
// The server listens on loopback only, with a new password for every start that is passed on stdin. The user has grants on
// tables but not on file and URL sources; INTO OUTFILE, FROM INFILE and the function file, which grants do not cover, are
// rejected by their tokens. The environment of the child does not contain the secrets of the parent.
package chdb
