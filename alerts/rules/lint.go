package rules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
)

// A LintError is an error in a rule file.
type LintError struct {
	File string
	Line int // 0 if unknown or if Text begins with line and column
	Text string
}

func (p LintError) Error() string {
	switch {
	case p.Line > 0:
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
	case position.MatchString(p.Text):
		return p.File + ":" + p.Text
	}
	return p.File + ": " + p.Text
}

// Lint returns the number of valid rules and all problems. It finds the problems that Load finds, labels that a metric
// does not have, and templates that fail or use a label that the expression's result does not have.
func (s Source) Lint(ctx context.Context) (valid int, problems []LintError) {
	list, problems := s.read(func(r *Rule) error { return r.lint(ctx) })
	return len(list), problems
}

var (
	position = regexp.MustCompile(`^\d+:\d+: `)
	yamlLine = regexp.MustCompile(`line (\d+): (.*)`)
)

// rejected returns the problems in err, an error from Prometheus. Such an error contains a line and column, or lines of
// YAML, or a rule.
func rejected(file string, tree *ast.File, err error) (out []LintError) {
	text := err.Error()
	if position.MatchString(text) {
		return []LintError{{File: file, Text: text}}
	}
	for _, m := range yamlLine.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil {
			out = append(out, LintError{file, n, m[2]})
		}
	}
	if out != nil {
		return out
	}
	p := LintError{File: file, Text: text}
	if re, ok := errors.AsType[*rulefmt.Error](err); ok {
		for i := 0; ; i++ {
			name := find(tree, fmt.Sprintf("$.groups[%d].name", i))
			if name == nil {
				break
			}
			if name.GetToken().Value == re.Group {
				p.Line = Line(tree, fmt.Sprintf("$.groups[%d].rules[%d]", i, re.Rule-1))
				break
			}
		}
	}
	return []LintError{p}
}

// Line returns the line at which the value at a YAML path begins, or 0 if unknown.
func Line(tree *ast.File, path string) int {
	node := find(tree, path)
	if node == nil {
		return 0
	}
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		node = m.Values[0].Key // a mapping's own token is the colon of its first key
	}
	return node.GetToken().Position.Line
}

func find(tree *ast.File, path string) ast.Node {
	p, err := yaml.PathString(path)
	if tree == nil || err != nil {
		return nil
	}
	node, err := p.FilterFile(tree)
	if err != nil {
		return nil
	}
	return node
}

// lint checks the labels and templates of r.
func (r *Rule) lint(ctx context.Context) error {
	var l labelLint
	expr, err := promqlParser.ParseExpr(r.expr)
	if err != nil {
		return fmt.Errorf("parse expression: %w", err)
	}
	result := l.of(expr)
	errs := l.errs
	for _, m := range []struct {
		kind  string
		texts map[string]string
	}{{"label", r.labels}, {"annotation", r.annotations}} {
		for _, name := range slices.Sorted(maps.Keys(m.texts)) {
			text := m.texts[name]
			for _, used := range usedLabels(text) {
				if result != nil && !result[used] {
					errs = append(errs, fmt.Errorf("%s %s uses the label %s, but the labels of the expression's result are: %s", m.kind, name, used, listed(result)))
				}
			}
			if err := r.tryTemplate(ctx, text, result); err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", m.kind, name, err))
			}
		}
	}
	return errors.Join(errs...)
}

var labelUse = regexp.MustCompile(`(?:\$labels|\.Labels)\.([a-zA-Z_][a-zA-Z0-9_]*)|index\s+(?:\$labels|\.Labels)\s+"([^"]+)"`)

// usedLabels returns the labels used in a template.
func usedLabels(text string) []string {
	var out []string
	if !strings.Contains(text, "{{") {
		return nil
	}
	for _, m := range labelUse.FindAllStringSubmatch(text, -1) {
		if name := m[1] + m[2]; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// tryTemplate returns an error if text cannot be expanded for a sample with the labels in set.
func (r *Rule) tryTemplate(ctx context.Context, text string, set map[string]bool) error {
	kv := map[string]string{}
	for l := range set {
		kv[l] = l
	}
	sample := promql.Sample{T: 1000, F: 0.5, Metric: labels.FromMap(kv)}
	query := func(context.Context, string, time.Time) (promql.Vector, error) { return promql.Vector{sample}, nil }
	e := &expansion{ctx: ctx, rule: r, ts: time.Unix(1, 0), query: query}
	_, err := e.execute(variables+text, template.AlertTemplateData(kv, r.external.Labels, r.external.URL, sample))
	return err
}

func listed(set map[string]bool) string {
	if len(set) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(set)), ", ")
}
