package alerts

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

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
)

// windowAnnotation names the window of a rule's evidence, e.g. "10m".
const windowAnnotation = "llmtap_window"

// defaultWindow is the window of rules without the annotation.
const defaultWindow = 10 * time.Minute

// knownMetrics are the metrics that rules can ask for.
var knownMetrics = slices.Concat(analyzer.Metrics(), []string{MetricExpected}, healthMetrics)

// tallyLabels are the labels of the tallies' series, those that tell most apart first; others of an alert do not narrow
// its evidence.
var tallyLabels = []string{"service", "stage", "environment", "service_version", "agent", "provider", "model", "status", "cause", "root_cause"}

// Check reports every mistake in rule files: what Prometheus refuses, metrics that no tally has, and what the engine
// cannot do. No files means the shipped ones.
func Check(files []string) error {
	_, err := loadRules(files, Default())
	return err
}

// loadRules reads the rules of files, or of the shipped ones if there are none, in order.
func loadRules(files []string, cfg Config) ([]*rule, error) {
	files, read, err := ruleFiles(files)
	if err != nil {
		return nil, err
	}
	var out []*rule
	var errs []error
	for _, f := range files {
		text, err := read(f)
		if err != nil {
			errs = append(errs, fmt.Errorf("read rule file: %w", err))
			continue
		}
		rs, err := parseRules(text, cfg)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f, err))
		}
		out = append(out, rs...)
	}
	return out, errors.Join(errs...)
}

// ruleFiles are files and what reads them, the shipped ones if there are none.
func ruleFiles(files []string) ([]string, func(string) ([]byte, error), error) {
	if len(files) > 0 {
		return files, os.ReadFile, nil
	}
	names, err := fs.Glob(rules.FS, "*.yaml")
	if err != nil {
		return nil, nil, fmt.Errorf("list shipped rules: %w", err)
	}
	return names, rules.FS.ReadFile, nil
}

func newParser() parser.Parser { return parser.NewParser(parser.Options{}) }

func parseRules(text []byte, cfg Config) ([]*rule, error) {
	p := newParser()
	groups, errs := rulefmt.Parse(text, false, model.LegacyValidation, p, slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	var out []*rule
	for _, g := range groups.Groups {
		every := time.Duration(g.Interval)
		errs = append(errs, groupErrors(&g, cfg)...)
		for i, r := range g.Rules {
			one, err := newRule(g, r, max(every, cfg.EvaluationInterval), cfg, p)
			if err != nil {
				errs = append(errs, fmt.Errorf("group %s, rule %d (%s): %w", g.Name, i+1, r.Alert+r.Record, err))
				continue
			}
			out = append(out, one)
		}
	}
	return out, errors.Join(errs...)
}

// groupErrors are what the engine does not do with a group.
func groupErrors(g *rulefmt.RuleGroup, cfg Config) (errs []error) {
	if every := time.Duration(g.Interval); every%cfg.EvaluationInterval != 0 {
		errs = append(errs, fmt.Errorf("group %s: interval %v is not a multiple of %v", g.Name, every, cfg.EvaluationInterval))
	}
	if g.QueryOffset != nil && *g.QueryOffset != 0 {
		errs = append(errs, fmt.Errorf("group %s: query_offset is not supported; tallies are complete when they come", g.Name))
	}
	return errs
}

func newRule(g rulefmt.RuleGroup, r rulefmt.Rule, every time.Duration, cfg Config, p parser.Parser) (*rule, error) {
	if r.Alert == "" {
		return nil, errors.New("recording rules are not supported; write the expression into the alert rule")
	}
	expr, err := p.ParseExpr(r.Expr)
	if err != nil {
		return nil, fmt.Errorf("parse expression: %w", err)
	}
	if t := expr.Type(); t != parser.ValueTypeVector && t != parser.ValueTypeScalar {
		return nil, fmt.Errorf("the expression is a %s, an alert needs a vector", t)
	}
	window := defaultWindow
	if w := r.Annotations[windowAnnotation]; w != "" {
		d, err := model.ParseDuration(w)
		if err != nil {
			return nil, fmt.Errorf("annotation %s: %w", windowAnnotation, err)
		}
		window = time.Duration(d)
	}
	if window < cfg.EvaluationInterval || window > cfg.Retention || window%cfg.EvaluationInterval != 0 {
		return nil, fmt.Errorf("annotation %s: %v is not a multiple of %v up to %v", windowAnnotation, window, cfg.EvaluationInterval, cfg.Retention)
	}
	out := &rule{
		name: r.Alert, expr: r.Expr, every: every, window: window, windowText: r.Annotations[windowAnnotation],
		hold: time.Duration(r.For), keep: time.Duration(r.KeepFiringFor),
		labels: map[string]string{}, annotations: map[string]string{},
		selectors: map[string][]*labels.Matcher{}, active: map[string]*instance{},
	}
	for _, m := range []map[string]string{g.Labels, r.Labels} {
		maps.Copy(out.labels, m)
	}
	for k, v := range r.Annotations {
		if k != windowAnnotation {
			out.annotations[k] = v
		}
	}
	if err := out.inspect(expr); err != nil {
		return nil, err
	}
	if _, err := out.ofHealth(); err != nil {
		return nil, err
	}
	return out, nil
}

// inspect learns from the expression what evidence has to match, and refuses metrics that no tally has.
func (r *rule) inspect(expr parser.Expr) error {
	var errs []error
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			if !n.Without {
				r.grouping = append(r.grouping, n.Grouping...)
			}
		case *parser.VectorSelector:
			name := n.Name
			var rest []*labels.Matcher
			for _, m := range n.LabelMatchers {
				switch {
				case m.Name != model.MetricNameLabel:
					rest = append(rest, m)
				case m.Type == labels.MatchEqual:
					name = m.Value
				default:
					errs = append(errs, fmt.Errorf("a metric's name must be given, not matched: %s", n))
					return nil
				}
			}
			if !slices.Contains(knownMetrics, name) {
				errs = append(errs, fmt.Errorf("unknown metric %q; there are %s", name, strings.Join(knownMetrics, ", ")))
			}
			if _, ok := r.selectors[name]; !ok {
				r.selectors[name] = rest
			}
		}
		return nil
	})
	return errors.Join(errs...)
}
