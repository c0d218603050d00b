/*
Package clickhouse stores rows in ClickHouse. The DSN selects the embedded engine over HTTP, or a server or cluster over
HTTP or the native protocol.

	Batch ──> findings   ──┐
	          tool_calls ──┤  one insert per table,           findings (ReplacingMergeTree) ──> findings_final (FINAL)
	          exchanges  ──┤  parts before the whole    ──>   …                                 …
	          alerts     ──┘

The input consists of batches of rows; a batch may be written several times. The output consists of tables, which may
contain a row twice for some time, and <table>_final views, which never show a row twice. People and Grafana read the
views; llmtap's own statements read tables with FINAL, which ClickHouse plans in less time, and Query sets what the views set.

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

# Verification

Verify (verify*.go) uses a server or cluster as llmtap does, in a database that it creates and drops, because only the
servers of an operator show whether llmtap works with them. Each step is independent of the tests here, which have one engine,
no Keeper, and an adapter for the native protocol.

# Why these sort keys

A ReplacingMergeTree merges rows with the same sort key into one. The key therefore ends with the id of the row and
contains no column that may differ when a row is written again; each schema file lists these columns. The same applies
to partitions, because rows with the same id in two partitions would never be merged.

The sort keys of exchanges and tool calls begin with the hour. FINAL merges all granules whose keys overlap, even if a
skip index excludes them, and parts of different times do not overlap if their keys begin with the time. A query for an
hour then reads about an hour. Of 10 million exchanges, a count of the failed ones read 532 MB with the service first, and 2
MB with the hour first and the older months merged. An hour instead of the time does not depend on the precision of a clock.

No time of a finding is constant, so findings are in order of conversation, and not partitioned. A projection of keys by
time finds those of a short time range; {filter findings} of the queries adds the condition.

# Why FINAL instead of materialised views

A materialised view counts every insert, including a repeated insert of the same row. FINAL is exact.

# Why inserts are encoded here

Over HTTP, the client copies a batch into columns and those into one buffer before it sends them: with bodies of 10 KB, a
third of all memory that the process allocated, and a quarter of its CPU. encode.go writes ClickHouse's Native format from
the rows straight to the request. Over the native protocol, each column is passed to the client as one typed slice.

# Why inserts are cheap and merges are few

Each of these was measured with bodies of 10 KB, in CPU seconds of the engine per GB. An insert does not look for duplicates
in its block (optimize_on_insert = 0, 3 of 7.5), because views do. Skip indexes are built by merges only, because the word
index of messages costs more than everything else in an insert. The embedded engine does not compress the bodies of an
insert, but when it merges them (4 of 19). Merges wait for 10 parts, or 16 of messages, instead of 5, because a merge of
messages costs 9, of which the index is 4.5. Merged bodies have ZSTD(2): ZSTD(1) makes them 4 % larger for the same CPU,
ZSTD(3) 6 % smaller for 1.3 more.
*/
package clickhouse
