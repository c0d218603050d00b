package clickhouse_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/sinks"
)

// Messages are found by whole words, in any case and anywhere in the JSON, and the index skips other messages.
func TestMessagesWith(t *testing.T) {
	s := open(t)
	at := time.Now().UTC().Add(-time.Hour)
	b := &sinks.Batch{}
	for i := range 400 {
		text := strings.Repeat(fmt.Sprintf("word%d of many ", i), 2000)
		if i == 77 {
			text += `\nNeedle.py: port=8080,\t\"Quoted\" C3PO 世界`
		}
		h := analyzer.HistoryEntry{
			Seq: uint64(i + 1), SeenAt: at, Service: "trips", Conversation: fmt.Sprintf("conv-%d", i), Branch: fmt.Sprint(i), Content: fmt.Sprintf("%08x%032x", i+1, i), Role: "user",
			Exchange: fmt.Sprint(i),
		}
		b.History = append(b.History, h)
		b.Contents = append(b.Contents, analyzer.Content{ID: h.Content, Kind: content.KindMessage, SeenAt: at, Bytes: len(text), Body: `{"role":"user","content":"` + text + `"}`})
	}
	for range 2 {
		must(t, s.Write(t.Context(), b))
	}
	q, err := queries.Get("messages_with")
	must(t, err)
	for text, want := range map[string]string{
		"needle": "conv-77", "Needle.py: PORT": "conv-77", "quoted": "conv-77", "8080": "conv-77", "世界": "conv-77", "word399 of": "conv-399", "c3po": "conv-77",
		"needl": "", "nothing": "", "word400": "", `"role":"tool"`: "", "\x00": "", "…": "",
	} {
		sql, params, err := q.Bind(queries.Values{"text": {text}}, time.Now())
		must(t, err)
		res, err := s.Query(t.Context(), sql, params)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := pick(res, "conversation_id="); got != strings.TrimSuffix("conversation_id="+want, "conversation_id=") {
			t.Errorf("%q: found in %q, want %q", text, got, want)
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
		_, search, _ := strings.Cut(sql, "        SELECT groupArray(id)\n        FROM\n        (\n")
		search, _, found := strings.Cut(search, "        )\n    ) AS hits")
		if !found {
			t.Fatal("the query does not begin with the search for hits")
		}
		plan, err := s.Query(t.Context(), "EXPLAIN indexes = 1 "+with+"\n"+search, params)
		must(t, err)
		if p := fmt.Sprint(plan.Rows); !strings.Contains(p, "body_index") {
			t.Errorf("body_index is not used:\n%s", strings.ReplaceAll(p, "] [", "\n"))
		}
	}
}
