package clickhouse

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// A Person is whose rows are forgotten: a conversation, or a user as the label says it. Exactly one is set.
type Person struct{ Conversation, User string }

// Remembered is what the tables hold of a Person and of nobody else.
type Remembered struct {
	// Conversations are those that go whole. Those of a user are the ones in which no call names another user; of others
	// the user's calls go, and what the calls of the rest need to be read stays.
	Conversations []string
	Exchanges     []string
	Inferred      bool              // some exchange does not name its conversation itself
	Rows          map[string]uint64 // by table; of alerts those whose example goes

	who      Person
	messages []string
	alerts   []string
}

// Rows that nothing else refers to, of exchanges and history. Ids of other people's making are bound in hex: the two
// protocols do not agree on what a backslash or a quote in a bound array is.
const (
	conversations = `arrayMap(x -> unhex(x), {conversations:Array(String)})`
	user          = `unhex({user:String})`
	goneExchanges = `(SELECT exchange_id FROM exchanges WHERE conversation_id IN ` + conversations + ` OR user != '' AND user = ` + user + `)`
	contentsOf    = `arrayJoin(arrayConcat(lead, mapValues(marked), [parameters, answer]))`
	contentsGone  = `(SELECT ` + contentsOf + ` AS ref FROM exchanges WHERE exchange_id IN ` + goneExchanges + `
		UNION ALL SELECT message_id FROM history WHERE conversation_id IN ` + conversations + `)`
	contentsKept = `(SELECT ` + contentsOf + ` AS ref FROM exchanges WHERE exchange_id NOT IN ` + goneExchanges + `
		UNION ALL SELECT message_id FROM history WHERE conversation_id NOT IN ` + conversations + `)`
	rowsGone = `(conversation_id IN ` + conversations + ` OR user != '' AND user = ` + user + `)`
)

// forgetTables are the tables with rows of a Person in the order they go: exchanges, by which the rest is found, last.
var forgetTables = []struct{ name, where string }{
	{"history", `conversation_id IN ` + conversations + ``},
	{"tool_calls", rowsGone},
	{"findings", rowsGone},
	{"runs", rowsGone},
	{"exchanges", rowsGone},
}

// forgetChunk is how many ids one statement names.
const forgetChunk = 500

// Remember looks up what Forget would delete, and changes nothing.
func (s *Sink) Remember(ctx context.Context, who Person) (*Remembered, error) {
	r := &Remembered{who: who, Rows: map[string]uint64{"messages": 0}}
	if who.Conversation != "" {
		r.Conversations = []string{who.Conversation}
	} else {
		var err error
		r.Conversations, err = s.strings(ctx, `SELECT conversation_id FROM exchanges
			WHERE conversation_id != '' AND conversation_id IN (SELECT conversation_id FROM exchanges WHERE user = `+user+`)
			GROUP BY conversation_id HAVING countIf(user NOT IN ('', `+user+`)) = 0`, clickhouse.Named("user", hex.EncodeToString([]byte(who.User))))
		if err != nil {
			return nil, fmt.Errorf("find the user's conversations: %w", err)
		}
	}
	args := r.args(r.Conversations)
	var err error
	if r.Exchanges, err = s.strings(ctx, `SELECT DISTINCT exchange_id FROM exchanges WHERE exchange_id IN `+goneExchanges, args...); err != nil {
		return nil, fmt.Errorf("find exchanges: %w", err)
	}
	if r.messages, err = s.strings(ctx, `SELECT DISTINCT ref FROM `+contentsGone+` WHERE ref != '' AND ref NOT IN
		(SELECT ref FROM `+contentsKept+` WHERE ref IN `+contentsGone+`)`, args...); err != nil {
		return nil, fmt.Errorf("find messages: %w", err)
	}
	if r.alerts, err = s.strings(ctx, `SELECT DISTINCT alert_id FROM alerts WHERE example IN `+goneExchanges, args...); err != nil {
		return nil, fmt.Errorf("find alerts: %w", err)
	}
	for _, t := range forgetTables {
		if r.Rows[t.name], err = s.number(ctx, `SELECT count() FROM `+t.name+`_final WHERE `+t.where, args...); err != nil {
			return nil, fmt.Errorf("count %s: %w", t.name, err)
		}
	}
	for chunk := range chunks(r.messages) {
		n, err := s.number(ctx, `SELECT uniqExact(id) FROM messages WHERE id IN {ids:Array(String)}`, clickhouse.Named("ids", chunk))
		if err != nil {
			return nil, fmt.Errorf("count messages: %w", err)
		}
		r.Rows["messages"] += n
	}
	r.Rows["alerts"] = uint64(len(r.alerts))
	inferred, err := s.number(ctx, `SELECT countIf(inferred) FROM exchanges WHERE exchange_id IN `+goneExchanges, args...)
	r.Inferred = inferred > 0
	if err != nil {
		return nil, fmt.Errorf("look for inferred conversations: %w", err)
	}
	return r, nil
}

