package ruletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/llmtap/llmtap/alerts/rules"
)

// A Report is the result of a run of test files.
type Report struct {
	Files    int       `json:"files"`
	Tests    int       `json:"tests"`
	Failed   int       `json:"failed"` // failed tests and invalid files
	Failures []Failure `json:"failures"`
}

// Run runs the tests in files, in order, with the limits of source. If ctx ends, Run returns the error of ctx.
func Run(ctx context.Context, source rules.Source, files []string) (*Report, error) {
	r := &Report{Files: len(files), Failures: []Failure{}}
	for _, name := range files {
		f, failures := readFile(name)
		if len(failures) == 0 {
			failures = f.checkRules(ctx, source)
		}
		if len(failures) > 0 {
			r.Failed++
			r.Failures = append(r.Failures, failures...)
			continue
		}
		for i := range f.Tests {
			failures := f.test(ctx, source, i)
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

// load returns the rules of f for a test; none if f has no rule_files.
func (f *file) load(source rules.Source) ([]*rules.Rule, error) {
	if len(f.RuleFiles) == 0 {
		return nil, nil
	}
	source.Files = f.RuleFiles
	return source.Load()
}

// checkRules returns the problems of the rules, and a failure for each expected alert without a rule.
func (f *file) checkRules(ctx context.Context, source rules.Source) (failures []Failure) {
	list, err := f.load(source)
	if err != nil {
		source.Files = f.RuleFiles
		_, problems := source.Lint(ctx)
		for _, p := range problems {
			failures = append(failures, Failure{File: p.File, Line: p.Line, Text: p.Text})
		}
		return failures
	}
	for i := range f.Tests {
		for j, a := range f.Tests[i].AlertTests {
			if !slices.ContainsFunc(list, func(r *rules.Rule) bool { return r.Name == a.Alertname }) {
				failures = append(failures, Failure{
					File: f.name, Line: f.line(fmt.Sprintf("$.tests[%d].alert_rule_test[%d]", i, j)), Test: f.Tests[i].Name,
					Text: fmt.Sprintf("no rule in rule_files has the alert name %s", a.Alertname),
				})
			}
		}
	}
	return failures
}

// test runs the i-th test from its start to its last expectation. An expectation between two steps is compared with the
// state at the earlier step.
func (f *file) test(ctx context.Context, source rules.Source, i int) (failures []Failure) {
	g := &f.Tests[i]
	fail := func(path, text string, diff []string) {
		failures = append(failures, Failure{File: f.name, Line: f.line(fmt.Sprintf("$.tests[%d]%s", i, path)), Test: g.Name, Text: text, Diff: diff})
	}
	source.External = rules.External{Labels: g.ExternalLabels, URL: g.ExternalURL}
	list, err := f.load(source)
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
		if err := s.Close(); err != nil {
			fail("", err.Error(), nil)
		}
	}()
	for at := time.Duration(0); at <= g.end(); at += step {
		ts := s.start.Add(at)
		if err := s.evaluate(ctx, ts, list); err != nil {
			fail("", fmt.Sprintf("at %s: %v", model.Duration(at), err), nil)
			return failures
		}
		for j := range g.AlertTests {
			want := &g.AlertTests[j]
			if d := time.Duration(want.EvalTime); d < at || d >= at+step {
				continue
			}
			if diff := diffAlerts(want, active(list), ts); len(diff) > 0 {
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

// evaluate runs one step: it appends the series, evaluates the rules and appends the states of the alerts.
func (s *store) evaluate(ctx context.Context, ts time.Time, list []*rules.Rule) error {
	if err := s.load(ts); err != nil {
		return err
	}
	var errs []error
	for _, r := range list {
		errs = append(errs, r.Eval(ctx, ts, s.Query))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.appendStates(ts, list)
}
