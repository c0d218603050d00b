package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// labelLint infers the labels of an expression's result and reports labels that cannot exist.
type labelLint struct{ errs []error }

func (l *labelLint) fail(format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf(format, args...))
}

// of returns the possible labels of e's result, or nil if they are unknown.
func (l *labelLint) of(e parser.Expr) map[string]bool {
	switch e := e.(type) {
	case *parser.VectorSelector:
		return l.selector(e)
	case *parser.MatrixSelector:
		return l.of(e.VectorSelector)
	case *parser.SubqueryExpr:
		return l.of(e.Expr)
	case *parser.ParenExpr:
		return l.of(e.Expr)
	case *parser.UnaryExpr:
		return l.of(e.Expr)
	case *parser.StepInvariantExpr:
		return l.of(e.Expr)
	case *parser.AggregateExpr:
		return l.aggregate(e)
	case *parser.BinaryExpr:
		return l.binary(e)
	case *parser.Call:
		return l.call(e)
	default: // a number or a string
		return map[string]bool{}
	}
}

func setOf(names []string) map[string]bool {
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return out
}

func (l *labelLint) selector(e *parser.VectorSelector) map[string]bool {
	has := labelsOf(e.Name)
	for _, m := range e.LabelMatchers {
		if m.Name != model.MetricNameLabel && !slices.Contains(has, m.Name) {
			l.fail("%s has no label %s; its labels: %s", e.Name, m.Name, listed(setOf(has)))
		}
	}
	return setOf(has)
}

func (l *labelLint) aggregate(e *parser.AggregateExpr) map[string]bool {
	in := l.of(e.Expr)
	if e.Param != nil {
		l.of(e.Param)
	}
	clause := "by"
	if e.Without {
		clause = "without"
	}
	l.require(in, e.Grouping, fmt.Sprintf("%s %s", e.Op, clause))
	switch e.Op {
	case parser.TOPK, parser.BOTTOMK, parser.LIMITK, parser.LIMIT_RATIO: // these operators select series and retain all labels
		return in
	}
	if !e.Without {
		out := setOf(e.Grouping)
		if e.Op == parser.COUNT_VALUES {
			return nil
		}
		return out
	}
	out := maps.Clone(in)
	maps.DeleteFunc(out, func(name string, _ bool) bool { return slices.Contains(e.Grouping, name) })
	return out
}

// require reports the names that are not in set.
func (l *labelLint) require(set map[string]bool, names []string, clause string) {
	for _, n := range names {
		if set != nil && !set[n] {
			l.fail("%s (%s): no label %s; known labels: %s", clause, strings.Join(names, ", "), n, listed(set))
		}
	}
}

func (l *labelLint) binary(e *parser.BinaryExpr) map[string]bool {
	left, right := l.of(e.LHS), l.of(e.RHS)
	m := e.VectorMatching
	switch {
	case e.LHS.Type() == parser.ValueTypeScalar:
		return right
	case e.RHS.Type() == parser.ValueTypeScalar || m == nil:
		return left
	case left == nil || right == nil:
		return nil
	}
	if m.On {
		both := maps.Clone(left)
		maps.Copy(both, right)
		l.require(both, m.MatchingLabels, "on")
	}
	out := maps.Clone(left)
	switch {
	case e.Op == parser.LOR:
		maps.Copy(out, right)
	case e.Op == parser.LAND, e.Op == parser.LUNLESS:
		// the result is series of the left side
	case m.Card == parser.CardManyToOne, m.Card == parser.CardOneToMany:
		if m.Card == parser.CardOneToMany {
			out = maps.Clone(right)
		}
		maps.Copy(out, setOf(m.Include))
	case m.On:
		return setOf(m.MatchingLabels)
	default:
		maps.DeleteFunc(out, func(name string, _ bool) bool { return slices.Contains(m.MatchingLabels, name) })
	}
	return out
}

func (l *labelLint) call(e *parser.Call) map[string]bool {
	var out map[string]bool
	vectors := 0
	for _, a := range e.Args {
		set := l.of(a)
		if t := a.Type(); t == parser.ValueTypeVector || t == parser.ValueTypeMatrix {
			out, vectors = set, vectors+1
		}
	}
	switch e.Func.Name {
	case "absent", "absent_over_time":
		return equalities(e.Args[0])
	case "label_replace", "label_join":
		if s, ok := e.Args[1].(*parser.StringLiteral); ok && out != nil {
			out = maps.Clone(out)
			out[s.Val] = true
			return out
		}
		return nil
	case "scalar", "vector", "time":
		return map[string]bool{}
	}
	if vectors == 0 {
		return map[string]bool{}
	}
	return out
}

// equalities returns the labels that absent() copies from the selector e: the labels with an equality matcher.
func equalities(e parser.Expr) map[string]bool {
	out := map[string]bool{}
	if m, ok := e.(*parser.MatrixSelector); ok {
		e = m.VectorSelector
	}
	if v, ok := e.(*parser.VectorSelector); ok {
		for _, m := range v.LabelMatchers {
			if m.Type == labels.MatchEqual && m.Name != model.MetricNameLabel {
				out[m.Name] = true
			}
		}
	}
	return out
}
