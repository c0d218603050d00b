/*
Package sinks writes rows of the analyzer and the alerts to storage.

	analyzer ── rows, commit ──> Batcher ── one batch ──> Sink ── stored ──> commit (the checkpoint)
	                             fills the next           clickhouse, jsonl
	                             batch meanwhile            │
	                                  └── poison rows <─────┘ refused ──> dead letters

The input consists of groups of rows, each with a commit function that moves the reader's checkpoint past the rows. Run
stores the rows of a batch and then calls its newest commit. Sinks retain one row per id, so a crash between the two
steps only causes a second write.

# Why batches of 10,000 rows, 16 MB or 1 s

ClickHouse creates one part per insert. Batches of 1,000 rows stored 31 k rows/s and batches of 10,000 rows 48 k rows/s
(2.3 KB per row, embedded engine, 2 cores); 50,000 rows were no faster and tripled the duration of a write. One second
bounds the latency at low rates, and merges keep up with one part per second.

# Why one batch in flight

Commits must be called in order, and a second concurrent insert gains little on the machines this runs on. While one
batch is written, the next one is filled. When that batch is full as well, Add blocks, the reader stops, and rows wait
in the stream, which is on disk.

# Why nothing is dropped

The checkpoint moves only after the rows are stored. Writes to an unavailable sink are retried until it is available
again. Rows not stored when the process ends are read again from the stream.

# Why a refusal is verified

A row that its table refuses (because of a constraint or a value out of range) would block all later rows forever. It
therefore becomes a dead letter, and the other rows are stored. However, a table that was altered may refuse every row,
and 10,000 dead letters per second would be a loss of data. A row therefore becomes a dead letter only after the same
table has just accepted another row, and only up to 100 rows per batch and table. Otherwise the batch is retried with
backoff until an operator has repaired the table; Health and the log report the error.
*/
package sinks
