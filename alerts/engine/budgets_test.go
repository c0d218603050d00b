package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// costly returns a tally of a minute with calls of services that cost these microdollars, and one call without a price.
func costly(microdollars uint64, services ...string) *analyzer.Tally {
	y := &analyzer.Tally{Second: time.Now().Unix() - 1}
	for _, service := range services {
		m := new(analyzer.Measured)
		m.Cost.Add(microdollars)
		m.Unpriced = 1
		y.Counts = append(y.Counts, analyzer.Count{Metric: analyzer.MetricCalls, Labels: with(planner("1"), "service", service), N: 2, Measured: m})
	}
	return y
}

func budgetConfig(list ...Budget) Config {
	cfg := Default()
	cfg.EvaluationInterval, cfg.RuleFiles, cfg.Budgets = 30*time.Second, []string{"../rules/cost_budget.yaml"}, list
	return cfg
}

// spent returns the gauges of the budget as text.
func spent(e *Engine, budget string) string {
	text := ""
	for _, name := range []string{rules.MetricBudgetSpent, rules.MetricBudgetForecast, rules.MetricBudgetUnpriced, rules.MetricBudgetSince} {
		for _, c := range e.samples.series {
			if c.metric == name && c.labels["budget"] == budget {
				text += fmt.Sprintf("%s %.10g; ", name[len("llmtap_budget_"):], math.Round(100*c.value)/100)
			}
		}
	}
	return text
}

// A budget counts the calls that it is for, and a forecast above it is a warning.
func TestBudget(t *testing.T) {
	slowtest.SkipShort(t, "slow, and without concurrency for the race detector")
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, budgetConfig(
			Budget{Service: "shop", PerMonth: 100}, Budget{Service: "*", Environment: "prod", PerMonth: 1000}, Budget{Service: "shop", Environment: "test", PerMonth: 1},
		), Options{})
		play := func(hours int, each uint64) {
			for range 6 * hours {
				time.Sleep(10 * time.Minute)
				must.Do(t, e.Add(t.Context(), costly(each, "shop", "desk")))
			}
		}
		play(24, 100_000) // 1 January 2000
		must.Equal(t, spent(e, "shop"), "spent_dollars 14.4; unpriced_calls 144; since_seconds 946685370; ", "after a day")
		play(2, 100_000)
		must.Equal(t, spent(e, "shop"), "spent_dollars 15.6; forecast_dollars 446.4; unpriced_calls 156; since_seconds 946685370; ", "a cent a minute, and 31 days")
		must.Equal(t, spent(e, "all services in prod"), "spent_dollars 31.2; forecast_dollars 892.8; unpriced_calls 312; since_seconds 946685370; ", "two services")
		must.Equal(t, spent(e, "shop in test"), "spent_dollars 0; forecast_dollars 0; unpriced_calls 0; since_seconds 946685370; ", "no calls")
		list := e.Active()
		must.Equal(t, len(list), 1, "alerts")
		must.Equal(t, list[0].Annotations["summary"], "shop will cost about $446.40 this month, more than the budget of $100.00", "summary")
		must.Agree(t, cmp.Diff(map[string]string{"severity": "warning", "budget": "shop", "service": "shop"}, list[0].Labels), "labels")
		play(1, 25_000_000)
		var got []string
		for _, a := range e.Active() {
			got = append(got, a.Labels["budget"]+" "+a.Severity())
		}
		must.Agree(t, cmp.Diff([]string{"all services in prod warning", "shop critical"}, got), "alerts")
	})
}

