package ruletest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	yamlparser "github.com/goccy/go-yaml/parser"
	"github.com/prometheus/common/model"

	"github.com/llmtap/llmtap/alerts/rules"
)

// A file is a unit test file, with the keys of promtool.
type file struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	// GroupEvalOrder has no effect: without recording rules, no rule depends on another.
	GroupEvalOrder []string `yaml:"group_eval_order"`
	Tests          []group  `yaml:"tests"`
	FuzzyCompare   bool     `yaml:"fuzzy_compare"`

	name string
	tree *ast.File // nil if line numbers are unknown
}

// A group is one test: input series and expectations.
type group struct {
	Name           string            `yaml:"name"`
	Interval       model.Duration    `yaml:"interval"`
	InputSeries    []inputSeries     `yaml:"input_series"`
	AlertTests     []alertTest       `yaml:"alert_rule_test"`
	ExprTests      []exprTest        `yaml:"promql_expr_test"`
	ExternalLabels map[string]string `yaml:"external_labels"`
	ExternalURL    string            `yaml:"external_url"`
	StartTimestamp string            `yaml:"start_timestamp"`
}

type inputSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

type alertTest struct {
	EvalTime  model.Duration `yaml:"eval_time"`
	Alertname string         `yaml:"alertname"`
	ExpAlerts []expAlert     `yaml:"exp_alerts"`
}

type expAlert struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

type exprTest struct {
	Expr       string         `yaml:"expr"`
	EvalTime   model.Duration `yaml:"eval_time"`
	ExpSamples []expSample    `yaml:"exp_samples"`
}

type expSample struct {
	Labels    string  `yaml:"labels"`
	Value     float64 `yaml:"value"`
	Histogram string  `yaml:"histogram"`
}

const (
	// defaultInterval is the default of promtool.
	defaultInterval = model.Duration(time.Minute)
	// maxValues bounds a series, so that a typing error cannot exhaust memory.
	maxValues = 1_000_000
)

// readFile parses and validates a file.
func readFile(name string) (*file, []Failure) {
	text, err := os.ReadFile(name)
	if err != nil {
		if pe, ok := errors.AsType[*os.PathError](err); ok {
			err = pe.Err
		}
		return nil, []Failure{{File: name, Text: err.Error()}}
	}
	f := new(file)
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(f); err != nil && !errors.Is(err, io.EOF) {
		return nil, []Failure{yamlFailure(name, err)}
	}
	f.name = name
	if f.tree, err = yamlparser.ParseBytes(text, 0); err != nil {
		f.tree = nil // only line numbers are missing
	}
	return f, f.check()
}

// yamlFailure returns the Failure for an error of the YAML library, with its line if known.
func yamlFailure(name string, err error) Failure {
	if ye, ok := errors.AsType[yaml.Error](err); ok && ye.GetToken() != nil {
		return Failure{File: name, Line: ye.GetToken().Position.Line, Text: ye.GetMessage()}
	}
	return Failure{File: name, Text: err.Error()}
}

// check sets defaults and validates f.
func (f *file) check() (failures []Failure) {
	fail := func(path, format string, args ...any) {
		failures = append(failures, Failure{File: f.name, Line: f.line(path), Text: fmt.Sprintf(format, args...)})
	}
	if f.EvaluationInterval == 0 {
		f.EvaluationInterval = defaultInterval
	}
	for i, g := range f.GroupEvalOrder {
		if slices.Contains(f.GroupEvalOrder[:i], g) {
			fail(fmt.Sprintf("$.group_eval_order[%d]", i), "duplicate group %s in group_eval_order", g)
		}
	}
	var files []string
	for i, pattern := range f.RuleFiles {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(f.name), pattern)
		}
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			fail(fmt.Sprintf("$.rule_files[%d]", i), "no rule file matches %s", f.RuleFiles[i])
		}
		files = append(files, found...)
	}
	f.RuleFiles = files
	if len(f.Tests) == 0 {
		fail("$", "the file has no tests")
	}
	for i := range f.Tests {
		g := &f.Tests[i]
		if g.Interval == 0 {
			g.Interval = f.EvaluationInterval
		}
		if g.Name == "" {
			g.Name = fmt.Sprintf("unnamed#%d", i)
		}
		if _, err := g.start(); err != nil {
			fail(fmt.Sprintf("$.tests[%d].start_timestamp", i), "%v", err)
		}
		for j := range g.InputSeries {
			if err := tooLong(g.InputSeries[j].Values); err != nil {
				fail(fmt.Sprintf("$.tests[%d].input_series[%d]", i, j), "%v", err)
			}
		}
		for j := range g.AlertTests {
			if g.AlertTests[j].Alertname == "" {
				fail(fmt.Sprintf("$.tests[%d].alert_rule_test[%d]", i, j), "alertname is missing")
			}
		}
	}
	return failures
}

var repeats = regexp.MustCompile(`x(\d+)`)

// tooLong returns an error if the values of a series would expand to more than maxValues.
func tooLong(values string) error {
	n := uint64(0)
	for _, m := range repeats.FindAllStringSubmatch(values, -1) {
		k, err := strconv.ParseUint(m[1], 10, 32)
		if n += k; err != nil || n > maxValues {
			return fmt.Errorf("a series has at most %d values", maxValues)
		}
	}
	return nil
}

// start returns the time of the first value of each series.
func (g *group) start() (time.Time, error) {
	if g.StartTimestamp == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	if s, err := strconv.ParseFloat(g.StartTimestamp, 64); err == nil && s >= 0 && s < 1e11 {
		return time.UnixMilli(int64(s * 1000)).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, g.StartTimestamp)
	if err != nil {
		return t, fmt.Errorf("start_timestamp: %q is neither RFC 3339 nor Unix seconds", g.StartTimestamp)
	}
	return t.UTC(), nil
}

// end returns the time of the last expectation, relative to the start.
func (g *group) end() (last time.Duration) {
	for _, a := range g.AlertTests {
		last = max(last, time.Duration(a.EvalTime))
	}
	for _, x := range g.ExprTests {
		last = max(last, time.Duration(x.EvalTime))
	}
	return last
}

// line returns the line at which the value at path begins, or 0 if unknown.
func (f *file) line(path string) int { return rules.Line(f.tree, path) }

// A Failure is an expectation that was not met, or an error in a file.
type Failure struct {
	File string   `json:"file"`
	Line int      `json:"line,omitempty"` // 0 if unknown or if Text contains it
	Test string   `json:"test,omitempty"` // name of the test
	Text string   `json:"text"`
	Diff []string `json:"diff,omitempty"` // "-" marks expected lines, "+" actual lines
}

// String returns a line with the position and the text, followed by the diff.
func (f Failure) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	b.WriteString(": ")
	if f.Test != "" {
		b.WriteString(f.Test + ": ")
	}
	b.WriteString(f.Text)
	for _, line := range f.Diff {
		b.WriteString("\n  " + line)
	}
	return b.String()
}
