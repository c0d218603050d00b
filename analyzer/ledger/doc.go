// Package ledger stores the long-term memory of a partition's analyzer, which spans weeks: the first occurrence of
// each defect and each cause of failures, the versions of services, the models that answer, and the providers' answers to violations. It
// answers "since which version" and "whose change" even while ClickHouse is unreachable. A violation that a model at a
// host accepted again and again is tolerated: it is no longer predicted to be rejected there, see Tolerance.
//
// # Why nothing is counted twice
//
// Entries are stored after the rows and before the checkpoint, so stored entries may be ahead of the checkpoint, never
// behind it. An entry ahead of the stream stays unchanged until the stream catches up: each entry has the position of
// its last occurrence, and already includes any occurrence at or before that position. Versions are stored last, so that the
// calls before a first occurrence, which its entry has, are not counted again with calls after it.
package ledger
