// Package natsserver runs a nats-server with JetStream inside the process, for one machine that has no NATS of its own.
// What comes in is a directory; what goes out is a URL, and from there on nothing in llmtap knows whether the NATS it
// talks to is this one or a cluster.
//
//	Start(cfg) ──> lock cfg.Dir ──> listen on cfg.Host:cfg.Port ──> recover streams ──> ready: URL()
//	Shutdown() ──> close clients ──> flush and close streams ──> unlock
//
// # Why a lock
//
// nats-server does not notice a second server on the same directory, and two of them destroy each other's files. Start
// takes an advisory lock (flock) on a file in the directory; the kernel drops it when the process dies, so nothing is
// left behind after a kill.
//
// # What survives what
//
// An acknowledged event survives the death of the process. It is on the disk itself up to two minutes later (JetStream's
// default; a sync per message took publishing from 83,000 to 14,000 messages a second), so a power cut can lose the last
// two minutes. Who cannot accept that runs three NATS servers and gives llmtap their URL.
package natsserver
