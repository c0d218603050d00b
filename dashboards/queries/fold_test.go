package queries

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestFold(t *testing.T) {
	f := func(sql string, params map[string]string, want string) {
		t.Helper()
		must.Equal(t, fold(sql, params), want, "%s", sql)
	}
	const nested = "SELECT if({by:String} = 'a', f(x, ','), if({by:String} IN ('b', 'c'), [y, 1], if(startsWith({by:String}, 'attr.'), m[{by:String}], ''))) AS z"
	f(nested, map[string]string{"by": "a"}, "SELECT f(x, ',') AS z")
	f(nested, map[string]string{"by": "c"}, "SELECT [y, 1] AS z")
	f(nested, map[string]string{"by": "attr.k"}, "SELECT m[{by:String}] AS z")
	f(nested, map[string]string{"by": ", '"}, "SELECT '' AS z")
	// A branch need not be an expression, and may be empty.
	const join = "FROM t if({cost:Float64} <= 0, , JOIN u) WHERE if({after:String} = '', true, k < 1)"
	f(join, map[string]string{"cost": "0.0", "after": ""}, "FROM t  WHERE true")
	f(join, map[string]string{"cost": "0.1", "after": "7 e"}, "FROM t JOIN u WHERE k < 1")
	// A condition on columns remains.
	f("if(x = '', 1, if({by:String} = 'a', 2, 3))", map[string]string{"by": "b"}, "if(x = '', 1, 3)")
}
