// Package jetstream stores events in NATS JetStream and reads them back in order.
//
//	Publisher ──async, bounded window──> LLMTAP       llmtap.v1.>      events
//	                                        │
//	       one reader per partition         v
//	Reader <── Next: batches <── bounded buffer <── follower
//	   │                                        └──undecodable──> LLMTAP_DEAD  llmtap.dead.<reason>
//	   └─ Commit(stored, replay_from) ──compare-and-set──> bucket llmtap_checkpoint
//
//	PublishTally ──> LLMTAP_TALLY  llmtap.tally.<partition> ──> ReadTallies
//	WithLease: leader election of a role     Heartbeat, Deregister: the number of live processes
//
// A reader returns the published events with their stream sequence. For each event it reports whether its effects are
// already stored (a replay, which rebuilds state) or must be stored now.
//
// # Why no acknowledgements
//
// An analyzer has state: after a restart it needs events that it processed before, and must not count them again.
// Per-message acknowledgements support neither. A reader therefore keeps two sequences: every effect up to stored is in
// the store, and state needs the events from replay_from. It starts at replay_from and marks events up to stored as replays.
//
// # Why a lease
//
// Two processes that both store rows are harmless, because rows are idempotent; two processes that both move the
// checkpoint are not. The checkpoint contains an owner, an expiry time and an epoch, and is only written by
// compare-and-set, so a process that was paused past its lease fails at its next commit. Clocks only decide when another
// process attempts a take-over: a wrong clock causes a needless take-over, never a lost event.
//
// # Why the server filters partitions
//
// Partition p of N is a consumer filtered by the subjects of its shards, rather than a consumer of the whole stream that
// skips foreign events. On one machine with 2 cores, all partitions together read 477 MB/s instead of 298 with N = 2 and
// 340 instead of 166 with N = 4 (10 kB events), and between machines nothing is transferred N times. N = 1 has no filter
// and reads 423 MB/s. Upper-case shards decode too, so the filter includes them, which costs a fifth of that gain. The
// drawback is that a reader does not see the sequences of other partitions: only the total of the events that the stream
// dropped unread is known, and each partition counts an Nth of it. An event whose shard is not a number belongs to no
// partition, so with N > 1 it never becomes a dead letter.
//
// # Why repartitioning is a hand-over
//
// Checkpoints of N partitions do not translate to M partitions: partitions are at different sequences, and their tallies,
// which do not wait for the store, are ahead of them. Starting at the oldest checkpoint would count seconds twice,
// starting at the newest would lose some. So the old partitions are first read up to a common point, the end of one
// second: see Repartition. That point is near the newest checkpoint, not the end of the stream: the new partitions read
// the backlog. Repartitioning needs the store; while the store is down, it waits, and so do alerts.
//
// # When NATS is unreachable
//
// A reader returns nothing until NATS is back, then continues after its last message. A publisher keeps its window and
// sends it again, in order. Message ids deduplicate within JetStream's duplicate window of two minutes: after a longer
// outage, events that were stored but whose acknowledgements were lost, at most one window, are stored twice.
//
// # Bounds
//
// A reader buffers at most 2000 messages or 32 MiB, plus one pull of 1000 messages or 33 MiB in flight, each divided by
// N; pulls of 16 messages read 43 % slower than pulls of 500, pulls of 2000 hardly faster. When both are full the reader
// stops pulling, and the backlog stays in the stream. A publisher blocks its caller when its window is full. Events that
// the stream drops before they are read are counted as lost.
package jetstream
