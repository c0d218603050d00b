// Package chdb runs ClickHouse without a ClickHouse server. It runs ClickHouse's engine, the library libchdb, in a
// supervised child process that serves ClickHouse's HTTP interface on loopback. The rest of the project only uses its
// DSN.
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
//	Dir/reader.dsn    address and password of the user who may only read, for people's own tools (mode 0600)
//
// # Why a child process
//
// The engine is 566 MB of C++. The collector must survive when the engine aborts or is killed because of its memory. A
// child that dies is restarted with backoff. In a test with 15 SIGKILLs under load, no acknowledged batch was lost and
// no partial batch was left. A restart takes 0.1 to 0.5 s.
//
// # Why the parent owns the socket
//
// The port stays the same across restarts, and clients that connect during a restart wait in the accept queue.
//
// # Why HTTP
//
// clickhouse-go supports it, and a request corresponds to one connection of the library. The native protocol would require
// transcoding every block (see httpd for why HTTP does not).
//
// # Security
//
// The server listens only on loopback. Its password is generated at every start and passed on stdin. The user has
// grants on tables but not on file and URL sources. INTO OUTFILE, FROM INFILE and the function file are not covered by
// grants, so statements with these tokens are rejected. The environment of the child does not contain the secrets of
// the parent.
package chdb
