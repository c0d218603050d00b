// Package ledger remembers for weeks what the analyzer of a partition has seen: the first occurrence of each defect and of
// each cause of failures, the versions of services, and what providers answered to violations. It answers "since which
// version" and "whose change" when ClickHouse is unreachable.
//
// # Why nothing is counted twice
//
// Entries are stored after the rows and before the checkpoint, so stored entries may be ahead of the checkpoint, never
// behind it. An entry that is ahead of the stream stays unchanged until the stream has caught up: each entry has the
// position of its last occurrence, and an occurrence at or before that position is in the entry already.
package ledger
