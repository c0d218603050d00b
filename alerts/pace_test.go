package alerts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
)

// paced is a notifier with a pace.
type paced struct {
	notifier
	pace Pace
}

func (p *paced) Pace() Pace { return p.pace }

// A gauged is a health engine with one rule, which holds while the gauge is 0.
type gauged struct {
	t *testing.T
	*Engine
	up   float64
	stop func()
}

func newGauged(t *testing.T, store Store, n Notifier) *gauged {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	rules := "groups: [{name: a, rules: [{alert: Down, expr: llmtap_store_up == 0, labels: {severity: warning}}, {alert: Watchdog, expr: vector(1), labels: {severity: none}}]}]"
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Default()
	cfg.TSDBDir, cfg.RuleFiles = t.TempDir(), []string{file}
	e, err := New(t.Context(), cfg, Options{Notifiers: []Notifier{n}, Store: store, Health: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = e.Run(ctx) }()
	return &gauged{t: t, Engine: e, up: 1, stop: func() {
		cancel()
		<-done
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}}
}

// pass lets d pass, evaluated every 5 seconds.
func (g *gauged) pass(d time.Duration) {
	g.t.Helper()
	for range int(d / (5 * time.Second)) {
		if err := g.Observe(g.t.Context(), time.Now(), []Gauge{{Metric: rules.MetricStoreUp, Value: g.up}}); err != nil {
			g.t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
	}
	synctest.Wait()
}

// down are the groups of the rule Down that p was told.
func (p *paced) down() (out []Group) {
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
		p := &paced{pace: Pace{Every: time.Minute}}
		store := &memory{}
		e := newGauged(t, store, p)
		e.pass(time.Minute)
		if n := len(p.down()); n != 0 {
			t.Fatalf("told %d times before anything fires", n)
		}
		e.up = 0
		e.pass(5 * time.Hour) // longer than the repeat interval
		d := p.down()
		if n := len(d); n < 299 || n > 301 {
			t.Errorf("told %d times in 300 minutes", n)
		}
		for _, g := range d {
			if !g.Firing() || g.Repeat {
				t.Errorf("told %+v", g)
			}
		}
		e.stop()

		// The process is away for 2 minutes: the next one goes on, and tells that it is over.
		time.Sleep(2 * time.Minute)
		p = &paced{pace: Pace{Every: time.Minute}}
		e = newGauged(t, store, p)
		e.pass(time.Second * 10)
		if d := p.down(); len(d) != 1 || !d[0].Firing() {
			t.Fatalf("told %d times after the restart, want once", len(d))
		}
		e.up = 1
		e.pass(2 * time.Hour)
		d = p.down()
		last := 0
		for _, g := range d {
			if !g.Firing() {
				last++
			}
		}
		if last != 1 || d[len(d)-1].Firing() {
			t.Errorf("the end was told %d times of %d, want once and last", last, len(d))
		}
		e.stop()
	})
}

// A final error costs a paced notifier one turn; the end of an alert is tried once.
func TestPaceAfterRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paced{pace: Pace{Every: time.Minute}}
		var refuse atomic.Bool
		refuse.Store(true)
		p.err = func(int) error {
			if refuse.Load() {
				return errors.New("404")
			}
			return nil
		}
		e := newGauged(t, &memory{}, p)
		e.up = 0
		e.pass(10 * time.Minute)
		if n := len(p.down()); n < 9 || n > 11 {
			t.Errorf("tried %d times in 10 minutes", n)
		}
		refuse.Store(false)
		e.pass(2 * time.Minute)
		if n := len(p.down()); n < 11 || n > 14 {
			t.Errorf("told %d times", n)
		}
		refuse.Store(true)
		e.up = 1
		before := len(p.down())
		e.pass(30 * time.Minute)
		ends := 0
		for _, g := range p.down()[before:] {
			if !g.Firing() {
				ends++
			}
		}
		if ends != 1 {
			t.Errorf("the end was tried %d times", ends)
		}
		e.stop()
	})
}

// Numbers that change are no news.
func TestPaceNewsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		cfg := Default()
		cfg.RuleFiles, cfg.TSDBDir = []string{"rules/stage_failure_rate.yaml"}, t.TempDir()
		quiet, all := &paced{pace: Pace{NewsOnly: true}}, &paced{}
		e, err := New(t.Context(), cfg, Options{Notifiers: []Notifier{quiet, all}, Store: store})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = e.Run(ctx) }()
		feed := func(n int, counts ...analyzer.Count) {
			for range n {
				if err := e.Add(ctx, &analyzer.Tally{Second: time.Now().Unix(), Counts: counts}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			synctest.Wait()
		}
		feed(300, calls("1", 4), failures("1", "x", "", 2))
		if n := len(quiet.groups); n != 1 {
			t.Errorf("told %d times of one cause", n)
		}
		if n := len(all.groups); n < 10 {
			t.Errorf("the other was told %d times only", n)
		}
		feed(300, calls("1", 4), failures("1", "y", "", 2))
		if n := len(quiet.groups); n != 2 {
			t.Errorf("told %d times of two causes", n)
		}
		feed(4*3600+300, calls("1", 4), failures("1", "y", "", 2))
		if n := len(quiet.groups); n != 3 || !quiet.last().Repeat {
			t.Errorf("told %d times with a reminder", n)
		}
		feed(1800)
		if n := len(quiet.groups); n != 4 || quiet.last().Firing() {
			t.Errorf("told %d times with the end", n)
		}
		cancel()
		<-done
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
