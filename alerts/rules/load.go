package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	yamlparser "github.com/goccy/go-yaml/parser"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// WindowAnnotation is the annotation for the window of a rule's evidence, for example 10m.
const WindowAnnotation = "llmtap_window"

// defaultWindow is the window of rules without the annotation.
const defaultWindow = 10 * time.Minute

// A Source consists of rule files and the limits for their rules.
type Source struct {
	Files     []string      // Prometheus rule files; if empty, the shipped rules are used
	Interval  time.Duration // interval between evaluations
	MaxWindow time.Duration // longest window of evidence
	External  External
}

// External contains the values of $externalLabels and $externalURL in templates.
type External struct {
	Labels map[string]string
	URL    string
}

// Load returns the rules of all files, in order. Its error joins the LintErrors of the files: rules that Prometheus
// rejects, unknown metrics, and features that llmtap does not support.
func (s Source) Load() ([]*Rule, error) {
	list, problems := s.read(func(*Rule) error { return nil })
	var errs []error
	for _, p := range problems {
		errs = append(errs, p)
	}
	return list, errors.Join(errs...)
}

// read returns the rules that pass check, and the problems of all other rules.
func (s Source) read(check func(*Rule) error) (list []*Rule, problems []LintError) {
	files, readFile := s.Files, os.ReadFile
	if len(files) == 0 {
		files, _ = fs.Glob(FS, "*.yaml") // the pattern is valid
		readFile = FS.ReadFile
	}
	for _, f := range files {
		text, err := readFile(f)
		if err != nil {
			if pe, ok := errors.AsType[*os.PathError](err); ok {
				err = pe.Err
			}
			problems = append(problems, LintError{File: f, Text: err.Error()})
			continue
		}
		some, found := s.parse(f, text, check)
		list, problems = append(list, some...), append(problems, found...)
	}
	return list, problems
}

var promqlParser = parser.NewParser(parser.Options{})

func (s Source) parse(file string, text []byte, check func(*Rule) error) (list []*Rule, problems []LintError) {
	tree, err := yamlparser.ParseBytes(text, 0)
	if err != nil {
		tree = nil // if Prometheus can parse it, only line numbers are missing
	}
	groups, errs := rulefmt.Parse(text, false, model.LegacyValidation, promqlParser, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		problems = append(problems, rejected(file, tree, err)...)
	}
	if len(errs) > 0 {
		return nil, problems
	}
	for i, g := range groups.Groups {
		fail := func(path string, err error) {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				problems = append(problems, LintError{file, Line(tree, fmt.Sprintf("$.groups[%d].%s", i, path)), line})
			}
		}
		every := time.Duration(g.Interval)
		if every%s.Interval != 0 {
			fail("name", fmt.Errorf("group %s: interval %v is not a multiple of %v", g.Name, every, s.Interval))
		}
		if g.QueryOffset != nil && *g.QueryOffset != 0 {
			fail("name", fmt.Errorf("group %s: query_offset is not supported; tallies are complete when they arrive", g.Name))
		}
		for j, r := range g.Rules {
			rule, err := s.newRule(g, r, max(every, s.Interval))
			if err == nil {
				err = check(rule)
			}
			if err != nil {
				name := r.Alert + r.Record + ": "
				fail(fmt.Sprintf("rules[%d]", j), errors.New(name+strings.ReplaceAll(err.Error(), "\n", "\n"+name)))
				continue
			}
			list = append(list, rule)
		}
	}
	return list, problems
}

func (s Source) newRule(g rulefmt.RuleGroup, r rulefmt.Rule, every time.Duration) (*Rule, error) {
	if r.Alert == "" {
		return nil, errors.New("recording rules are not supported; write the expression into the alert rule")
	}
	expr, err := promqlParser.ParseExpr(r.Expr)
	if err != nil {
		return nil, fmt.Errorf("parse expression: %w", err)
	}
	if t := expr.Type(); t != parser.ValueTypeVector && t != parser.ValueTypeScalar {
		return nil, fmt.Errorf("the expression is a %s, an alert requires a vector", t)
	}
	window := defaultWindow
	if w := r.Annotations[WindowAnnotation]; w != "" {
		d, err := model.ParseDuration(w)
		if err != nil {
			return nil, fmt.Errorf("annotation %s: %w", WindowAnnotation, err)
		}
		window = time.Duration(d)
	}
	if window < s.Interval || window > s.MaxWindow || window%s.Interval != 0 {
		return nil, fmt.Errorf("annotation %s: %v is not a multiple of %v up to %v", WindowAnnotation, window, s.Interval, s.MaxWindow)
	}
	out := &Rule{
		Name: r.Alert, Every: every, For: time.Duration(r.For), Window: window, WindowText: r.Annotations[WindowAnnotation],
		Active: map[string]*Instance{}, expr: expr.String(), keepFiringFor: time.Duration(r.KeepFiringFor),
		labels: map[string]string{}, annotations: maps.Clone(r.Annotations), selectors: map[string][]*labels.Matcher{}, external: s.External,
	}
	maps.Copy(out.labels, g.Labels)
	maps.Copy(out.labels, r.Labels)
	delete(out.annotations, WindowAnnotation)
	return out, out.inspect(expr)
}

// inspect derives the selectors for evidence from the expression, and whether the rule is about llmtap's own health. It
// rejects unknown metrics.
func (r *Rule) inspect(expr parser.Expr) error {
	var errs []error
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			if !n.Without && !slices.ContainsFunc(path, aggregates) { // an outer aggregation decides which labels the result has
				r.grouping = append(r.grouping, n.Grouping...)
			}
		case *parser.VectorSelector:
			name := n.Name
			var matchers []*labels.Matcher
			for _, m := range n.LabelMatchers {
				switch {
				case m.Name != model.MetricNameLabel:
					matchers = append(matchers, m)
				case m.Type == labels.MatchEqual:
					name = m.Value
				default:
					errs = append(errs, fmt.Errorf("the name of a metric cannot be a pattern: %s", n))
					return nil
				}
			}
			if !slices.Contains(knownMetrics, name) {
				errs = append(errs, fmt.Errorf("unknown metric %q; known metrics: %s", name, strings.Join(knownMetrics, ", ")))
			}
			if _, ok := r.selectors[name]; !ok {
				r.selectors[name] = matchers
			}
			if r.failures == "" && CountsFailures(name) {
				r.failures = name
			}
		}
		return nil
	})
	health := 0
	for name := range r.selectors {
		if slices.Contains(healthMetrics, name) {
			health++
		}
	}
	// A rule without metrics, such as a watchdog, must not wait for a tally.
	if r.Health = health == len(r.selectors); !r.Health && health > 0 {
		errs = append(errs, errors.New("the expression mixes llmtap's current health with counts of the stream, which may be behind"))
	}
	return errors.Join(errs...)
}

func aggregates(n parser.Node) bool {
	_, ok := n.(*parser.AggregateExpr)
	return ok
}
