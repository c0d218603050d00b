package tsdb

import (
	"slices"
	"sync"

	"github.com/prometheus/prometheus/promql/parser"
)

// maxParsed is the number of expressions that a cache holds. Those of rules are few; those of templates may contain the labels of
// an alert.
const maxParsed = 1000

// A cache is a parser that parses each expression once. Rules are evaluated every second, and parsing took a quarter of that.
type cache struct {
	parser.Parser
	mu    sync.Mutex
	exprs map[string]parser.Expr // never evaluated: evaluation changes expressions
}

// ParseExpr implements parser.Parser. The result belongs to the caller.
func (c *cache) ParseExpr(input string) (parser.Expr, error) {
	c.mu.Lock()
	expr := c.exprs[input]
	c.mu.Unlock()
	if expr != nil {
		return clone(expr), nil
	}
	expr, err := c.Parser.ParseExpr(input)
	if err != nil {
		return expr, err //nolint:wrapcheck // the text is the engine's
	}
	c.mu.Lock()
	if len(c.exprs) >= maxParsed {
		clear(c.exprs)
	}
	c.exprs[input] = clone(expr)
	c.mu.Unlock()
	return expr, nil
}

// clone returns a copy of a parsed expression that shares only what evaluation in promql/engine.go reads: matchers, functions and
// durations.
func clone(expr parser.Expr) parser.Expr {
	switch n := expr.(type) {
	case *parser.AggregateExpr:
		c := *n
		c.Expr, c.Grouping = clone(n.Expr), slices.Clone(n.Grouping) // evaluation sorts the labels
		if n.Param != nil {
			c.Param = clone(n.Param)
		}
		return &c
	case *parser.BinaryExpr:
		c := *n
		c.LHS, c.RHS = clone(n.LHS), clone(n.RHS)
		return &c
	case *parser.Call:
		c := *n
		c.Args = slices.Clone(n.Args)
		for i, arg := range c.Args {
			c.Args[i] = clone(arg)
		}
		return &c
	case *parser.MatrixSelector:
		c := *n
		c.VectorSelector = clone(n.VectorSelector)
		return &c
	case *parser.NumberLiteral:
		c := *n
		return &c
	case *parser.ParenExpr:
		c := *n
		c.Expr = clone(n.Expr)
		return &c
	case *parser.StringLiteral:
		c := *n
		return &c
	case *parser.SubqueryExpr:
		c := *n
		c.Expr = clone(n.Expr)
		return &c
	case *parser.UnaryExpr:
		c := *n
		c.Expr = clone(n.Expr)
		return &c
	case *parser.VectorSelector:
		c := *n
		return &c
	}
	return expr // of a type that the parser does not return: evaluation makes the others
}
