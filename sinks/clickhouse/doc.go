/*
Package clickhouse stores rows in ClickHouse. The DSN selects the embedded engine over HTTP, or a server or cluster over
HTTP or the native protocol.

	Batch ──> findings   ──┐
	          tool_calls ──┤  one insert per table,           findings (ReplacingMergeTree) ──> findings_final (FINAL)
	          exchanges  ──┤  parts before the whole    ──>   …                                 …
	          alerts     ──┘

The input consists of batches of rows; a batch may be written several times. The output consists of tables, which may
contain a row twice for some time, and <table>_final views, which never show a row twice. People and dashboards read the
views.

# Schema

schema/ contains numbered migrations, one file per table. Open applies pending migrations in order and records each with
the SHA-256 of its file in the table migrations. Every statement must be idempotent (IF NOT EXISTS), because ClickHouse
has no transactions for DDL: two processes that start concurrently both run a migration, and a process that crashed
half-way runs it again. An applied file is never edited. A change to a table is a new file, which also recreates the
view with CREATE OR REPLACE VIEW, because a view keeps the columns with which it was created.

Columns have the Go names in snake_case; durations are in seconds. columns.go defines the values of each column,
tables.go the tables.

# Clusters

The same files create the tables of a cluster (cluster.go). Each CREATE TABLE becomes two statements ON CLUSTER: for a
replicated table <table>_local and a Distributed table <table>. Forms of statements that cannot be rewritten are errors.
Rows are inserted into the Distributed tables, and an insert waits for the shards. Inserting into local tables would
save a hop. However, two versions of a row that are written through two servers, for example after a failover, would be
on two shards, and FINAL on each shard would return its version. For the same reason, the sharding key is derived from
the sort key. The views read the Distributed tables; FINAL is applied on each shard.

# Why these sort keys

A ReplacingMergeTree merges rows with the same sort key into one. The key therefore ends with the id of the row and
contains no column that may differ when a row is written again; each schema file lists these columns. The same applies
to partitions, because rows with the same id in two partitions would never be merged.

The sort keys of exchanges and tool calls begin with the hour. FINAL merges all granules whose keys overlap, even if a
skip index excludes them, and parts of different times do not overlap if their keys begin with the time. A question about
an hour then reads an hour. With the service first, FINAL read the keys of all 10 million exchanges, 532 MB, to count the
failed ones, which otherwise are 1 MB. An hour instead of the time does not depend on the precision of a clock.

No time of a finding is constant, so findings are in order of conversation, and not partitioned. A projection of keys by
time finds those of a short time range; {filter findings} of the queries adds the condition.

# Why FINAL instead of materialised views

A materialised view counts every insert, including a repeated insert of the same row. FINAL is exact.

# Why columns instead of rows

Each column of a batch is passed to the client as one typed slice. The client's Append method for rows would cost an
allocation for each value, because it receives values as interfaces. BenchmarkWrite stores 69,000 exchanges/s, 74 MB/s,
in the embedded engine on the same 2 busy cores, with 20 allocations per row, most of them in the client.
*/
package clickhouse
