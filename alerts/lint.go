package alerts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	yamlparser "github.com/goccy/go-yaml/parser"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
)

// A Problem is a mistake in a rule file.
type Problem struct {
	File string
	Line int    // 0 when Text has the place, or there is none
	Text string // what is wrong
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ":" + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// Lint reports every mistake in the rule files of cfg, or in the shipped ones if there are none, and how many rules are
// right: what Check finds, labels that a metric does not have, and templates that fail or use a label that the
// expression's result does not have.
func Lint(ctx context.Context, cfg Config) (rules int, problems []Problem) {
	if err := cfg.Validate(); err != nil {
		return 0, []Problem{{Text: err.Error()}}
	}
	files, read, err := ruleFiles(cfg.RuleFiles)
	if err != nil {
		return 0, []Problem{{Text: err.Error()}}
	}
	for _, f := range files {
		text, err := read(f)
		if err != nil {
			if pe, ok := errors.AsType[*os.PathError](err); ok {
				err = pe.Err
			}
			problems = append(problems, Problem{File: f, Text: " " + err.Error()})
			continue
		}
		n, found := lintFile(ctx, f, text, cfg)
		rules, problems = rules+n, append(problems, found...)
	}
	return rules, problems
}

func lintFile(ctx context.Context, file string, text []byte, cfg Config) (rules int, problems []Problem) {
	tree, err := yamlparser.ParseBytes(text, 0)
	if err != nil {
		tree = nil // if Prometheus can read it, only lines are missing
	}
	p := newParser()
	groups, errs := rulefmt.Parse(text, false, model.LegacyValidation, p, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		problems = append(problems, refused(file, tree, err)...)
	}
	if len(errs) > 0 {
		return 0, problems
	}
	for i, g := range groups.Groups {
		for _, err := range groupErrors(&g, cfg) {
			problems = append(problems, Problem{file, lineOf(tree, i, -1), err.Error()})
		}
		for j, r := range g.Rules {
			one, err := newRule(g, r, max(time.Duration(g.Interval), cfg.EvaluationInterval), cfg, p)
			if err == nil {
				err = one.lint(ctx)
			}
			if err == nil {
				rules++
				continue
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				problems = append(problems, Problem{file, lineOf(tree, i, j), fmt.Sprintf("%s: %s", r.Alert+r.Record, line)})
			}
		}
	}
	return rules, problems
}

var (
	placed   = regexp.MustCompile(`^\d+:\d+: `)
	yamlLine = regexp.MustCompile(`line (\d+): (.*)`)
)

// refused are the problems that an error of Prometheus tells: with line and column, with lines of YAML, or of a rule.
func refused(file string, tree *ast.File, err error) (out []Problem) {
	text := err.Error()
	if placed.MatchString(text) {
		return []Problem{{File: file, Text: text}}
	}
	for _, m := range yamlLine.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil {
			out = append(out, Problem{file, n, m[2]})
		}
	}
	if re, ok := errors.AsType[*rulefmt.Error](err); ok && out == nil {
		for i := 0; lineOf(tree, i, -1) > 0; i++ {
			if path, err := yaml.PathString(fmt.Sprintf("$.groups[%d].name", i)); err == nil {
				if node, err := path.FilterFile(tree); err == nil && node.GetToken().Value == re.Group {
					return []Problem{{file, lineOf(tree, i, re.Rule-1), text}}
				}
			}
		}
	}
	if out == nil {
		out = []Problem{{File: file, Text: " " + text}}
	}
	return out
}

// lineOf is where rule j of group i begins, or the group for a negative j; 0 when that cannot be told.
func lineOf(tree *ast.File, i, j int) int {
	at := fmt.Sprintf("$.groups[%d].name", i)
	if j >= 0 {
		at = fmt.Sprintf("$.groups[%d].rules[%d]", i, j)
	}
	path, err := yaml.PathString(at)
	if tree == nil || err != nil {
		return 0
	}
	node, err := path.FilterFile(tree)
	if err != nil {
		return 0
	}
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		node = m.Values[0].Key // a mapping's own token is the colon of its first key
	}
	return node.GetToken().Position.Line
}

// lint checks the labels and templates of r.
func (r *rule) lint(ctx context.Context) error {
	expr, err := newParser().ParseExpr(r.expr)
	if err != nil {
		return fmt.Errorf("parse expression: %w", err)
	}
	var l labelLint
	result := l.of(expr)
	errs := l.errs
	for _, m := range []struct {
		what  string
		texts map[string]string
	}{{"label", r.labels}, {"annotation", r.annotations}} {
		for _, name := range slices.Sorted(maps.Keys(m.texts)) {
			text := m.texts[name]
			for _, used := range usedLabels(text) {
				if result != nil && !result[used] {
					errs = append(errs, fmt.Errorf("%s %s uses the label %s, which the expression's result does not have; it has %s",
						m.what, name, used, orNone(result)))
				}
			}
			if err := tryTemplate(ctx, r.name, text, result); err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", m.what, name, err))
			}
		}
	}
	return errors.Join(errs...)
}

var labelUse = regexp.MustCompile(`(?:\$labels|\.Labels)\.([a-zA-Z_][a-zA-Z0-9_]*)|index\s+(?:\$labels|\.Labels)\s+"([^"]+)"`)

// usedLabels are the labels that a template names.
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

// tryTemplate expands text for a sample that has the labels of set.
func tryTemplate(ctx context.Context, name, text string, set map[string]bool) error {
	kv := map[string]string{}
	for l := range set {
		kv[l] = l
	}
	sample := promql.Sample{T: 1000, F: 0.5, Metric: labels.FromMap(kv)}
	query := func(context.Context, string, time.Time) (promql.Vector, error) { return promql.Vector{sample}, nil }
	_, err := expandTemplate(ctx, name, text, kv, External{}, sample, time.Unix(1, 0), query)
	return err
}

func orNone(set map[string]bool) string {
	if len(set) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(set)), ", ")
}

// expandTemplate expands a label or annotation of an alert as Prometheus does.
func expandTemplate(ctx context.Context, name, text string, series map[string]string, x External, s promql.Sample, ts time.Time, query template.QueryFunc) (string, error) {
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	text = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}" + text
	data := template.AlertTemplateData(series, x.Labels, x.URL, s)
	return template.NewTemplateExpander(ctx, text, "alert "+name, data, model.TimeFromUnixNano(ts.UnixNano()), query, nil, nil).Expand()
}
