package alerts

import (
	"context"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
)

// A Gauge is the current value of one series.
type Gauge struct {
	Metric string
	Labels map[string]string
	Value  float64
}

// Observe evaluates a Health engine's rules at now over gauges, each of which is valid until the next call. It is called
// every Config.EvaluationInterval; more often changes nothing.
func (e *Engine) Observe(ctx context.Context, now time.Time, gauges []Gauge) error {
	interval := int64(e.cfg.EvaluationInterval.Seconds())
	t := tally{Tally: &analyzer.Tally{Second: now.Unix()/interval*interval - 1}, gauges: gauges}
	return e.add(ctx, t)
}

// expected returns the gauges of Config.Services.
func expected(cfg Config) []Gauge {
	var gauges []Gauge
	for _, s := range cfg.Services {
		gauges = append(gauges, Gauge{rules.MetricExpected, map[string]string{"service": s}, 1})
	}
	return gauges
}

// loadRules returns the rules about llmtap's own health, or the others.
func (c Config) loadRules(health bool) ([]*rules.Rule, error) {
	list, err := c.Rules().Load()
	return slices.DeleteFunc(list, func(r *rules.Rule) bool { return r.Health != health }), err
}
