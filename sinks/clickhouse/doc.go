/*
Package clickhouse stores rows in ClickHouse: in the embedded engine over HTTP, or in a server or cluster over HTTP or the
native protocol, as selected by a DSN.

	Batch ──> findings   ──┐
	          tool_calls ──┤  one insert per table,           findings (ReplacingMergeTree) ──> findings_final (FINAL)
	          exchanges  ──┤  parts before the whole    ──>   …                                 …
	          alerts     ──┘

The input is batches of rows, each written any number of times. The output is tables that may contain a row twice for some
time, and <table>_final views that never show it twice. People and dashboards read the views.

# Schema

schema/ contains numbered migrations, one file per table. Open applies pending migrations in order and records each with the
SHA-256 of its file in the table migrations. Every statement must be idempotent (IF NOT EXISTS), because ClickHouse has no
transactions for DDL: two processes that start concurrently both run it, and a process that crashed half-way runs it again.
An applied file is never edited; a change is a new file, which also recreates the view with CREATE OR REPLACE VIEW, because
a view keeps the columns it was created with.

Columns are the Go names in snake_case; durations are seconds. columns.go has the value of each column, tables.go the tables.

# Clusters

The same files create the tables of a cluster (cluster.go): each statement is parsed and becomes, ON CLUSTER, a replicated
table <table>_local and a Distributed table <table>; any other form of statement is an error. Rows are inserted into the
Distributed tables, and the insert waits for the shards. Inserting into local tables would save a hop, but two versions of a
row written through two servers, after a failover for example, would be on two shards, where FINAL treats each as the only
one. For the same reason the sharding key is derived from the sort key. The views read the Distributed tables; FINAL is
applied on each shard.

# Why these sort keys

A ReplacingMergeTree merges rows with the same sort key into one. The key therefore ends with the id of the row and contains
nothing that may differ when a row is written again; each schema file lists what may differ. The same is true of partitions,
because rows of one id in two partitions would never be merged. A sort key by day instead of time does not depend on the precision
of a clock and costs nothing: UUIDv7 ids are ordered by time within the day.

Findings have no constant time, so they have no partitions. A table of 5 million finding rows (2.5 million findings, 220 MB)
answers queries for the last hour in 0.8 s and for one conversation in 0.04 s (2 busy cores).

# Why FINAL instead of materialised views

A materialised view counts every insert, including the second one of a row. FINAL is exact.

# Why columns instead of rows

Each column of a batch is built as one typed slice and passed to the client as such; with the Append method of the client,
each value in an interface costs an allocation. BenchmarkWrite stores 69,000 exchanges/s, 74 MB/s, in the embedded engine on
the same 2 busy cores: 20 allocations per row, most of them in the client.
*/
package clickhouse
