package clickhouse

import (
	"context"
	"fmt"
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

// erasureSettings are those of queries about what is erased, which may have a list of ids.
var erasureSettings = clickhouse.Settings{"readonly": 2, "distributed_product_mode": "global", "max_query_size": 2 * maxList}

// maxList is the maximum size of a list of ids in a statement, in bytes. A replicated table keeps its mutations in Keeper, which takes
// 1 MiB each.
const maxList = 400 << 10

// A selection has the conditions of the rows of a subject, as SQL.
type selection struct {
	conversations string // a list or a subquery; empty: none
	user          string // a literal, that of no text if the subject is a conversation
}

// rows is the condition of the rows in a table with the columns conversation_id and user.
func (s selection) rows() string {
	switch {
	case s.user == "''":
		return "conversation_id IN " + s.conversations
	case s.conversations == "":
		return "user = " + s.user
	}
	return "(conversation_id IN " + s.conversations + " OR user = " + s.user + ")"
}

// exchanges is a subquery of the ids of the exchanges.
func (s selection) exchanges() string {
	return "(SELECT exchange_id FROM exchanges WHERE " + s.rows() + ")"
}

// refs is a subquery of the ids of messages that rows reference, with not = "", or that other rows reference, with not = "NOT".
func (s selection) refs(not string) string {
	return "(SELECT arrayJoin(arrayConcat(lead, mapValues(marked), [parameters, answer])) AS ref FROM exchanges WHERE exchange_id " + not + " IN " + s.exchanges() +
		" UNION ALL SELECT message_id FROM history WHERE conversation_id " + not + " IN " + s.conversations + ")"
}

// all selects all rows of e.
func (e *Erasure) all() selection {
	user := sqltext.QuoteString(e.subject.User)
	if e.subject.Conversation != "" {
		return selection{idList([]string{e.subject.Conversation}), "''"}
	}
	return selection{`(SELECT conversation_id FROM exchanges
		WHERE conversation_id != '' AND conversation_id IN (SELECT conversation_id FROM exchanges WHERE user = ` + user + `)
		GROUP BY conversation_id HAVING countIf(user NOT IN ('', ` + user + `)) = 0)`, user}
}

// some selects the rows of some conversations of e, and those of the user.
func (e *Erasure) some(conversations []string) selection {
	x := selection{user: sqltext.QuoteString(e.subject.User)}
	if len(conversations) > 0 {
		x.conversations = idList(conversations)
	}
	return x
}

// erasedTables lists the tables with rows of a subject in the order of deletion. exchanges is last, because PlanErasure
// finds the other rows through it.
var erasedTables = []struct {
	name  string
	where func(selection) string
}{
	{"history", func(s selection) string { return "conversation_id IN " + s.conversations }},
	{"tool_calls", selection.rows},
	{"findings", selection.rows},
	{"runs", selection.rows},
	{"exchanges", selection.rows},
}

// PlanErasure finds the rows that Erase would delete, without changing anything.
func (s *Sink) PlanErasure(ctx context.Context, subject ErasureSubject) (*Erasure, error) {
	e := &Erasure{subject: subject, Rows: map[string]uint64{"messages": 0}}
	sel := e.all()
	var err error
	if e.Conversations = []string{subject.Conversation}; subject.Conversation == "" {
		if e.Conversations, err = s.strings(ctx, strings.TrimSuffix(sel.conversations[1:], ")")); err != nil {
			return nil, fmt.Errorf("find conversations of the user: %w", err)
		}
	}
	if e.Exchanges, err = s.strings(ctx, `SELECT DISTINCT exchange_id FROM exchanges WHERE `+sel.rows()); err != nil {
		return nil, fmt.Errorf("find exchanges: %w", err)
	}
	if e.messages, err = s.strings(ctx, `SELECT DISTINCT ref FROM `+sel.refs("")+` WHERE ref != '' AND ref NOT IN
		(SELECT ref FROM `+sel.refs("NOT")+` WHERE ref IN `+sel.refs("")+`)`); err != nil {
		return nil, fmt.Errorf("find messages: %w", err)
	}
	if e.alerts, err = s.strings(ctx, `SELECT DISTINCT alert_id FROM alerts WHERE example IN `+sel.exchanges()); err != nil {
		return nil, fmt.Errorf("find alerts: %w", err)
	}
	for _, t := range erasedTables {
		if e.Rows[t.name], err = s.number(ctx, `SELECT count() FROM `+t.name+`_final WHERE `+t.where(sel)); err != nil {
			return nil, fmt.Errorf("count %s: %w", t.name, err)
		}
	}
	for _, ids := range chunks(e.messages) {
		n, err := s.number(ctx, `SELECT uniqExact(id) FROM messages WHERE id IN `+idList(ids))
		if err != nil {
			return nil, fmt.Errorf("count messages: %w", err)
		}
		e.Rows["messages"] += n
	}
	e.Rows["alerts"] = uint64(len(e.alerts))
	inferred, err := s.number(ctx, `SELECT countIf(inferred) FROM exchanges WHERE `+sel.rows())
	if err != nil {
		return nil, fmt.Errorf("look for inferred conversations: %w", err)
	}
	e.Inferred = inferred > 0
	return e, nil
}

// Erase deletes the rows of e, including from disk, and returns once they are deleted. It only deletes messages last
// stored before the time before, because newer requests contain the others. progress is called before each of total steps. Erase may
// be called again after an error.
func (s *Sink) Erase(ctx context.Context, e *Erasure, before time.Time, progress func(step, total int)) error {
	type step struct{ table, change string }
	var steps []step
	for _, ids := range chunks(e.messages) {
		steps = append(steps, step{"messages", fmt.Sprintf("DELETE WHERE id IN %s AND toUnixTimestamp(seen_at) < %d", idList(ids), before.Unix())})
	}
	for _, ids := range chunks(e.alerts) {
		steps = append(steps, step{"alerts", "UPDATE example = '' WHERE alert_id IN " + idList(ids)})
	}
	parts := chunks(e.Conversations)
	if len(parts) == 0 {
		parts = [][]string{nil} // calls of the user in conversations with other users
	}
	for _, t := range erasedTables {
		for _, ids := range parts {
			if e.Rows[t.name] > 0 {
				steps = append(steps, step{t.name, "DELETE WHERE " + t.where(e.some(ids))})
			}
		}
	}
	for i, x := range steps {
		progress(i, len(steps))
		if err := s.mutate(ctx, x.table, x.change); err != nil {
			return err
		}
	}
	return nil
}

// mutate changes rows of a table on all servers and waits for the change to complete.
func (s *Sink) mutate(ctx context.Context, table, change string) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2, "max_query_size": 2 * maxList}))
	if err := s.conn.Exec(ctx, "ALTER TABLE "+s.topology.alterTarget(table)+" "+change); err != nil {
		return fmt.Errorf("delete from %s: %w", table, err)
	}
	return nil
}

// strings returns the values of a query with a single column.
func (s *Sink) strings(ctx context.Context, sql string, args ...any) ([]string, error) {
	rows, err := s.conn.Query(clickhouse.Context(ctx, clickhouse.WithSettings(erasureSettings)), sql, args...)
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
	err = s.conn.QueryRow(clickhouse.Context(ctx, clickhouse.WithSettings(erasureSettings)), sql, args...).Scan(&n)
	return n, err
}

// chunks splits ids into lists of at most maxList.
func chunks(ids []string) (out [][]string) {
	for size := maxList; len(ids) > 0; size = maxList {
		n := 0
		for n < len(ids) {
			if size -= len(sqltext.QuoteString(ids[n])) + 1; size < 0 && n > 0 {
				break
			}
			n++
		}
		out, ids = append(out, ids[:n]), ids[n:]
	}
	return out
}

// idList returns values as a list in SQL.
func idList(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = sqltext.QuoteString(v)
	}
	return "(" + strings.Join(quoted, ",") + ")"
}
