package tsdb

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Evaluations, of which several may run at the same time, leave the parsed expressions as they were.
func TestParsedOnce(t *testing.T) {
	parsed := &cache{Parser: parser.NewParser(parser.Options{}), exprs: map[string]parser.Expr{}}
	db := Open(Options{Lookback: time.Minute, Step: time.Second})
	defer db.Close()
	db.engine = newEngine(Options{Lookback: time.Minute, Step: time.Second}, parsed)
	now := time.Unix(1_700_000_000, 0)
	must.Get(db.Append(0, labels.FromStrings("__name__", "c", "kind", "counter", "i", "1"), now, 1))(t)
	var running sync.WaitGroup
	for i := range 3 {
		running.Go(func() {
			for _, expr := range queries {
				if _, err := db.Query(t.Context(), expr, now.Add(time.Duration(i)*time.Second)); err != nil {
					t.Errorf("%s: %v", expr, err)
				}
			}
		})
	}
	running.Wait()
	withoutMatchers := func(expr parser.Expr) parser.Expr { // compiled, those are never equal
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if s, ok := n.(*parser.VectorSelector); ok {
				s.LabelMatchers = nil
			}
			return nil
		})
		return expr
	}
	for _, expr := range queries {
		got, want := withoutMatchers(parsed.exprs[expr]), withoutMatchers(must.Get(parsed.Parser.ParseExpr(expr))(t))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s became %s", expr, got)
		}
	}
	for i := range 2 * maxParsed {
		must.Get(parsed.ParseExpr(fmt.Sprintf(`c{conversation="%d"}`, i)))(t)
	}
	must.Equal(t, len(parsed.exprs) <= maxParsed, true, "%d expressions", len(parsed.exprs))
}
