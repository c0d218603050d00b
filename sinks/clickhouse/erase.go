package clickhouse

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

// An ErasureSubject is a conversation, or a value of the user label, whose rows are erased. Exactly one field must be
// set.
type ErasureSubject struct{ Conversation, User string }

// An Erasure is the set of rows that belong only to one ErasureSubject.
type Erasure struct {
	// Conversations are erased completely. For a user, these are the conversations without calls of other users. In
	// other conversations, only the calls of the user are erased, and messages used by the remaining calls are kept.
	Conversations []string
	Exchanges     []string
	Inferred      bool              // the conversation of at least one exchange was inferred
	Rows          map[string]uint64 // number of rows by table; for alerts, rows whose example is removed

	subject  ErasureSubject
	messages []string
	alerts   []string
}

// SQL fragments for a subject: its rows, the message ids that they reference (erasedRefs), and the message ids that
// other rows reference (keptRefs). Ids are bound in hex because the two protocols disagree on the meaning of a
// backslash or a quote in a bound array.
const (
	conversations  = `arrayMap(x -> unhex(x), {conversations:Array(String)})`
	user           = `unhex({user:String})`
	erasedRows     = `(conversation_id IN ` + conversations + ` OR user != '' AND user = ` + user + `)`
	erasedExchange = `(SELECT exchange_id FROM exchanges WHERE ` + erasedRows + `)`
	messageRefs    = `arrayJoin(arrayConcat(lead, mapValues(marked), [parameters, answer]))`
	erasedRefs     = `(SELECT ` + messageRefs + ` AS ref FROM exchanges WHERE exchange_id IN ` + erasedExchange + `
		UNION ALL SELECT message_id FROM history WHERE conversation_id IN ` + conversations + `)`
	keptRefs = `(SELECT ` + messageRefs + ` AS ref FROM exchanges WHERE exchange_id NOT IN ` + erasedExchange + `
		UNION ALL SELECT message_id FROM history WHERE conversation_id NOT IN ` + conversations + `)`
)

// erasedTables lists the tables with rows of a subject in the order of deletion. exchanges is last, because PlanErasure
// finds the other rows through it.
var erasedTables = []struct{ name, where string }{
	{"history", `conversation_id IN ` + conversations},
	{"tool_calls", erasedRows},
	{"findings", erasedRows},
	{"runs", erasedRows},
	{"exchanges", erasedRows},
}

// maxIDs is the maximum number of ids in one statement.
const maxIDs = 500

// PlanErasure finds the rows that Erase would delete, without changing anything.
func (s *Sink) PlanErasure(ctx context.Context, subject ErasureSubject) (*Erasure, error) {
	e := &Erasure{subject: subject, Rows: map[string]uint64{"messages": 0}}
	if subject.Conversation != "" {
		e.Conversations = []string{subject.Conversation}
	} else {
		var err error
		e.Conversations, err = s.strings(ctx, `SELECT conversation_id FROM exchanges
			WHERE conversation_id != '' AND conversation_id IN (SELECT conversation_id FROM exchanges WHERE user = `+user+`)
			GROUP BY conversation_id HAVING countIf(user NOT IN ('', `+user+`)) = 0`, clickhouse.Named("user", hex.EncodeToString([]byte(subject.User))))
		if err != nil {
			return nil, fmt.Errorf("find conversations of the user: %w", err)
		}
	}
	args := e.args(e.Conversations)
	var err error
	if e.Exchanges, err = s.strings(ctx, `SELECT DISTINCT exchange_id FROM exchanges WHERE exchange_id IN `+erasedExchange, args...); err != nil {
		return nil, fmt.Errorf("find exchanges: %w", err)
	}
	if e.messages, err = s.strings(ctx, `SELECT DISTINCT ref FROM `+erasedRefs+` WHERE ref != '' AND ref NOT IN
		(SELECT ref FROM `+keptRefs+` WHERE ref IN `+erasedRefs+`)`, args...); err != nil {
		return nil, fmt.Errorf("find messages: %w", err)
	}
	if e.alerts, err = s.strings(ctx, `SELECT DISTINCT alert_id FROM alerts WHERE example IN `+erasedExchange, args...); err != nil {
		return nil, fmt.Errorf("find alerts: %w", err)
	}
	for _, t := range erasedTables {
		if e.Rows[t.name], err = s.number(ctx, `SELECT count() FROM `+t.name+`_final WHERE `+t.where, args...); err != nil {
			return nil, fmt.Errorf("count %s: %w", t.name, err)
		}
	}
	for ids := range slices.Chunk(e.messages, maxIDs) {
		n, err := s.number(ctx, `SELECT uniqExact(id) FROM messages WHERE id IN {ids:Array(String)}`, clickhouse.Named("ids", array(ids)))
		if err != nil {
			return nil, fmt.Errorf("count messages: %w", err)
		}
		e.Rows["messages"] += n
	}
	e.Rows["alerts"] = uint64(len(e.alerts))
	inferred, err := s.number(ctx, `SELECT countIf(inferred) FROM exchanges WHERE exchange_id IN `+erasedExchange, args...)
	if err != nil {
		return nil, fmt.Errorf("look for inferred conversations: %w", err)
	}
	e.Inferred = inferred > 0
	return e, nil
}

