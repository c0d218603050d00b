package clickhouse_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
)

// Messages are found by whole words, in any case and anywhere in the JSON, and the index skips other messages.
func TestMessagesWith(t *testing.T) {
	t.Parallel()
	s := open(t)
	at := time.Now().UTC().Add(-time.Hour)
	b := &sinks.Batch{}
	for i := range 400 {
		text := strings.Repeat(fmt.Sprintf("word%d of many ", i), 2000)
		if i == 77 {
			text += `\nNeedle.py: port=8080,\t\"Quoted\" C3PO\tTabbed C:\\next 世界`
		}
		h := analyzer.HistoryEntry{
			Seq: uint64(i + 1), SeenAt: at, Service: "trips", Conversation: fmt.Sprintf("conv-%d", i), Branch: fmt.Sprint(i), Content: fmt.Sprintf("%08x%032x", i+1, i), Role: "user",
			Exchange: fmt.Sprint(i),
		}
		b.History = append(b.History, h)
		b.Exchanges = append(b.Exchanges, analyzer.Exchange{ID: h.Exchange, Seq: h.Seq, StartedAt: at, StoredAt: at, Conversation: h.Conversation})
		b.Contents = append(b.Contents, analyzer.Content{ID: h.Content, Kind: content.KindMessage, SeenAt: at, Bytes: len(text), Body: `{"role":"user","content":"` + text + `"}`})
	}
	for range 2 {
		must.Do(t, s.Write(t.Context(), b))
	}
	q := must.Get(queries.Get("messages_with"))(t)
	for text, want := range map[string]string{
		"needle": "conv-77", "Needle.py: PORT": "conv-77", "quoted": "conv-77", "8080": "conv-77", "tabbed": "conv-77", "next": "conv-77", "世界": "conv-77", "word399 of": "conv-399", "c3po": "conv-77",
		"needl": "", "nothing": "", "word400": "", `"role":"tool"`: "", "\x00": "", "…": "", "a\x01b": "",
	} {
		sql, params, err := q.Bind(queries.Values{"text": {text}}, time.Now())
		must.Do(t, err)
		res, err := s.Query(t.Context(), sql, params)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		must.Equal(t, pick(res, "conversation_id="), strings.TrimSuffix("conversation_id="+want, "conversation_id="), "%q: found in", text)
		if text != "…" && !strings.ContainsAny(text, "\x00\x01") { // as a filter of calls
			sql, params, err := must.Get(queries.Get("calls"))(t).Bind(queries.Values{"text": {text}, "since": {"2 hours"}}, time.Now())
			must.Do(t, err)
			params["prices"] = price.Default().Bound()
			calls := must.Get(s.Query(t.Context(), sql, params))(t)
			must.Equal(t, pick(calls, "conversation_id="), strings.TrimSuffix("conversation_id="+want, "conversation_id="), "calls with %q", text)
		}
		if text != "needle" {
			continue
		}
		// The excerpt begins shortly before the match, so that it is visible in a narrow column.
		if got := pick(res, "excerpt="); !strings.HasPrefix(got, "excerpt=…") || strings.Index(got, "Needle") > 40 {
			t.Errorf("excerpt %q", got)
		}
		// The search is a scalar subquery, whose plan is not part of the plan of the query.
		with, _, _ := strings.Cut(sql, ",\n    (\n")
		_, search, _ := strings.Cut(sql, "        SELECT (groupArray(id), min(id), min(seen_at))\n        FROM\n        (\n")
		search, _, found := strings.Cut(search, "        )\n    ) AS young")
		if !found {
			t.Fatal("the query does not begin with the search for hits")
		}
		plan := must.Get(s.Query(t.Context(), "EXPLAIN indexes = 1 "+with+"\n"+search, params))(t)
		must.Contain(t, fmt.Sprint(plan.Rows), "word_index", "the plan with word_index")
	}
}

// A common word is read from the newest conversations only, but a newer message of an older conversation precedes theirs, and
// rows with the required service or time are found in older conversations as well.
func TestMessagesWithCommonWord(t *testing.T) {
	t.Parallel()
	s := open(t)
	now := time.Now().UTC().Truncate(time.Second)
	b := &sinks.Batch{}
	const conversations = 200
	add := func(conversation int, service string, at time.Time) {
		n := len(b.History)
		h := analyzer.HistoryEntry{
			Seq: uint64(n + 1), SeenAt: at, Service: service, Conversation: fmt.Sprintf("conv-%03d", conversation), Branch: fmt.Sprint(conversation), Position: n,
			Content: fmt.Sprintf("%08x%032x", conversation+1, n), Role: "user", Exchange: fmt.Sprintf("exchange-%03d", n),
		}
		b.History = append(b.History, h)
		b.Contents = append(b.Contents, analyzer.Content{ID: h.Content, Kind: content.KindMessage, SeenAt: at, Body: fmt.Sprintf(`{"role":"user","content":"common %d"}`, n)})
	}
	for i := range conversations {
		service := "trips"
		if i == 3 || i == 5 {
			service = "rare"
		}
		add(i, service, now.Add(time.Duration(i-conversations)*time.Minute))
	}
	add(7, "trips", now.Add(-30*time.Second)) // still in use
	for range 2 {
		must.Do(t, s.Write(t.Context(), b))
	}
	q := must.Get(queries.Get("messages_with"))(t)
	f := func(given queries.Values, want string) {
		t.Helper()
		given["text"], given["limit"] = []string{"common"}, []string{"3"}
		sql, params, err := q.Bind(given, now)
		must.Do(t, err)
		res := must.Get(s.Query(t.Context(), sql, params))(t)
		var got []string
		for _, row := range res.Rows {
			got = append(got, row[2].(string))
		}
		must.Equal(t, strings.Join(got, " "), want, "%v: found in %q", given, got)
	}
	f(queries.Values{}, "conv-007 conv-199 conv-198")
	f(queries.Values{"service": {"rare"}}, "conv-005 conv-003")
	f(queries.Values{"until": {"100 minutes"}}, "conv-099 conv-098 conv-097")
	f(queries.Values{"until": {"100 minutes"}, "service": {"rare"}}, "conv-005 conv-003")
	f(queries.Values{"since": {"90 seconds"}}, "conv-007 conv-199")
	f(queries.Values{"since": {"10 seconds"}}, "")
}

// The embedded engine compresses bodies when it merges them.
func TestBodiesAreCompressedByMerges(t *testing.T) {
	t.Parallel()
	s := open(t)
	b := &sinks.Batch{Contents: []analyzer.Content{{ID: "1", Kind: content.KindMessage, SeenAt: time.Now(), Body: strings.Repeat("word ", 20_000)}}}
	const codecs = "SELECT groupUniqArray(default_compression_codec), sum(data_compressed_bytes) > 100000 FROM system.parts WHERE active AND database = currentDatabase() AND table = 'messages'"
	must.Do(t, s.Write(t.Context(), b))
	must.Equal(t, query(t, s, codecs, nil), "[NONE]\t1\n", "inserted")
	b.Contents[0].ID = "2"
	must.Do(t, s.Write(t.Context(), b))
	must.Do(t, s.Exec(t.Context(), "OPTIMIZE TABLE messages FINAL"))
	must.Equal(t, query(t, s, codecs, nil), "[ZSTD(2)]\t0\n", "merged")
}
