package clickhouse_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// Messages are deleted before other rows, a table may have its own retention, and setting the same retention again changes nothing.
func TestRetentions(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	const day = 24 * time.Hour
	f := func(retention, messages time.Duration, tables map[string]time.Duration, want string) {
		t.Helper()
		cfg := clickhouse.Default()
		cfg.DSN, cfg.Retention, cfg.MessagesRetention, cfg.TableRetention = dsn, retention, messages, tables
		for opened := range 2 {
			var log strings.Builder
			s := must.Get(clickhouse.Open(t.Context(), cfg, slog.New(slog.NewTextHandler(&log, nil)), nil))(t)
			got := query(t, s, `SELECT name, toUInt32OrZero(extract(engine_full, 'toIntervalSecond\\((\\d+)')) / 86400 FROM system.tables
				WHERE database = currentDatabase() AND name IN ('exchanges', 'history', 'messages', 'runs') ORDER BY name`, nil)
			must.Do(t, s.Close())
			got = strings.NewReplacer("\t", " ", "\n", ", ").Replace(got)
			must.Equal(t, got, want, "retention in days")
			if opened == 1 && strings.Contains(log.String(), "retention set") {
				t.Errorf("set twice: %s", log.String())
			}
		}
	}
	f(0, 0, nil, "exchanges 0, history 0, messages 0, runs 0, ")
	f(0, 14*day, nil, "exchanges 0, history 0, messages 14, runs 0, ")
	f(90*day, 14*day, map[string]time.Duration{"runs": 30 * day}, "exchanges 90, history 90, messages 14, runs 30, ")
	f(7*day, 14*day, map[string]time.Duration{"history": 3 * day}, "exchanges 7, history 3, messages 7, runs 7, ")
	f(7*day, 14*day, map[string]time.Duration{"messages": 30 * day}, "exchanges 7, history 7, messages 30, runs 7, ")
}

// Erase deletes the rows that belong only to the user or the conversation, and the example of an alert; messages stored
// since are kept.
func TestErase(t *testing.T) {
	t.Parallel()
	s := open(t)
	now := time.Now().UTC().Truncate(time.Second)
	old := now.Add(-time.Hour)
	exchange := func(id, conversation, user, parameters, answer string, lead ...string) analyzer.Exchange {
		return analyzer.Exchange{
			ID: id, Seq: 1, Conversation: conversation, Labels: event.Labels{Service: "s", User: user}, StartedAt: old, StoredAt: old,
			Parameters: parameters, Answer: answer, Lead: lead, Branch: id,
		}
	}
	position := func(conversation, exchange, content string) analyzer.HistoryEntry {
		return analyzer.HistoryEntry{Service: "s", Conversation: conversation, Branch: exchange, Exchange: exchange, Seq: 1, SeenAt: old, Content: content}
	}
	b := &sinks.Batch{
		Exchanges: []analyzer.Exchange{
			exchange("e1", `it's \ "a"`, "u1", "p", "a1", "sys"), exchange("e2", "b", "u2", "p", "a2", "sys"),
			exchange("e3", "c", "u1", "p", "a3"), exchange("e4", "c", "u2", "p", "a4"), exchange("e5", "", "u1", "p5", "a5"),
		},
		History: []analyzer.HistoryEntry{position(`it's \ "a"`, "e1", "m1"), position("b", "e2", "m2"), position("c", "e3", "m3")},
		Alerts:  []sinks.Alert{{ID: "x", StartedAt: old, Example: "e1"}, {ID: "y", StartedAt: old, Example: "e2"}},
	}
	for id := range strings.FieldsSeq("p p5 a1 a2 a3 a4 a5 sys m1 m2 m3") {
		b.Contents = append(b.Contents, analyzer.Content{ID: id, Kind: content.KindMessage, SeenAt: old, Body: id})
	}
	must.Do(t, s.Write(t.Context(), b))
	erase := func(subject clickhouse.ErasureSubject, before time.Time) *clickhouse.Erasure {
		t.Helper()
		r, err := s.PlanErasure(t.Context(), subject)
		if err == nil {
			err = s.Erase(t.Context(), r, before, func(int, int) {})
		}
		must.Do(t, err)
		return r
	}
	remaining := func(want string) {
		t.Helper()
		got := query(t, s, `SELECT arrayStringConcat(arraySort(groupArray(id)), ' ') FROM (SELECT id FROM messages UNION ALL SELECT exchange_id FROM exchanges
			UNION ALL SELECT 'h-' || exchange_id FROM history UNION ALL SELECT example FROM alerts)`, nil)
		must.Equal(t, got, want+"\n", "remaining")
	}
	if r := erase(clickhouse.ErasureSubject{Conversation: `it's \ "a"`}, old); r.Rows["messages"] != 2 || len(r.Exchanges) != 1 {
		t.Errorf("%+v", r)
	}
	remaining(" a1 a2 a3 a4 a5 e2 e2 e3 e4 e5 h-e2 h-e3 m1 m2 m3 p p5 sys") // e2 is also an example
	if r := erase(clickhouse.ErasureSubject{User: "u1"}, now); r.Rows["messages"] != 3 || r.Rows["exchanges"] != 2 || r.Rows["history"] != 0 {
		t.Errorf("%+v", r)
	}
	remaining(" a1 a2 a4 e2 e2 e4 h-e2 h-e3 m1 m2 m3 p sys")
	r := erase(clickhouse.ErasureSubject{User: "u1"}, now)
	must.Equal(t, len(r.Exchanges), 0, "again: %+v", r)
}
