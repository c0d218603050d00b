// Package natsserver runs a nats-server with JetStream in this process, for installations without their own NATS.
// Clients connect to its URL as to an external NATS server.
//
//	Start(cfg) ──> lock cfg.Dir ──> listen on cfg.Host:cfg.Port ──> recover streams ──> ready: URL()
//	Shutdown() ──> close clients ──> flush and close streams ──> unlock
//
// # Why a lock
//
// nats-server does not detect a second server on the same directory, and two servers corrupt each other's files.
// Start takes an advisory lock (flock) on a file in the directory; the kernel releases it when the process dies, so a
// killed process leaves no stale lock.
//
// # What clients may do
//
//	token                          may
//	of this machine (Token)        everything
//	collector_token                everything
//	token, or none if none is set  publish events, receive the acknowledgements
//	service_tokens                 the same, events of that service only
//
// Without it, any user of the machine could read, change and delete what agents publish.
//
// # Refused clients
//
// nats-server logs each refused connection, and a hook without the token tries once a second. Server therefore checks the
// token itself: it counts refused connections by address, client and reason, and logs each client at a growing interval.
// Refused also lists clients that nats-server disconnected.
//
// # A full disk
//
// After a write error nats-server takes nothing for that stream until it is restarted, even if the disk has room again.
// WriteError reports that, and Restart ends it. Its user should keep a reserve of the disk, so that it does not happen.
//
// # Durability
//
// An acknowledged event survives a crash of the process. It is synced to disk within two minutes (JetStream's
// default; a sync per message reduced publishing from 83,000 to 14,000 messages per second), so a power failure can
// lose the last two minutes. If that is unacceptable, run three NATS servers and configure their URL.
package natsserver
