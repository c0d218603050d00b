/*
Package sinks takes rows from the analyzer and the alerts to storage.

	analyzer ── rows, commit ──> Batcher ── one batch ──> Sink ── acknowledged ──> commit (the checkpoint)
	                             fills the next           clickhouse, jsonl
	                             while one is written       │
	                                  └── poison rows <─────┘ refused ──> dead letters

What comes in: rows, and for each group of rows a commit function that moves the reader's checkpoint past them. What
goes out: stored rows, then the newest commit of the batch. A sink keeps one row per id, however often it is written,
so a crash between the two costs a second write and nothing else.

# Why batches of 10,000 rows, 16 MB or 1 s

ClickHouse makes one part per insert. Batches of 1,000 rows gave 31 k rows/s and of 10,000 rows 48 k rows/s (2.3 KB a
row, embedded engine, 2 cores); 50,000 rows gave no more and tripled the time of a write. One second is what a reader
waits at low rates, and one part a second is what merges keep up with.

# Why one batch in flight

Commits must move forward in order, and a second insert in flight gains little on the machines this runs on. While a
batch is written the next one fills; when that is full too, Add blocks, the reader stops, and the stream, which is on
disk, is the queue.

# Why nothing is dropped

The checkpoint moves only after the rows are stored. A sink that is down is retried until it is back; rows that are in
hand when the process ends are read again from the stream.

# Why a refusal is doubted

One row that its table refuses (a constraint, a value that a type has no room for) would hold up all behind it for
ever, so it becomes a dead letter and the rest is stored. But a table that was changed refuses every row, and 10,000
dead letters a second would be a loss. So no row is given up before the same table has taken another one just now, and
of one batch and table no more than 100; else the batch is tried again, with back-off, until an operator has repaired
the table, and Health and the log say so.
*/
package sinks
