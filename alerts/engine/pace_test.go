package engine

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// paced is a notifier with a pace.
type paced struct {
	notifier
	pace alerts.Pace
}

func (p *paced) Pace() alerts.Pace { return p.pace }

// A gauged is a health engine with one rule, which is true while the gauge is 0.
type gauged struct {
	t *testing.T
	*Engine
	up   float64
	stop func()
}

func newGauged(t *testing.T, store alerts.Store, n alerts.Notifier) *gauged {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	rules := "groups: [{name: a, rules: [{alert: Down, expr: llmtap_store_up == 0, labels: {severity: warning}}, {alert: Watchdog, expr: vector(1), labels: {severity: none}}]}]"
	must.Do(t, os.WriteFile(file, []byte(rules), 0o600))
	cfg := Default()
	cfg.EvaluationInterval, cfg.RepeatInterval, cfg.RuleFiles = benchInterval, time.Hour, []string{file}
	e := newEngine(t, cfg, Options{Notifiers: []alerts.Notifier{n}, Store: store, Health: true})
	return &gauged{t: t, Engine: e, up: 1, stop: must.Run(t, e.Run)}
}

// pass waits for d with an evaluation every 5 seconds.
func (g *gauged) pass(d time.Duration) {
	g.t.Helper()
	for range int(d / (5 * time.Second)) {
		must.Do(g.t, g.Observe(g.t.Context(), time.Now(), []Gauge{{Metric: rules.MetricStoreUp, Value: g.up}}))
		time.Sleep(5 * time.Second)
	}
	synctest.Wait()
}

// down returns the groups of the rule Down that p was sent.
func (p *paced) down() (out []alerts.Group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.groups {
		if g.Alerts[0].Name == "Down" {
			out = append(out, g)
		}
	}
	return out
}

func TestPaceEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paced{pace: alerts.Pace{Every: time.Minute}}
		store := &alertstest.Store{}
		e := newGauged(t, store, p)
		e.pass(time.Minute)
		if n := len(p.down()); n != 0 {
			t.Fatalf("%d notifications before an alert fires", n)
		}
		e.up = 0
		e.pass(80 * time.Minute) // longer than the repeat interval
		d := p.down()
		if n := len(d); n < 79 || n > 81 {
			t.Errorf("%d notifications in 80 minutes", n)
		}
		for _, g := range d {
			if !g.Firing() || g.Repeat {
				t.Errorf("received %+v", g)
			}
		}
		e.stop()

		// The process is down for 2 minutes: the next one continues, and sends the end.
		time.Sleep(2 * time.Minute)
		p = &paced{pace: alerts.Pace{Every: time.Minute}}
		e = newGauged(t, store, p)
		e.pass(time.Second * 10)
		if d := p.down(); len(d) != 1 || !d[0].Firing() {
			t.Fatalf("%d notifications after the restart, want 1", len(d))
		}
		e.up = 1
		e.pass(20 * time.Minute)
		d = p.down()
		last := 0
		for _, g := range d {
			if !g.Firing() {
				last++
			}
		}
		if last != 1 || d[len(d)-1].Firing() {
			t.Errorf("the end was sent %d times in %d notifications, want once, last", last, len(d))
		}
		e.stop()
	})
}

// After a final error a paced notifier skips one interval; the end of an alert is attempted once.
func TestPaceAfterFinalError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paced{pace: alerts.Pace{Every: time.Minute}}
		var reject atomic.Bool
		reject.Store(true)
		p.err = func(int) error {
			if reject.Load() {
				return errors.New("404")
			}
			return nil
		}
		e := newGauged(t, &alertstest.Store{}, p)
		e.up = 0
		e.pass(10 * time.Minute)
		if n := len(p.down()); n < 9 || n > 11 {
			t.Errorf("%d attempts in 10 minutes", n)
		}
		reject.Store(false)
		e.pass(2 * time.Minute)
		if n := len(p.down()); n < 11 || n > 14 {
			t.Errorf("%d notifications", n)
		}
		reject.Store(true)
		e.up = 1
		before := len(p.down())
		e.pass(30 * time.Minute)
		ends := 0
		for _, g := range p.down()[before:] {
			if !g.Firing() {
				ends++
			}
		}
		must.Equal(t, ends, 1, "attempts to send the end")
		e.stop()
	})
}

// Changed numbers are not news.
func TestPaceNewsOnly(t *testing.T) {
	slowtest.Skip(t)
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		cfg := Default()
		cfg.EvaluationInterval = benchInterval
		cfg.RuleFiles = []string{"../rules/stage_failure_rate.yaml"}
		quiet, all := &paced{pace: alerts.Pace{NewsOnly: true}}, &paced{}
		e := newEngine(t, cfg, Options{Notifiers: []alerts.Notifier{quiet, all}, Store: store})
		stop := must.Run(t, e.Run)
		feed := func(n int, counts ...analyzer.Count) {
			for range n {
				must.Do(t, e.Add(t.Context(), &analyzer.Tally{Second: time.Now().Unix(), Counts: counts}))
				time.Sleep(time.Second)
			}
			synctest.Wait()
		}
		feed(300, calls("1", 4), failures("1", "x", "", 2))
		must.Equal(t, len(quiet.groups), 1, "notifications of one cause")
		if n := len(all.groups); n < 10 {
			t.Errorf("only %d notifications with numbers", n)
		}
		feed(300, calls("1", 4), failures("1", "y", "", 2))
		must.Equal(t, len(quiet.groups), 2, "notifications of two causes")
		feed(4*3600+300, calls("1", 4), failures("1", "y", "", 2))
		if n := len(quiet.groups); n != 3 || !quiet.last().Repeat {
			t.Errorf("%d notifications including a reminder", n)
		}
		feed(1800)
		if n := len(quiet.groups); n != 4 || quiet.last().Firing() {
			t.Errorf("%d notifications including the end", n)
		}
		stop()
	})
}
