package rows

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

type fixed struct{ res *clickhouse.Result }

func (f fixed) Query(context.Context, string, map[string]string) (*clickhouse.Result, error) {
	return f.res, nil
}

func TestRead(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	res := &clickhouse.Result{
		Columns: []clickhouse.Column{{Name: "id"}, {Name: "n"}, {Name: "at"}},
		Rows:    [][]any{{"a", uint32(7), at}},
	}
	all, err := Read(t.Context(), fixed{res}, "things", "SELECT", nil)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	if r := all[0]; r.Text("id") != "a" || r.Int("n") != 7 || !r.Time("at").Equal(at) || r.Text("n") != "" || r.Int("nosuch") != 0 {
		t.Errorf("row %v", r)
	}
	res.Truncated = true
	must.Equal(t, fmt.Sprint(must.Err(Read(t.Context(), fixed{res}, "things", "SELECT", nil))), "read things: there are more than 1 rows", "truncated result")
}

func TestTextsParam(t *testing.T) {
	must.Equal(t, TextsParam([]string{"a", `b'\`}), `['a','b\'\\']`, "TextsParam")
}
