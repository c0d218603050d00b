package collector

import (
	"strconv"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/sqltext"
)

// ClickHouse sees the rows of a scope as Sees does.
func TestScopeInClickHouse(t *testing.T) {
	collectortest.NeedClickHouse(t)
	t.Parallel()
	sink := collectortest.OpenClickHouse(t)

	values := []string{"", "a", "ab", "b", "A", "a\nb", "a\n", "\na", `a\b`, `a'b`, `a"b`, "ä", "a.b", "a-b", "dev", "x" + strings.Repeat("y", 300)}
	var columns []string
	for _, v := range values {
		columns = append(columns, sqltext.QuoteString(v))
	}
	for _, match := range [][]string{
		{`service="a"`},
		{`service!="a"`},
		{`service=~"a"`},
		{`service=~"a.*"`},
		{`service!~"a.*"`},
		{`service=~"a|b"`},
		{`service=~".+"`},
		{`service=~"(?i)a"`},
		{`service=~"a\\.b"`},
		{`service=~"^a$"`},
		{`service=~"a\n?"`},
		{`service=~"(?-s:a.b)"`},
		{`service=~"[^b]"`},
		{`service=~""`},
		{`service="a\\b"`},
		{`service="a'b"`},
		{`service=~"ä|A"`},
		{`service=~"x(y){10,300}"`},
		{`service=~"(?:a)|(?:dev)"`, `service!="dev"`},
		{`service=~"a?"`},
		{`service=~"\\Qa.b\\E"`},
		{`service=~"\\w\\W\\w"`},
	} {
		policy := access.Policy{Teams: access.Teams{{Name: "t", Match: match}}}
		must.Do(t, policy.Teams.Validate(), match)
		s := policy.Scope(access.Person{Machine: true, Teams: []string{"t"}})
		var terms []string
		for i := range values {
			terms = append(terms, "toUInt8("+s.SQL(map[string]string{"service": "materialize(" + columns[i] + ")"}, sqltext.QuoteString)+")")
		}
		res := must.Get(sink.Query(t.Context(), "SELECT "+strings.Join(terms, ", "), nil))(t)
		for i, v := range values {
			must.Equal(t, res.Rows[0][i] == uint8(1), s.Sees(map[string]string{"service": v}), "%s: whether %q is seen, by ClickHouse and by Sees", match, v)
		}
	}

	// The environment of an action is that of its group.
	policy := access.Policy{Teams: access.Teams{{Name: "t", Match: []string{`service="a"`, `environment=~"p\"r.*"`}}}}
	actions := tablesOf(policy.Scope(access.Person{Machine: true, Teams: []string{"t"}}))[sinks.Actions.Name()]
	for key, want := range map[string]uint8{
		`r{environment="p\"rod",service="a"}`: 1, `r{service="a",environment="p\"r"}`: 1, `r{service="a",environment="dev"}`: 0, `r{service="a"}`: 0, ``: 0,
		`r{service="a",x="environment=\"p\"r\""}`: 0,
	} {
		res := must.Get(sink.Query(t.Context(), "SELECT toUInt8("+actions+") FROM (SELECT 'a' AS service, "+sqltext.QuoteString(key)+" AS group_key)", nil))(t)
		must.Equal(t, res.Rows[0][0], any(want), "%s", strconv.Quote(key))
	}
}

// Each table is limited, or is read by ids only.
func TestTablesOf(t *testing.T) {
	t.Parallel()
	policy := access.Policy{Teams: access.Teams{{Name: "t", Match: []string{`service="a"`}}}}
	limited := tablesOf(policy.Scope(access.Person{Machine: true, Teams: []string{"t"}}))
	for _, table := range sinks.Tables {
		if limited[table.Name()] == "" && table.Name() != sinks.Contents.Name() {
			t.Errorf("a team sees all rows of the table %s", table.Name())
		}
	}
	none := tablesOf(policy.Scope(access.Person{Role: access.Viewer}))
	must.Equal(t, none[sinks.Exchanges.Name()], "(0)", "of no team")
	must.Equal(t, tablesOf(nil)[sinks.Audit.Name()], clickhouse.Nothing, "of a viewer")
}