// The forecast expects of each hour what it cost a week before. A month begins with nothing spent.
func TestForecast(t *testing.T) {
	s := newBudgets(budgetConfig(Budget{Service: "*", PerMonth: 1})).list[0]
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	hours := func(from, to int64, microdollars func(hourOfDay int64) uint64) {
		for h := from; h < to; h++ {
			s.moveTo(begin + 3600*h)
			s.Spent, s.Open = s.Spent+microdollars(h%24), s.Open+microdollars(h%24)
		}
	}
	f := func(step int64, want float64, comment string) {
		t.Helper()
		for _, g := range s.gauges(begin + step) {
			if g.Metric == rules.MetricBudgetForecast {
				must.Equal(t, math.Round(100*g.Value)/100, want, "%s", comment)
				return
			}
		}
		t.Error("there is no forecast")
	}
	rush := func(hourOfDay int64) uint64 { // $36 a day
		if hourOfDay < 4 {
			return 6_000_000
		}
		return 600_000
	}
	hours(0, 5*24, func(int64) uint64 { return 1_000_000 })
	f(5*24*3600, 31*24, "a dollar an hour")
	hours(5*24, 31*24, rush)
	f(31*24*3600, 120+26*36, "the whole month")
	hours(31*24, 31*24+1, func(int64) uint64 { return 600_000 })
	f(31*24*3600+1800, 0.6+28*36+30+3, "half an hour of February, which has 29 days")
	hours(31*24+1, 31*24+2, rush)
	f((31*24+2)*3600, 6.6+28*36-4*5.4+24, "two hours of February; the first was cheap, so four later ones will be")
	s.moveTo(begin + 40*24*3600)
	f(40*24*3600+3600, 0.6+6, "without calls since a week")
}

// The spend of the month is the same after a restart and a takeover, whose tallies are replayed, and in a standby.
func TestBudgetSurvives(t *testing.T) {
	slowtest.SkipShort(t, "slow, and without concurrency for the race detector")
	synctest.Test(t, func(t *testing.T) {
		budget := Budget{Service: "shop", PerMonth: 15}
		store := &alertstest.Store{}
		e := newEngine(t, budgetConfig(budget), Options{Store: store, Standby: true})
		stop := must.Run(t, e.Run)
		var stream []*analyzer.Tally
		play := func(minutes int, engines ...*Engine) {
			for range minutes {
				time.Sleep(time.Minute)
				y := costly(10_000, "shop")
				stream = append(stream, y)
				for _, e := range engines {
					must.Do(t, e.Add(t.Context(), y))
				}
			}
			synctest.Wait()
		}
		replay := func(e *Engine) {
			for _, y := range stream[len(stream)-120:] { // tallies are kept for two hours
				must.Do(t, e.Add(t.Context(), y))
			}
		}
		play(25*60+7, e)
		standby := newEngine(t, budgetConfig(budget), Options{Store: store, Standby: true})
		replay(standby)
		play(20, e, standby)
		want := "spent_dollars 15.27; forecast_dollars 446.4; unpriced_calls 1527; since_seconds 946684830; "
		must.Equal(t, spent(e, "shop"), want, "before the restart")
		must.Equal(t, spent(standby, "shop"), want, "of the standby")
		fired := e.Active()
		must.Equal(t, len(fired), 1, "alerts before the restart")
		crashed := &alertstest.Store{}
		store.CopyTo(crashed)
		stop()

		must.Run(t, standby.Run)
		synctest.Wait()
		for name, s := range map[string]*alertstest.Store{"after a stop": store, "after a crash": crashed} {
			restarted := newEngine(t, budgetConfig(budget), Options{Store: s})
			must.Equal(t, restarted.state.budgets.counted > 0, true, "%s, the spend was stored", name)
			replay(restarted)
			must.Run(t, restarted.Run)
			synctest.Wait()
			must.Equal(t, spent(restarted, "shop"), want, "%s", name)
			if got := restarted.Active(); len(got) != 1 || got[0].ID() != fired[0].ID() {
				t.Errorf("%s: %d alerts, want the one before it", name, len(got))
			}
		}
		play(3, standby)
		must.Equal(t, spent(standby, "shop"), "spent_dollars 15.3; forecast_dollars 446.4; unpriced_calls 1530; since_seconds 946684830; ", "after the takeover")

		other := newEngine(t, budgetConfig(Budget{Service: "desk", PerMonth: 1}, Budget{Service: "shop", PerMonth: 1000}), Options{Store: crashed})
		replay(other)
		must.Equal(t, spent(other, "shop"), "spent_dollars 15.3; forecast_dollars 446.4; unpriced_calls 1530; since_seconds 946684830; ", "with another budget before it")
		must.Equal(t, len(other.Active()), 0, "alerts with a larger budget")
	})
}