// Forget deletes what r holds, from the disk too, and returns when that is done. Messages that were stored at before or
// later stay: somebody else sent them meanwhile. It may be called again after an error.
func (s *Sink) Forget(ctx context.Context, r *Remembered, before time.Time) error {
	for chunk := range chunks(r.messages) {
		err := s.mutate(ctx, "messages", `DELETE WHERE id IN {ids:Array(String)} AND toUnixTimestamp(seen_at) < {before:Int64}`,
			clickhouse.Named("ids", chunk), clickhouse.Named("before", fmt.Sprint(before.Unix())))
		if err != nil {
			return err
		}
	}
	for chunk := range chunks(r.alerts) {
		if err := s.mutate(ctx, "alerts", `UPDATE example = '' WHERE alert_id IN {ids:Array(String)}`, clickhouse.Named("ids", chunk)); err != nil {
			return err
		}
	}
	for _, t := range forgetTables {
		if r.Rows[t.name] == 0 {
			continue
		}
		rest := r.Conversations
		for {
			n := min(len(rest), forgetChunk)
			if err := s.mutate(ctx, t.name, "DELETE WHERE "+t.where, r.args(rest[:n])...); err != nil {
				return err
			}
			if rest = rest[n:]; len(rest) == 0 {
				break
			}
		}
	}
	return nil
}

func (r *Remembered) args(conversations []string) []any {
	ids := make([]string, len(conversations))
	for i, id := range conversations {
		ids[i] = hex.EncodeToString([]byte(id))
	}
	return []any{clickhouse.Named("conversations", array(ids)), clickhouse.Named("user", hex.EncodeToString([]byte(r.who.User)))}
}

// mutate changes rows of a table, on all servers, and waits until that is done.
func (s *Sink) mutate(ctx context.Context, table, change string, args ...any) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2}))
	if err := s.conn.Exec(ctx, "ALTER TABLE "+s.layout.stored(table)+" "+change, args...); err != nil {
		return fmt.Errorf("delete from %s: %w", table, err)
	}
	return nil
}

// strings returns the one column of a query.
func (s *Sink) strings(ctx context.Context, sql string, args ...any) ([]string, error) {
	// On a cluster a subquery asks all servers.
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(querySettings))
	rows, err := s.conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // what went wrong is in rows.Err
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
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(querySettings))
	err = s.conn.QueryRow(ctx, sql, args...).Scan(&n)
	return n, err
}

// chunks returns ids as arrays in ClickHouse's text form, some at a time.
func chunks(ids []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(ids) > 0 {
			n := min(len(ids), forgetChunk)
			if !yield(array(ids[:n])) {
				return
			}
			ids = ids[n:]
		}
	}
}

func array(values []string) string {
	b := []byte{'['}
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, quoteString(v)...)
	}
	return string(append(b, ']'))
}
