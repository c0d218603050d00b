// Package jetstream keeps events in NATS JetStream and reads them back in order.
//
//	Publisher ──async, a window in flight──> LLMTAP       llmtap.v1.>      events
//	                                            │
//	           one reader per partition         v
//	Reader <── Next: batches <── bounded buffer <── follower
//	   │                                        └──undecodable──> LLMTAP_DEAD  llmtap.dead.<reason>
//	   └─ Commit(stored, replay_from) ──compare-and-set──> bucket llmtap_checkpoint
//
//	PublishTally ──> LLMTAP_TALLY  llmtap.tally.<partition> ──> ReadTallies
//	Hold, Present: a lease on any role, and who is there
//
// What comes in is events; what goes out is the same events, numbered by the stream, and for each whether its effects
// are stored already (a replay, to rebuild state) or are to be stored now.
//
// # Why no acknowledgements
//
// An analyzer has state: to go on after a restart it needs events that it has handled before, and it must not count them
// again. Acknowledging single messages says neither. So a reader keeps two numbers: up to stored every effect is in the
// store, and from replay_from on events are needed for state. It starts at replay_from and marks what is up to stored.
//
// # Why a lease
//
// Two processes that both store are harmless, rows are idempotent; two that both move the checkpoint are not. The
// checkpoint holds an owner, a time and an epoch, and is only ever written by compare-and-set, so a process that slept
// through its lease learns so at its next commit. The clocks of two processes only decide when the second one tries: a
// wrong clock costs a take-over, never an event.
//
// # Why partitions are filtered by the server
//
// Partition p of N is a consumer with the subjects of its shards, and not one of everything that skips what is of others:
// on one machine of 2 cores, all partitions together read 477 MB/s instead of 298 with N = 2 and 340 instead of 166 with
// N = 4 (10 kB events), and between machines nothing travels N times. N = 1 has no filter and reads 423. Shards in capitals
// decode as well, so they are filtered too, which takes a fifth of that gain. The price is that a reader does not see the
// sequences of others: what the stream dropped before it was read is known as a number only, of which each partition counts
// an Nth. And a subject whose shard is no number belongs to no partition: with N > 1 it becomes no dead letter.
//
// # Why a new N needs a cut
//
// A checkpoint of one N says nothing exact about another: partitions are at different sequences, and their tallies, which
// do not wait for the store, are further on. A start at the oldest of them would count seconds twice, a start at the newest
// would lose some. So the old partitions are first brought to the same place, the end of one second: see Cut. That is
// near the newest of them, not the end of the stream: a backlog is read by the new partitions. It needs the store; while
// that is away, nothing is cut, and alerts stand still until it is back.
//
// # When NATS goes away
//
// A reader returns nothing until NATS is back, then goes on after its last message; a publisher keeps its window and
// sends it again, in order. Message ids make that exact within JetStream's duplicate window of two minutes: after a
// longer break, events that were stored but whose acknowledgements were lost, at most one window, are stored twice.
//
// # Bounds
//
// A reader holds at most 2000 messages or 32 MiB ready, and one pull of 1000 messages or 33 MiB on its way, each divided by
// N; a pull of 16 messages read 43 % slower than one of 500, one of 2000 hardly faster. When both are full the reader
// stops asking, and the backlog stays in the stream. A publisher holds its window and then makes its caller wait. What the
// stream drops before it was read is counted as lost.
package jetstream
