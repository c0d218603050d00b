/*
Package sinks writes rows of the analyzer and the alerts to storage.

	analyzer ── rows, commit ──> Batcher ── one batch ──> Sink ── stored ──> commit (the checkpoint)
	                             fills the next           clickhouse
	                             batch meanwhile            │
	                                  └── poison rows <─────┘ refused ──> dead letters

The input consists of groups of rows, each with a commit function that moves the reader's checkpoint past the rows. Run
stores the rows of a batch and then calls its newest commit. Sinks retain one row per id, so a crash between the two
steps only causes a second write.

# Why batches of 32 MiB, 1 s or 3 s

ClickHouse creates one part per insert, and merging parts cost more than inserting them. With bodies of 10 KB, the engine
needed 43 CPU seconds per GB with batches of 10,000 rows or 16 MB, and 25 with batches of 64 MiB and the same tables. With
the settings of package clickhouse, batches of 32 MiB need 11, and larger ones hardly less. One second bounds the latency at
low rates. Under load, a batch waits up to 3 s to become larger; alerts do not wait for it.

# Why texts are copied into the batch

The bodies of messages are most of the bytes. As strings on the heap, they were most of the garbage of the process. The
batch has memory of its own for them (arena.go), which it reuses.

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