// Erase deletes the rows of e, including from disk, and returns once they are deleted. It only deletes messages last
// stored before the time before, because newer requests contain the others. Erase may be called again after an error.
func (s *Sink) Erase(ctx context.Context, e *Erasure, before time.Time) error {
	for ids := range slices.Chunk(e.messages, maxIDs) {
		err := s.mutate(ctx, "messages", `DELETE WHERE id IN {ids:Array(String)} AND toUnixTimestamp(seen_at) < {before:Int64}`,
			clickhouse.Named("ids", array(ids)), clickhouse.Named("before", fmt.Sprint(before.Unix())))
		if err != nil {
			return err
		}
	}
	for ids := range slices.Chunk(e.alerts, maxIDs) {
		if err := s.mutate(ctx, "alerts", `UPDATE example = '' WHERE alert_id IN {ids:Array(String)}`, clickhouse.Named("ids", array(ids))); err != nil {
			return err
		}
	}
	chunks := slices.Collect(slices.Chunk(e.Conversations, maxIDs))
	if len(chunks) == 0 {
		chunks = [][]string{nil} // calls of the user in conversations with other users
	}
	for _, t := range erasedTables {
		if e.Rows[t.name] == 0 {
			continue
		}
		for _, ids := range chunks {
			if err := s.mutate(ctx, t.name, "DELETE WHERE "+t.where, e.args(ids)...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Erasure) args(conversations []string) []any {
	ids := make([]string, len(conversations))
	for i, id := range conversations {
		ids[i] = hex.EncodeToString([]byte(id))
	}
	return []any{clickhouse.Named("conversations", array(ids)), clickhouse.Named("user", hex.EncodeToString([]byte(e.subject.User)))}
}

// mutate changes rows of a table on all servers and waits for the change to complete.
func (s *Sink) mutate(ctx context.Context, table, change string, args ...any) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2}))
	if err := s.conn.Exec(ctx, "ALTER TABLE "+s.topology.alterTarget(table)+" "+change, args...); err != nil {
		return fmt.Errorf("delete from %s: %w", table, err)
	}
	return nil
}

// strings returns the values of a query with a single column.
func (s *Sink) strings(ctx context.Context, sql string, args ...any) ([]string, error) {
	rows, err := s.conn.Query(clickhouse.Context(ctx, clickhouse.WithSettings(querySettings)), sql, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // errors are in rows.Err
	var all []string
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

func (s *Sink) number(ctx context.Context, sql string, args ...any) (n uint64, err error) {
	err = s.conn.QueryRow(clickhouse.Context(ctx, clickhouse.WithSettings(querySettings)), sql, args...).Scan(&n)
	return n, err
}

// array returns values as an array in ClickHouse's text format.
func array(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = sqltext.QuoteString(v)
	}
	return "[" + strings.Join(quoted, ",") + "]"
}
