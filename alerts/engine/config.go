package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/model"

	"github.com/llmtap/llmtap/alerts/endpoint"
	"github.com/llmtap/llmtap/alerts/rules"
)

// Config is the configuration of an Engine.
type Config struct {
	// RuleFiles are Prometheus rule files. If empty, the shipped rules are used.
	RuleFiles []string `yaml:"rule_files"`
	// Services lists the services that are expected to call models at all times; CollectorBlind fires for a service
	// without calls.
	Services []string `yaml:"services"`
	// EvaluationInterval is the interval of samples and evaluations, in whole seconds. The windows of rules are multiples
	// of it.
	EvaluationInterval time.Duration `yaml:"evaluation_interval"`
	// GroupBy lists the labels by which alerts are grouped, in addition to the rule's name. A label that a rule lacks has no
	// effect.
	GroupBy []string `yaml:"group_by"`
	// UpdateInterval is the minimum time between two notifications of one group. Alertmanager calls it group_interval.
	UpdateInterval time.Duration `yaml:"update_interval"`
	// RepeatInterval is the time after which a firing group without news is sent again.
	RepeatInterval time.Duration `yaml:"repeat_interval"`
	// InhibitRules hide alerts that are part of another alert. They affect notifications to people.
	InhibitRules []InhibitRule `yaml:"inhibit_rules"`
	// HeartbeatURL is requested every minute while the rule Watchdog is evaluated and fires.
	HeartbeatURL string `yaml:"heartbeat_url" secret:"all"`
	// FalseAlarms is the number of false warnings about what is unusual that are acceptable in a month for each stage of a service.
	FalseAlarms float64 `yaml:"false_alarms"`
	// Budgets are what the calls of services may cost in a month.
	Budgets []Budget `yaml:"budgets"`
	// Retention is the retention of samples, and the lifetime of a series without counts.
	Retention time.Duration `yaml:"retention"`
	// MaxSeries bounds the live series; counts of further series are dropped and counted.
	MaxSeries int `yaml:"max_series"`
	// MaxLabelValues bounds the live values of each label; further values become "other".
	MaxLabelValues int `yaml:"max_label_values"`
}

// Default returns the configuration of a new installation.
func Default() Config {
	return Config{
		EvaluationInterval: time.Second,
		GroupBy:            []string{"service", "environment", "stage", "provider"},
		UpdateInterval:     15 * time.Second,
		RepeatInterval:     4 * time.Hour,
		InhibitRules:       []InhibitRule{{SourceMatch: []string{`alertname="ProviderOutage"`}, SameFailures: true}},
		FalseAlarms:        1,
		Retention:          time.Hour,
		MaxSeries:          20_000,
		MaxLabelValues:     500,
	}
}

// Rules returns the source of the rules: the rule files of c and their limits.
func (c Config) Rules() rules.Source {
	return rules.Source{Files: c.RuleFiles, Interval: c.EvaluationInterval, MaxWindow: c.Retention}
}

// Validate returns all errors, joined.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.EvaluationInterval >= time.Second && c.EvaluationInterval%time.Second == 0, "evaluation_interval: %v is not a whole number of seconds above 0", c.EvaluationInterval)
	check(c.UpdateInterval >= 0, "update_interval: %v is negative", c.UpdateInterval)
	check(c.RepeatInterval >= time.Minute, "repeat_interval: %v is below 1m", c.RepeatInterval)
	check(c.FalseAlarms >= 0.01 && c.FalseAlarms <= 1000, "false_alarms: %v is not between 0.01 and 1000", c.FalseAlarms)
	if err := validateBudgets(c.Budgets); err != nil {
		errs = append(errs, err)
	}
	check(c.Retention >= time.Minute && c.Retention <= 24*time.Hour, "retention: %v is not between 1m and 24h", c.Retention)
	check(c.MaxSeries > 0, "max_series: %d is not positive", c.MaxSeries)
	check(c.MaxLabelValues > 0, "max_label_values: %d is not positive", c.MaxLabelValues)
	if _, err := c.inhibitRules(); err != nil {
		errs = append(errs, err)
	}
	if c.HeartbeatURL != "" {
		if err := endpoint.CheckURL(c.HeartbeatURL); err != nil {
			errs = append(errs, fmt.Errorf("heartbeat_url: %w", err))
		}
	}
	for i, l := range c.GroupBy {
		check(model.LegacyValidation.IsValidLabelName(l), "group_by[%d]: %q is not a label name", i, l)
	}
	return errors.Join(errs...)
}
