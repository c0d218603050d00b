package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/price"
)

const (
	budgetsKey = "budgets"
	// storeBudgetsEvery is the time after which the spend is stored again, in seconds. The tallies since then are replayed.
	storeBudgetsEvery = 10 * 60
	// week is the number of hours whose spend is remembered, and forecastAfter that without which there is no forecast.
	week, forecastAfter = 7 * 24, 24
	// maxBudgets bounds the stored value, which has about 2 KB for a budget.
	maxBudgets = 200
)

// A Budget is what the calls of services may cost in a calendar month, in UTC.
type Budget struct {
	Service     string  `yaml:"service"`     // its name; * matches any text
	Environment string  `yaml:"environment"` // the same; empty: any
	PerMonth    float64 `yaml:"per_month"`   // in dollars
}

// String returns what the budget is for: checkout-agent, checkout-agent in prod, all services.
func (b Budget) String() string {
	s := b.Service
	if s == "*" {
		s = "all services"
	}
	if b.Environment != "" {
		s += " in " + b.Environment
	}
	return s
}

func (b Budget) covers(service, environment string) bool {
	return price.Matches(b.Service, service) && (b.Environment == "" || price.Matches(b.Environment, environment))
}

func validateBudgets(list []Budget) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for i, b := range list {
		if b.Service == "" {
			fail("budgets[%d].service: is empty; * matches any service", i)
		}
		if !(b.PerMonth > 0) || math.IsInf(b.PerMonth, 0) { // also rejects NaN
			fail("budgets[%d].per_month: %v is not a number of dollars above 0", i, b.PerMonth)
		}
		same := func(o Budget) bool { return o.Service == b.Service && o.Environment == b.Environment }
		if first := slices.IndexFunc(list, same); first < i {
			fail("budgets[%d]: is for the same calls as budgets[%d]", i, first)
		}
	}
	if len(list) > maxBudgets {
		fail("budgets: there are %d; at most %d are possible", len(list), maxBudgets)
	}
	return errors.Join(errs...)
}

// labels returns the labels of the gauges of b. It has those of a service and an environment if it is for one.
func (b Budget) labels() map[string]string {
	kv := map[string]string{"budget": b.String()}
	for name, v := range map[string]string{"service": b.Service, "environment": b.Environment} {
		if v != "" && !strings.Contains(v, "*") {
			kv[name] = v
		}
	}
	return kv
}

// spend is the money spent of a budget, in microdollars. It is stored.
type spend struct {
	Service     string       `json:"service"`
	Environment string       `json:"environment,omitempty"`
	New         int64        `json:"new"`      // first second that was counted
	Seeded      bool         `json:"seeded"`   // what the store of calls knew of the time before is added
	Month       int64        `json:"month"`    // its first second
	Since       int64        `json:"since"`    // second of the month since which all is known
	Spent       uint64       `json:"spent"`    // in the month
	Unpriced    uint64       `json:"unpriced"` // calls in the month without a known price
	First       int64        `json:"first"`    // first hour of which all is known, in hours since 1970
	Hour        int64        `json:"hour"`     // the open hour
	Open        uint64       `json:"open"`     // in the open hour
	Hours       [week]uint64 `json:"hours"`    // in each of the last hours; hour h is at h modulo week

	budget Budget
	labels map[string]string
	rest   float64 // forecast of the hours of the month after the open one
}

// monthOf returns the first second of the month of second, and that of the month after it.
func monthOf(second int64) (first, next int64) {
	t := time.Unix(second, 0).UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC).Unix()
}

// moveTo prepares for the calls of a second.
func (s *spend) moveTo(second int64) {
	month, _ := monthOf(second)
	switch {
	case s.Month == 0:
		s.New, s.Month, s.Since, s.First, s.Hour = second, month, second, second/3600+1, second/3600
	case month > s.Month:
		s.Month, s.Since, s.Spent, s.Unpriced = month, month, 0, 0
	}
	if hour := second / 3600; hour > s.Hour {
		s.Hours[s.Hour%week], s.Open = s.Open, 0
		for h := max(s.Hour+1, hour-week); h < hour; h++ {
			s.Hours[h%week] = 0
		}
		s.Hour = hour
		s.estimate()
	}
}

// expected returns what an hour of the future will cost: as much as that hour a week before it or, if that is not known, as much as the
// known ones on average. ok is false if too few hours are known.
func (s *spend) expected() (of func(hour int64) float64, ok bool) {
	from := max(s.First, s.Hour-week)
	if s.Hour-from < forecastAfter {
		return nil, false
	}
	var sum uint64
	for h := from; h < s.Hour; h++ {
		sum += s.Hours[h%week]
	}
	mean := float64(sum) / float64(s.Hour-from)
	return func(hour int64) float64 {
		last := s.Hour - week + (hour-s.Hour)%week
		if last < from {
			return mean
		}
		return float64(s.Hours[last%week])
	}, true
}

// estimate sets rest.
func (s *spend) estimate() {
	s.rest = 0
	if of, ok := s.expected(); ok {
		_, end := monthOf(s.Month)
		for h := s.Hour + 1; h < end/3600; h++ {
			s.rest += of(h)
		}
	}
}

