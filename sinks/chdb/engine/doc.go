// Package engine binds libchdb, ClickHouse's engine as a shared library, through purego.
//
//	Load ──> Library ── Connect ──> Conn ── Query         whole output at once
//	                                     ├─ Stream ──> Next, Next, …, Close
//	                                     ├─ Insert ──> Write, Write, …, Commit or Cancel
//	                                     └─ Classify     what a statement would do
//
// A Conn runs one statement at a time and must not be used by two goroutines at once; connections are independent
// of each other. Connecting to an engine that runs costs 0.15 ms, so a caller takes a fresh one per request.
//
// # Traps of the library
//
// The first Connect starts the engine and closing the last connection stops it: keep one open. The library has one
// data directory per process. It installs signal handlers that kill Go programs unless told not to; Load tells it.
// After a failed statement the next one on the same connection gets the failed one's partial output. An abort inside
// the engine ends the process, which is why it lives in a child (see package chdb).
package engine
