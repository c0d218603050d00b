package clickhouse

import (
	"context"
	"io"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/llmtap/llmtap/sinks"
)

// A table describes how a table in sinks.Tables is stored in ClickHouse. Its DDL is in schema/.
type table struct {
	sinks.Table
	columns   []string
	insertSQL string
	// encode writes the rows in b, for a server that is reached over HTTP; send sends them over the native protocol.
	encode func(e *encoder, w io.Writer, b *sinks.Batch) error
	send   func(ctx context.Context, conn driver.Conn, b *sinks.Batch) error

	// ageColumn is the column of the time at which retention starts: when the row was stored, or stream time. Agents' clocks may be
	// wrong, and imported traffic may be older than the retention.
	ageColumn string
	// The hash of shardKey, an expression over shardColumn, selects the shard of a row. Rows that replace each other
	// must be on the same shard, so shardColumn is in the sort key. If the conversation of a row never changes,
	// shardColumn is the conversation, so that queries for one conversation read only one shard.
	shardColumn, shardKey string
}

// tables describes the tables in sinks.Tables, in the same order.
var tables = []*table{
	define(sinks.Findings, findingColumns, "stored_at", "conversation_id"),
	define(sinks.ToolCalls, toolCallColumns, "stored_at", "id"),
	define(sinks.Contents, contentColumns, "seen_at", "id").shardBy("substring(id, 1, 12)"), // the millisecond in which the conversation began
	define(sinks.History, historyColumns, "seen_at", "conversation_id"),
	define(sinks.Exchanges, exchangeColumns, "stored_at", "exchange_id"), // the conversation may become known later
	define(sinks.Runs, runColumns, "seen_at", "id"),
	define(sinks.Alerts, alertColumns, "started_at", "alert_id"),
	define(sinks.Actions, actionColumns, "at", "id"),
	define(sinks.Audit, auditColumns, "at", "id"),
}

func define[R any](t *sinks.TableOf[R], columns []column[R], ageColumn, shardColumn string) *table {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	insertSQL := "INSERT INTO " + t.Name() + " (" + strings.Join(names, ", ") + ")"
	return &table{
		Table: t, columns: names, insertSQL: insertSQL, ageColumn: ageColumn, shardColumn: shardColumn, shardKey: shardColumn,
		encode: func(e *encoder, w io.Writer, b *sinks.Batch) error { return encode(e, w, columns, t.Rows(b)) },
		send: func(ctx context.Context, conn driver.Conn, b *sinks.Batch) error {
			return send(ctx, conn, insertSQL, columns, t.Rows(b))
		},
	}
}

func (t *table) shardBy(key string) *table {
	t.shardKey = key
	return t
}

// tableNamed returns the table with this name, or nil.
func tableNamed(name string) *table {
	for _, t := range tables {
		if t.Name() == name {
			return t
		}
	}
	return nil
}
