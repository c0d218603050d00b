package ruletest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/llmtap/llmtap/alerts"
)

// A Report is how the tests of some files ended.
type Report struct {
	Files    int       `json:"files"`
	Tests    int       `json:"tests"`
	Failed   int       `json:"failed"` // tests that do not hold, and files that cannot be read
	Failures []Failure `json:"failures"`
}

// Run runs the tests of files, in order. Rules are read as an Engine of cfg reads them. It ends early with ctx, and then
// returns its error.
func Run(ctx context.Context, cfg alerts.Config, files []string) (*Report, error) {
	r := &Report{Files: len(files), Failures: []Failure{}}
	for _, name := range files {
		f, failures := readFile(name)
		if len(failures) == 0 {
			failures = f.checkRules(ctx, cfg)
		}
		if len(failures) > 0 {
			r.Failed++
			r.Failures = append(r.Failures, failures...)
			continue
		}
		for i := range f.Tests {
			failures := f.test(ctx, cfg, i)
			if err := ctx.Err(); err != nil {
				return r, fmt.Errorf("test rules: %w", err)
			}
			r.Tests++
			if len(failures) > 0 {
				r.Failed++
			}
			r.Failures = append(r.Failures, failures...)
		}
	}
	return r, nil
}

// checkRules reports the mistakes of the rules, and alerts that are expected of none.
func (f *file) checkRules(ctx context.Context, cfg alerts.Config) (failures []Failure) {
	rules, err := alerts.NewRuleSet(f.RuleFiles, cfg, alerts.External{})
	if err != nil {
		if cfg.RuleFiles = f.RuleFiles; len(f.RuleFiles) > 0 {
			_, problems := alerts.Lint(ctx, cfg)
			for _, p := range problems {
				failures = append(failures, Failure{File: p.File, Line: p.Line, Text: strings.TrimSpace(p.Text)})
			}
		}
		if len(failures) == 0 {
			failures = []Failure{{File: f.name, Text: err.Error()}}
		}
		return failures
	}
	names := rules.Names()
	for i := range f.Tests {
		for j, a := range f.Tests[i].AlertTests {
			if !slices.Contains(names, a.Alertname) {
				failures = append(failures, Failure{
					File: f.name, Line: f.line(fmt.Sprintf("$.tests[%d].alert_rule_test[%d]", i, j)), Test: f.Tests[i].Name,
					Text: fmt.Sprintf("no rule of rule_files makes the alert %s", a.Alertname),
				})
			}
		}
	}
	return failures
}

// test runs the i-th test: the rules from its start to the last time that it expects anything at. What is expected between
// two steps is compared with the earlier one.
func (f *file) test(ctx context.Context, cfg alerts.Config, i int) (failures []Failure) {
	g := &f.Tests[i]
	fail := func(path, text string, diff []string) {
		failures = append(failures, Failure{File: f.name, Line: f.line(fmt.Sprintf("$.tests[%d]%s", i, path)), Test: g.Name, Text: text, Diff: diff})
	}
	rules, err := alerts.NewRuleSet(f.RuleFiles, cfg, alerts.External{Labels: g.ExternalLabels, URL: g.ExternalURL})
	if err != nil {
		fail("", err.Error(), nil)
		return failures
	}
	step := time.Duration(f.EvaluationInterval)
	s, err := openStore(g, step)
	if err != nil {
		fail("", err.Error(), nil)
		return failures
	}
	defer func() {
		if err := s.close(); err != nil {
			fail("", err.Error(), nil)
		}
	}()
	for at := time.Duration(0); at <= g.end(); at += step {
		ts := s.start.Add(at)
		err := s.load(ctx, ts)
		if err == nil {
			err = rules.Eval(ctx, ts, s.query)
		}
		if err == nil {
			err = s.keepStates(ctx, ts, rules.Active())
		}
		if err != nil {
			fail("", fmt.Sprintf("at %s: %v", model.Duration(at), err), nil)
			return failures
		}
		for j := range g.AlertTests {
			want := &g.AlertTests[j]
			if d := time.Duration(want.EvalTime); d < at || d >= at+step {
				continue
			}
			if diff := diffAlerts(want, rules.Active(), ts); len(diff) > 0 {
				fail(fmt.Sprintf(".alert_rule_test[%d]", j), fmt.Sprintf("%s at %s", want.Alertname, want.EvalTime), diff)
			}
		}
	}
	for j := range g.ExprTests {
		want := &g.ExprTests[j]
		diff, err := s.diffExpr(ctx, want, f.FuzzyCompare)
		if err != nil {
			diff = []string{err.Error()}
		}
		if len(diff) > 0 {
			fail(fmt.Sprintf(".promql_expr_test[%d]", j), fmt.Sprintf("%s at %s", strings.TrimSpace(want.Expr), want.EvalTime), diff)
		}
	}
	return failures
}
