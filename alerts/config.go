package alerts

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/model"

	"github.com/llmtap/llmtap/alerts/rules"
)

// Config says which rules are evaluated and how often their alerts are told.
type Config struct {
	// RuleFiles are Prometheus rule files; empty means the shipped ones.
	RuleFiles []string `yaml:"rule_files"`
	// Services are those that call models at all times: one that is silent is told.
	Services []string `yaml:"services"`
	// EvaluationInterval is the step of samples and evaluations, in whole seconds.
	EvaluationInterval time.Duration `yaml:"evaluation_interval"`
	// TSDBDir contains the scratch files of the time series database; empty means a temporary directory. They are
	// rebuilt from the tallies at each start.
	TSDBDir string `yaml:"tsdb_dir"`
	// GroupBy are the labels that, with the rule's name, make one message of several alerts.
	GroupBy []string `yaml:"group_by"`
	// UpdateInterval is the shortest time between two states of one message.
	UpdateInterval time.Duration `yaml:"update_interval"`
	// RepeatInterval is when a firing group without news is told again.
	RepeatInterval time.Duration `yaml:"repeat_interval"`
	// HeartbeatURL is fetched each minute while the alert rule Watchdog is evaluated and fires.
	HeartbeatURL string `yaml:"heartbeat_url" secret:"all"`
	// Retention is how long samples are kept, and how long a series without counts lives.
	Retention time.Duration `yaml:"retention"`
	// MaxSeries bounds the live series; counts of further ones are dropped and counted.
	MaxSeries int `yaml:"max_series"`
	// MaxLabelValues bounds the live values of each label; further ones become "other".
	MaxLabelValues int `yaml:"max_label_values"`
}

// Default returns the configuration of a new installation.
func Default() Config {
	return Config{
		EvaluationInterval: 5 * time.Second,
		GroupBy:            []string{"service", "environment", "stage"},
		UpdateInterval:     15 * time.Second,
		RepeatInterval:     4 * time.Hour,
		Retention:          time.Hour,
		MaxSeries:          20_000,
		MaxLabelValues:     500,
	}
}

// Rules returns the rule files of c and their limits.
func (c Config) Rules() rules.Source {
	return rules.Source{Files: c.RuleFiles, Interval: c.EvaluationInterval, MaxWindow: c.Retention}
}

// Validate reports every mistake in c.
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
	check(c.Retention >= time.Minute && c.Retention <= 24*time.Hour, "retention: %v is not between 1m and 24h", c.Retention)
	check(c.MaxSeries > 0, "max_series: %d is not positive", c.MaxSeries)
	check(c.MaxLabelValues > 0, "max_label_values: %d is not positive", c.MaxLabelValues)
	if c.HeartbeatURL != "" {
		if err := CheckURL(c.HeartbeatURL); err != nil {
			errs = append(errs, fmt.Errorf("heartbeat_url: %w", err))
		}
	}
	for i, l := range c.GroupBy {
		check(model.LegacyValidation.IsValidLabelName(l), "group_by[%d]: %q is not a label name", i, l)
	}
	return errors.Join(errs...)
}
