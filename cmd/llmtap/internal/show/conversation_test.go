package show

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// twice is a store in which two exchanges have the same answer, which is stored once.
type twice struct{}

func (twice) Query(_ context.Context, sql string, params map[string]string) (*clickhouse.Result, error) {
	res := &clickhouse.Result{}
	add := func(names string, rows ...[]any) {
		for name := range strings.FieldsSeq(names) {
			res.Columns = append(res.Columns, clickhouse.Column{Name: name})
		}
		res.Rows = rows
	}
	dialect := string(wire.OpenAIChat)
	switch {
	case strings.Contains(sql, "FROM messages") && strings.Contains(params["ids"], "answer-1"):
		call := `{"id":"call-1","type":"function","function":{"name":"search","arguments":"{\"q\":1}"}}`
		add("id body", []any{"answer-1", `{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[` + call + `]}}]}`})
	case strings.Contains(sql, "AS lead"):
		add("exchange_id dialect answer lead", []any{"x1", dialect, "answer-1", 0}, []any{"x2", dialect, "answer-1", 0})
	}
	return res, nil
}

func TestEqualAnswers(t *testing.T) {
	c := &Conversation{}
	for i, id := range []string{"x1", "x2"} {
		c.Exchanges = append(c.Exchanges, &Turn{Number: i + 1, Exchange: &Exchange{Exchange: stored.Exchange{ID: id, Dialect: string(wire.OpenAIChat)}, answer: "answer-1"}})
	}
	must.Do(t, c.describe(t.Context(), Store{Q: twice{}}))
	for _, turn := range c.Exchanges {
		must.Equal(t, len(turn.Answer), 1, "messages of the answer of %s", turn.ID)
	}

	calls := []ToolCall{{Exchange: "x1", ToolCallID: "call-1"}, {Exchange: "x2", ToolCallID: "call-1"}}
	must.Do(t, (Store{Q: twice{}}).readTexts(t.Context(), calls, "c", []string{"x1", "x2"}))
	if slices.ContainsFunc(calls, func(c ToolCall) bool { return c.Arguments != `{"q":1}` }) {
		t.Errorf("arguments %q and %q", calls[0].Arguments, calls[1].Arguments)
	}
}
