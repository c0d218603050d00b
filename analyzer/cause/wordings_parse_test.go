package cause

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestParseWordings(t *testing.T) {
	concepts := must.Get(parseLexicon("# a comment\n\nkey\n\tapi key | \"key \" | code$\n\tretry in #\n"))(t)
	must.Agree(t, cmp.Diff([]concept{{"key", []string{"api key", "key ", "code$", "retry in #"}}}, concepts, cmp.AllowUnexported(concept{})), "concepts")
	rows := must.Get(parseRows("key\n\tcause: auth\n\tstatus: 401\n\tweak\n\tsource: a b#1\n", true, newIndex(concepts)))(t)
	if r := rows[0]; len(rows) != 1 || r.when != "key" || r.cause != "auth" || r.status != 401 || !r.weak || r.source != "a b#1" {
		t.Errorf("rows: %+v", rows)
	}

	f := func(conditions bool, text, want string) {
		t.Helper()
		must.Equal(t, fmt.Sprint(must.Err(parseRows(text, conditions, newIndex(concepts)))), want, "%q", text)
	}
	f(false, "\tcause: auth\n", "line 1: indented line without an entry")
	f(false, "bad key\n\tcuase: auth\n", `line 2: unknown field "cuase: auth"`)
	f(false, "bad key\n\tsource: a#1\n", `"bad key" has no cause or no source`)
	f(false, "bad key\n\tcause: auth\n", `"bad key" has no cause or no source`)
	f(false, "\"bad key\n", "line 1: invalid syntax")
	f(true, "key unknown\n", `line 1: condition "key unknown": no concept "unknown"`)
	for _, text := range []string{"auth\n\tname: x\n", "auth\n\tclass: access\nauth\n\tclass: access\n", "\tclass: access\n"} {
		if _, err := parseCauses(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	for _, text := range []string{"key\n\tab\n", "key\n\tapi key |\n", "key\n\tab$\n", "key\n\t\"abc\n"} {
		if _, err := parseLexicon(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
