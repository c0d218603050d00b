package queries

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The statements themselves are run against ClickHouse by the tests of sinks/clickhouse.
func TestFiles(t *testing.T) {
	placeholder := regexp.MustCompile(`\{(\w+):\w+\}`)
	if len(Names()) == 0 {
		t.Fatal("no queries")
	}
	for _, name := range Names() {
		q, err := Get(name)
		if err != nil {
			t.Fatal(err)
		}
		if q.Question == "" || !strings.ContainsAny(q.Question, "?") {
			t.Errorf("%s: the first line asks no question: %q", name, q.Question)
		}
		var declared, used []string
		for _, p := range q.Params {
			declared = append(declared, p.Name)
			if p.Doc == "" {
				t.Errorf("%s: parameter %s is not explained", name, p.Name)
			}
		}
		for _, m := range placeholder.FindAllStringSubmatch(q.SQL, -1) {
			used = append(used, m[1])
		}
		slices.Sort(declared)
		slices.Sort(used)
		if d := cmp.Diff(declared, slices.Compact(used)); d != "" {
			t.Errorf("%s: parameters (-declared +used):\n%s", name, d)
		}
		if !regexp.MustCompile(`\nLIMIT \d+\n$`).MatchString(q.SQL) {
			t.Errorf("%s: does not end with a LIMIT", name)
		}
		if m := regexp.MustCompile(`(?m)^\s*(?:FROM|.*JOIN) (exchanges|findings|tool_calls|runs|alerts)\b(?:[^_]|$)`).FindString(q.SQL); m != "" {
			t.Errorf("%s: reads a table that may hold a row twice: %s", name, m)
		}
	}
}

func TestParse(t *testing.T) {
	got, err := parse("x", "-- Why?\n-- param since = 1 hour: how far back\n-- a remark: with = and colon\n-- param id: which one\n-- param stage = : one only\nSELECT 1\n-- param no = 1: too late\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Param{{Name: "since", Default: "1 hour", Doc: "how far back"}, {Name: "id", Required: true, Doc: "which one"}, {Name: "stage", Doc: "one only"}}
	if d := cmp.Diff(want, got.Params); d != "" || got.Question != "Why?" {
		t.Errorf("question %q, params (-want +got):\n%s", got.Question, d)
	}
	for _, bad := range []string{"SELECT 1", "", "-- Why?\n-- param since = 1 hour\n"} {
		if _, err := parse("x", bad); err == nil {
			t.Errorf("parse(%q): no error", bad)
		}
	}
}

func TestGetUnknown(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		if _, err := Get(name); err == nil || err.Error() != want {
			t.Errorf("Get(%q): %v\nwant %s", name, err, want)
		}
	}
	f("cause", `no query "cause"; did you mean causes?`)
	f("failure_by_stages", `no query "failure_by_stages"; did you mean failures_by_stage?`)
	f("stage", `no query "stage"; did you mean failures_by_stage?`)
	f("zzz", `no query "zzz"; there are: `+strings.Join(Names(), ", "))
	f("", `no query ""; there are: `+strings.Join(Names(), ", "))
}

func TestBind(t *testing.T) {
	q := Query{Name: "x", Params: []Param{{Name: "since", Default: "1 hour"}, {Name: "conversation_id", Required: true, Doc: "as in the alert"}}}
	f := func(given, want map[string]string, wantErr string) {
		t.Helper()
		got, err := q.Bind(given)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if d := cmp.Diff(want, got); d != "" || text != wantErr {
			t.Errorf("Bind(%v): %s, want %s\n%s", given, text, wantErr, d)
		}
	}
	f(map[string]string{"conversation_id": "c"}, map[string]string{"since": "1 hour", "conversation_id": "c"}, "")
	f(map[string]string{"conversation_id": "", "since": "2 days"}, map[string]string{"since": "2 days", "conversation_id": ""}, "")
	f(nil, nil, "query x needs conversation_id: as in the alert")
	f(map[string]string{"conversation_id": "c", "sinc": "1"}, nil, `query x has no parameter "sinc"; did you mean since?`)
	q.Params = nil
	f(map[string]string{"a": "1"}, nil, `query x has no parameter "a"; it has none`)
}