// gauges returns the gauges at step.
func (s *spend) gauges(step int64) []Gauge {
	dollars := func(v float64) float64 { return v / 1e6 }
	out := []Gauge{
		{rules.MetricBudget, s.labels, s.budget.PerMonth},
		{rules.MetricBudgetSpent, s.labels, dollars(float64(s.Spent))},
		{rules.MetricBudgetUnpriced, s.labels, float64(s.Unpriced)},
	}
	if of, ok := s.expected(); ok {
		open := of(s.Hour) * float64(max(0, 3600*(s.Hour+1)-step)) / 3600 // what is left of it
		out = append(out, Gauge{rules.MetricBudgetForecast, s.labels, dollars(float64(s.Spent) + open + s.rest)})
	}
	if s.Since > s.Month {
		out = append(out, Gauge{rules.MetricBudgetSince, s.labels, float64(s.Since)})
	}
	return out
}

// budgets count what is spent of each budget. Engine.mu guards them.
type budgets struct {
	list     []*spend
	interval int64 // between steps, in seconds
	counted  int64 // last step that is counted
	stored   int64 // last step that the Store has
	loaded   bool
}

func newBudgets(cfg Config) *budgets {
	b := &budgets{interval: int64(cfg.EvaluationInterval.Seconds())}
	for _, x := range cfg.Budgets {
		b.list = append(b.list, &spend{Service: x.Service, Environment: x.Environment, budget: x, labels: x.labels()})
	}
	return b
}

// count adds what the calls of n, counted in a step, cost. Counts of steps that the Store had are in its value.
func (b *budgets) count(step int64, n *analyzer.Count) {
	m := n.Measured
	if b == nil || m == nil || step <= b.counted {
		return
	}
	for _, s := range b.list {
		if s.budget.covers(n.Labels["service"], n.Labels["environment"]) {
			b.moveTo(s, step)
			s.Spent, s.Open, s.Unpriced = s.Spent+m.Cost.Sum, s.Open+m.Cost.Sum, s.Unpriced+m.Unpriced
		}
	}
}

// moveTo prepares s for the calls of a step.
func (b *budgets) moveTo(s *spend, step int64) {
	if s.Month == 0 {
		s.moveTo(step - b.interval)
	}
	s.moveTo(step - 1)
}

// end ends a step and returns its gauges.
func (b *budgets) end(step int64) (out []Gauge) {
	if b == nil {
		return nil
	}
	for _, s := range b.list {
		if step > b.counted {
			b.moveTo(s, step)
		}
		out = append(out, s.gauges(max(step, b.counted))...)
	}
	b.counted = max(b.counted, step)
	return out
}

// savedBudgets is the stored form.
type savedBudgets struct {
	Step   int64   `json:"step"` // last one counted
	Spends []spend `json:"spends"`
}

// due returns what must be stored; false if that is nothing. If all is set, every step that the Store lacks must be.
func (b *budgets) due(all bool) (saved savedBudgets, ok bool) {
	if lacks := b.counted - b.stored; len(b.list) == 0 || lacks <= 0 || lacks < storeBudgetsEvery && !all {
		return saved, false
	}
	saved.Step = b.counted
	for _, s := range b.list {
		saved.Spends = append(saved.Spends, *s)
	}
	return saved, true
}

// restore replaces the spend of each budget that was stored.
func (b *budgets) restore(saved *savedBudgets) {
	for _, s := range b.list {
		same := func(x spend) bool { return x.Service == s.Service && x.Environment == s.Environment }
		if i := slices.IndexFunc(saved.Spends, same); i >= 0 {
			x := saved.Spends[i]
			x.budget, x.labels = s.budget, s.labels
			*s = x
			s.estimate()
		}
	}
	b.counted, b.stored = saved.Step, saved.Step
}

// loadBudgets reads the spend from the Store, unless it is known already. The caller must not hold mu.
func (s *state) loadBudgets(ctx context.Context) error {
	s.mu.Lock()
	known := s.budgets == nil || s.budgets.loaded
	s.mu.Unlock()
	if known {
		return nil
	}
	var saved savedBudgets
	if _, err := s.get(ctx, budgetsKey, &saved); err != nil {
		return err
	}
	if ahead := time.Until(time.Unix(saved.Step, 0)); ahead >= time.Minute {
		s.log.Warn("stored spend of budgets is from the future and is ignored", "ahead", ahead)
		saved = savedBudgets{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budgets.loaded = true
	s.budgets.restore(&saved)
	return nil
}

// saveBudgets stores the spend if it is due, or lacks a step, and reports whether it did.
func (s *state) saveBudgets(ctx context.Context, all bool) bool {
	if s.store == nil || s.budgets == nil {
		return true
	}
	s.mu.Lock()
	saved, ok := s.budgets.due(all)
	s.mu.Unlock()
	if !ok {
		return true
	}
	if !s.put(ctx, budgetsKey, saved) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budgets.stored = saved.Step
	return true
}
