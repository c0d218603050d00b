/*
Package sinks writes rows of the analyzer and the alerts to storage.

	analyzer ── rows, commit ──> Batcher ── one batch ──> Sink ── stored ──> commit (the checkpoint)
	                             fills the next           clickhouse, jsonl
	                             batch meanwhile            │
	                                  └── poison rows <─────┘ refused ──> dead letters

The input is rows, and for each group of rows a commit function that moves the checkpoint of the reader past them. Run
stores the rows of a batch and then calls its newest commit. A sink keeps one row per id, so a crash between the two steps
only causes a second write.

# Why batches of 10,000 rows, 16 MB or 1 s

ClickHouse creates one part per insert. Batches of 1,000 rows stored 31 k rows/s and batches of 10,000 rows 48 k rows/s
(2.3 KB per row, embedded engine, 2 cores); 50,000 rows were no faster and tripled the duration of a write. One second is
the latency at low rates, and merges keep up with one part per second.

# Why one batch in flight

Commits must move forward in order, and a second concurrent insert gains little on the machines this runs on. While one
batch is written, the next one is filled; when that is full, too, Add blocks, the reader stops, and the stream, which is
on disk, is the queue.

# Why nothing is dropped

The checkpoint moves only after the rows are stored. Writes to an unavailable sink are retried until it is back; rows not
stored when the process ends are read again from the stream.

# Why a refusal is verified

One row that its table refuses (a constraint, a value out of the range of its type) would block all rows after it forever,
so it becomes a dead letter and the other rows are stored. But an altered table refuses every row, and 10,000 dead letters
per second would be a loss. So a row becomes a dead letter only after the same table has just accepted another one, at most
100 rows per batch and table. Otherwise the batch is retried with backoff until an operator has repaired the table; Health
and the log report it.
*/
package sinks
