package rules

import (
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// A Condition is a comparison of a value with a number.
type Condition struct {
	Value     string // PromQL expression
	Op        string // such as >
	Threshold float64
	Others    bool // the rule has further conditions
}

// Condition returns the first comparison with a number in the expression of r, from the left. ok is false if there is none.
func (r *Rule) Condition() (c Condition, ok bool) {
	expr, err := promqlParser.ParseExpr(r.expr)
	if err != nil {
		return c, false
	}
	return condition(expr, false)
}

func condition(expr parser.Expr, others bool) (c Condition, ok bool) {
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return condition(e.Expr, others)
	case *parser.BinaryExpr:
		if !e.Op.IsComparisonOperator() && !e.Op.IsSetOperator() {
			return c, false
		}
		if n, isNumber := e.RHS.(*parser.NumberLiteral); isNumber && e.Op.IsComparisonOperator() {
			if first, found := condition(e.LHS, true); found { // a >= 15 < 100
				return first, true
			}
			return Condition{e.LHS.String(), e.Op.String(), n.Val, others}, true
		}
		return condition(e.LHS, true)
	}
	return c, false
}

// Severity returns the label severity of r, or "".
func (r *Rule) Severity() string { return r.labels["severity"] }

// Labels returns the labels that r adds, with their templates. They must not be modified.
func (r *Rule) Labels() map[string]string { return r.labels }

// Annotations returns the annotations of r, with their templates. They must not be modified.
func (r *Rule) Annotations() map[string]string { return r.annotations }

// KeepFiringFor returns how long an alert of r fires after its expression was last true.
func (r *Rule) KeepFiringFor() time.Duration { return r.keepFiringFor }