// A new budget knows what the store of calls knows of the month, and of the week before.
func TestBudgetSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(10*24*time.Hour + 90*time.Minute)
		began := time.Now()
		month := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		earliest, asked := month.Add(-24*time.Hour), 0
		o := Options{Store: &alertstest.Store{}, Spent: func(_ context.Context, from, to time.Time) (list []Spent, err error) {
			if asked++; asked == 1 {
				return nil, errors.New("connection refused")
			}
			must.Equal(t, from, month, "from")
			must.Equal(t, to, began.Add(30*time.Second).UTC(), "to")
			for h := earliest; h.Before(to); h = h.Add(time.Hour) {
				if !h.Before(from) {
					list = append(list, Spent{h, "shop", "prod", 1_000_000, 2}, Spent{h, "shop", "test", 7_000_000, 0})
				}
			}
			return list, nil
		}}
		play := func(e *Engine, minutes int) {
			for range minutes {
				time.Sleep(time.Minute)
				must.Do(t, e.Add(t.Context(), costly(10_000, "shop")))
			}
			synctest.Wait()
		}
		budget := budgetConfig(Budget{Service: "shop", Environment: "prod", PerMonth: 1000})
		e := newEngine(t, budget, o)
		stop := must.Run(t, e.Run)
		play(e, 1)
		must.Equal(t, spent(e, "shop in prod"), "spent_dollars 0.01; unpriced_calls 1; since_seconds 947554230; ", "before the store answers")
		play(e, 4)
		want := "spent_dollars 242.05; forecast_dollars 744.47; unpriced_calls 489; "
		must.Equal(t, spent(e, "shop in prod"), want, "a dollar an hour for 242 hours, and 5 cents")
		stop()
		again := newEngine(t, budget, o)
		must.Run(t, again.Run)
		must.Do(t, again.Add(t.Context(), &analyzer.Tally{Second: time.Now().Unix() + 30}))
		synctest.Wait()
		must.Equal(t, asked, 2, "questions to the store")
		must.Equal(t, again.state.budgets.list[0].Spent, 242_050_000, "after a restart")

		earliest, o.Store = began.Add(-30*time.Hour), &alertstest.Store{}
		began = time.Now()
		young := newEngine(t, budget, o)
		must.Run(t, young.Run)
		play(young, 4)
		must.Equal(t, spent(young, "shop in prod"), "spent_dollars 31.04; forecast_dollars 533.39; unpriced_calls 66; since_seconds 947448000; ", "calls are stored since the day before")
	})
}

// The money of calls is a counter with their labels.
func TestCostCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, budgetConfig(), Options{})
		for range 3 {
			time.Sleep(time.Minute)
			must.Do(t, e.Add(t.Context(), costly(250_000, "shop")))
		}
		for metric, want := range map[string]float64{rules.MetricCost: 0.75, rules.MetricUnpriced: 3} {
			v := must.Get(e.samples.Query(t.Context(), "increase("+metric+"[5m])", time.Now()))(t)
			must.Equal(t, v[0].F > want*0.9, true, "%s increases by %g", metric, v[0].F)
			c := e.samples.find(metric, with(planner("1"), "service", "shop"))
			must.Equal(t, c.value, want, "%s", metric)
		}
	})
}

func TestValidateBudgets(t *testing.T) {
	cfg := budgetConfig(Budget{Service: "a", PerMonth: 1}, Budget{Service: "a", Environment: "prod", PerMonth: 1})
	must.Do(t, cfg.Validate())
	cfg.Budgets = append(cfg.Budgets, Budget{PerMonth: 1}, Budget{Service: "b", PerMonth: -1}, Budget{Service: "c", PerMonth: math.NaN()}, Budget{Service: "a", PerMonth: 2})
	want := "budgets[2].service: is empty; * matches any service\n" +
		"budgets[3].per_month: -1 is not a number of dollars above 0\n" +
		"budgets[4].per_month: NaN is not a number of dollars above 0\n" +
		"budgets[5]: is for the same calls as budgets[0]"
	must.Equal(t, fmt.Sprint(cfg.Validate()), want, "error")
	must.Equal(t, maps.Equal(Budget{Service: "*", Environment: "prod"}.labels(), map[string]string{"budget": "all services in prod", "environment": "prod"}), true, "labels")
}
