/*
Package clickhouse stores rows in ClickHouse: the embedded one over HTTP, or a real server or cluster over HTTP or the
native protocol. It sees only a DSN.

	Batch ──> findings   ──┐
	          tool_calls ──┤  one insert per table, the       findings (ReplacingMergeTree) ──> findings_final (FINAL)
	          exchanges  ──┤  parts before the whole    ──>   …                                 …
	          alerts     ──┘

What comes in: batches of rows, each any number of times. What goes out: tables that may hold a row twice for a while,
and <table>_final views that never show it twice. People and dashboards read the views.

# Schema

schema/ holds numbered migrations, one table a file. Open applies what is missing, in order, and writes it down in the
table migrations with the file's SHA-256. Every statement must do nothing when it is run again (IF NOT EXISTS), because
ClickHouse has no transactions for them: two processes that start at once both run it, and one that died half-way runs
it again. An applied file is never edited; a change is a new file.

Columns are the Go names in snake_case, in the order of the tables in columns.go; durations are seconds.

# A cluster

The same files make the tables of a cluster (cluster.go): each statement is read, and becomes ON CLUSTER a replicated
table <table>_local and a Distributed one, <table>; a form without a rule is an error. Rows are inserted into the
Distributed tables, and the insert waits for the shards. Inserting into local ones would spare a hop, but then two
versions of a row that are written through two servers, after a failover say, would lie on two shards, where FINAL sees
each as the only one. The sharding key is for the same reason made of the sort key. The views read the Distributed
tables: FINAL is done on each shard.

# Why these sort keys

A ReplacingMergeTree makes one row of those with the same sort key. The key therefore ends in the row's id and holds
nothing that may differ when a row is written again; each schema file says what may. Partitions obey the same rule,
else two rows of one id would stand in two partitions and never merge. A sort key by day, not by time, does not care
when a clock is read twice, and costs nothing: UUIDv7 ids are in order of time within the day.

Findings have no time that stays the same, so they have no partitions. A table of 5 million finding rows (2.5 million
findings, 220 MB) answers for the last hour in 0.8 s and for one conversation in 0.04 s (2 busy cores).

# Why FINAL and no roll-ups by materialised views

A materialised view counts each insert, also the second one of a row. FINAL is exact.

# Why columns, not rows

Each column of a batch is built as one typed slice and handed to the client as such; values in an interface each (the
client's Append) cost an allocation per value. BenchmarkWrite stores 69,000 exchanges/s, 74 MB/s, into the embedded
engine on the same 2 busy cores: 20 allocations per row, most of them the client's.
*/
package clickhouse
