// Package jetstream stores events in NATS JetStream and reads them back in order.
//
//	Publisher ──async, bounded window──> LLMTAP       llmtap.v1.>      events
//	PublishBatch ──async, bounded window──> │
//	       one reader per partition         v
//	Reader <── Next: batches <── bounded buffer <── follower
//	   │                                        └──undecodable──> LLMTAP_DEAD  llmtap.dead.<reason>
//	   └─ Commit(stored, replay_from) ──compare-and-set──> bucket llmtap_checkpoint
//
//	PublishTally ──> LLMTAP_TALLY  llmtap.tally.<partition> ──> ReadTallies
//	WithLease: leader election of a role     Heartbeat, Deregister: the number of live processes
//
// A reader returns the published events with their stream sequence. Each event is marked as a replay, whose effects
// are already stored and which only rebuilds state, or as new, whose effects must be stored.
//
// # Why no acknowledgements
//
// An analyzer has state: after a restart it needs events that it processed before, and must not count them again.
// Per-message acknowledgements cannot express that. A checkpoint therefore has two sequences: the effects of all
// events up to stored are in the store, and the state needs the events from replay_from on. A reader starts at
// replay_from and marks events up to stored as replays.
//
// # Why a lease
//
// Two processes may store the same rows, because rows are idempotent, but only one may move the checkpoint. The
// checkpoint contains an owner, an expiry time and an epoch, and is only written by compare-and-set, so a process
// that was paused until its lease expired fails at its next commit. Clocks only determine when another process
// attempts a takeover, so a wrong clock can cause a needless takeover, but never loses an event.
//
// # Why a leader stops before its lease ends
//
// What a leader sends to people has no compare-and-set. A process leads for 3/4 of the TTL after the last renewal, by its
// own clock and counted from the moment at which it sent the request; another one leads when it has seen the same revision
// for the whole TTL, by its own clock. However slow NATS is, and whatever the clocks show, the first has stopped by then.
// The time in between is for the request that it may be waiting for. A leader renews eight times in a TTL of 8 s, and tries
// more than once, so that a slow NATS or a restart does not end its term. A standby that could not read the lease for half
// of the TTL starts to count again: while NATS is away, nobody can renew.
//
// # Why the server filters partitions
//
// Partition p of N is a consumer filtered by the subjects of its shards, instead of a consumer of the whole stream
// that skips events of other partitions. On one machine with 2 cores, all partitions together read 477 MB/s instead
// of 298 with N = 2 and 340 instead of 166 with N = 4 (10 kB events), and no event is transferred between machines N
// times. N = 1 has no filter and reads 423 MB/s. Shards in upper case are also valid, so the filter includes them,
// which costs a fifth of that gain. The drawback is that a reader does not see the sequences of other partitions. It
// knows only the total number of events that the stream dropped unread, and each partition counts 1/N of them. An
// event whose shard is not a number belongs to no partition, so with N > 1 it never becomes a dead letter.
//
// # Why repartitioning is a handover
//
// Checkpoints of N partitions cannot be converted to checkpoints of M partitions, because partitions are at different
// sequences, and their tallies, which do not wait for the store, are ahead of their checkpoints. Starting at the
// oldest checkpoint would count some seconds twice; starting at the newest would lose some. Therefore the old
// partitions are first read up to a common point, the end of one second (see Repartition). That point is near the
// newest checkpoint, not at the end of the stream; the new partitions read the backlog. Repartitioning requires the
// store. While the store is down, repartitioning and alerts wait.
//
// # When NATS is unreachable
//
// A reader returns nothing until NATS is back, then continues after its last message. A publisher retains its
// unacknowledged events and resends them in order. JetStream drops duplicates by message id within its duplicate
// window of 10 s. After a longer outage, events whose acknowledgements were lost (at most one window of the publisher)
// are in the stream twice. The analyzer ignores the second copies of calls; those of tools and runs change nothing.
//
// A server that is cut off from the network does not close the connection. Pings find that within 10 s, and the next server
// is tried.
//
// PublishBatch fails at once while NATS is not connected, and publishes nothing later: its caller holds the events.
//
// # Why a checkpoint has a timestamp
//
// A server writes messages to the disk later than it acknowledges them. After a power failure the stream ends before the
// checkpoint, and what hooks publish next has the sequences of lost messages, up to the checkpoint and beyond, before a reader
// looks. The message at a checkpoint is therefore recognised by its timestamp, and so is the last message of a reader whose
// server has restarted. If it is another one, the stream is read from the first message that is newer than the checkpoint.
//
// # Frames
//
// A message may carry many events, see package event. They have its sequence, and its time and 1 ns more for each, and Next returns
// them together. A sequence thus stays the unit of checkpoints, replays, leases, gaps and versions of rows, and only dead letters name the
// index of an event. Messages that leave the stream unread count as one lost event each, since nobody knows how many they had.
// Publishers wait up to 20 ms for more events where nobody waits for an acknowledgement. Batches go without frames: see newBatches. If the stream has a maximum message size below
// that of the server, the first frame that is too large is sent again as single events, behind later ones.
//
// An erasure deletes whole frames. Publishers put events together only if an erasure concerns all of them or none. If a frame has
// other events nevertheless, it is deleted once their effects are stored.
//
// # Why stream time never goes back
//
// See Clock.
//
// # Why batches have publishers of their own
//
// Flush waits for the events of all callers and returns the first of their errors. A request over HTTP must be answered
// with the outcome of exactly its own events, in time. Each batch therefore uses one of a few idle publishers alone: its
// events are in order, are sent again in order after an interruption, and share a window with nobody.
//
// # Bounds
//
// A reader buffers at most 500 messages or 6 MiB, plus one pull of 250 messages or 4 MiB in flight, of which the embedded
// server has another copy. The bytes are divided by N. Pulls of 16 messages read 43 % slower than pulls of 500, but the
// more there are in memory, the more often garbage is collected. When both are full the reader stops pulling, and the
// backlog stays in the stream. A publisher blocks its caller when its window is full. Events that the stream drops before
// they are read are counted as lost.
package jetstream
