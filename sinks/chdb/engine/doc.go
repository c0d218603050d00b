// Package engine binds libchdb, ClickHouse's engine as a shared library, through purego.
//
//	Load ──> Library ── Connect ──> Conn ── Query         whole output in one piece
//	                                     ├─ Stream ──> Next, Next, …, Close
//	                                     ├─ Insert ──> Write, Write, …, Commit or Cancel
//	                                     └─ Classify     effect of a statement
//
// A Conn runs one statement at a time and must not be used concurrently; connections are independent of each other.
// Connecting to a running engine costs 0.15 ms, so callers use a new connection per request.
//
// # Pitfalls of the library
//
// The first Connect starts the engine and closing the last connection stops it, so one connection must stay open. The
// library has one data directory per process. By default it installs signal handlers that kill Go programs; Load
// disables them. After a failed statement, the next statement on the same connection returns the partial output of the
// failed statement. An abort inside the engine ends the process, so the engine runs in a child process (see package
// chdb).
package engine
