package show

import (
	"context"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// ids is a store with these exchange ids, and no conversations.
type ids []string

func (all ids) Query(_ context.Context, sql string, params map[string]string) (*clickhouse.Result, error) {
	res := &clickhouse.Result{Columns: []clickhouse.Column{{Name: "id"}}}
	for _, id := range all {
		if prefix := strings.Contains(sql, "startsWith"); strings.Contains(sql, "exchange_id") && (id == params["id"] || prefix && strings.HasPrefix(id, params["id"])) {
			res.Rows = append(res.Rows, []any{id})
		}
	}
	return res, nil
}

func TestResolve(t *testing.T) {
	s := Store{Q: ids{"019aa0b0-1", "019aa0b0-2", "019aa0b1-1"}}
	f := func(id, want, wantErr string) {
		t.Helper()
		got, _, err := s.Resolve(t.Context(), id)
		if got != want || wantErr == "" && err != nil || wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)) {
			t.Errorf("%s: %q, %v, want %q, %s", id, got, err, want, wantErr)
		}
	}
	f("019aa0b0-1", "019aa0b0-1", "")
	f("019aa0b1", "019aa0b1-1", "")
	f("019aa0b0", "", "is a prefix of several ids: 019aa0b0-1, 019aa0b0-2")
	f("019aa0b", "", "a prefix must have at least 8 characters")
	f("019aa0b2", "", ErrUnknown.Error())
	_, _, err := s.Resolve(t.Context(), "nosuch-id")
	must.Is(t, err, ErrUnknown)
}

// A position of a branch belongs to the branch itself, or to an ancestor that shares it.
func TestFind(t *testing.T) {
	all := branches{
		"root": {ids: map[int]string{0: "a", 1: "b", 2: "c"}},
		"fork": {parent: "root", shared: 2, ids: map[int]string{2: "x"}},
		"loop": {parent: "loop", shared: 9},
	}
	for _, c := range []struct {
		branch   string
		position int
		want     string
	}{{"root", 2, "c"}, {"fork", 2, "x"}, {"fork", 1, "b"}, {"fork", 3, ""}, {"loop", 1, ""}, {"nosuch", 0, ""}} {
		if id, ok := all.find(c.branch, c.position); id != c.want || ok != (c.want != "") {
			t.Errorf("%s %d: %q, want %q", c.branch, c.position, id, c.want)
		}
	}
}

func TestBody(t *testing.T) {
	e := &Exchange{Parameters: `{"model":"m","messages":[]}`, Messages: []string{`{"role":"user"}`, `{"role":"assistant"}`}, messagesAt: 25, branch: "b"}
	want := `{"model":"m","messages":[{"role":"user"},{"role":"assistant"}]}`
	if got, ok := e.Body(); got != want || !ok {
		t.Errorf("body %s, %v", got, ok)
	}
	e.miss("1 of 2 messages")
	if _, ok := e.Body(); ok {
		t.Error("the body of an incomplete exchange")
	}
}
