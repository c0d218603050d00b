package slack

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/enginetest"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// allCrashes takes minutes. The first operations include the intent, the post and its record.
var allCrashes = flag.Bool("all-crashes", false, "crash at every operation instead of a selection")

var errCrashed = errors.New("the process has crashed")

// A mortal is what an alert process does outside of itself: writes to the Store and calls of Slack. It crashes at one of them,
// before or after its effect; from then on, nothing has an effect.
type mortal struct {
	*alertstest.Store
	f *fake

	mu     sync.Mutex
	n      int    // operations
	slack  []bool // whether they are calls of Slack, or writes of its records
	at     int    // operation at which it crashes; -1: it does not
	after  bool
	dead   bool
	doubts int // posts whose outcome the crash hides: the answer is lost, or is not stored
}

func (p *mortal) do(slack, outcome bool, effect func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errCrashed
	}
	p.slack = append(p.slack, slack)
	p.dead = p.n == p.at
	p.n++
	if p.dead && outcome {
		p.doubts++
	}
	if !p.dead || p.after {
		effect()
	}
	if p.dead {
		return errCrashed
	}
	return nil
}

func (p *mortal) Put(ctx context.Context, key string, value []byte) (err error) {
	record := strings.HasPrefix(key, "slack") // also of a summary
	if crashed := p.do(record, record, func() { err = p.Store.Put(ctx, key, value) }); crashed != nil {
		return crashed
	}
	return err
}

func (p *mortal) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	crashed := p.do(true, strings.HasSuffix(r.URL.Path, "chat.postMessage"), func() { resp, err = p.f.RoundTrip(r) })
	if crashed != nil {
		return nil, crashed
	}
	return resp, err
}

// A scene is what happens in a run with a crash.
type scene struct {
	routes []Route
	counts func(i int) []analyzer.Count // in step i
	decide func(i int, e *engine.Engine, put func(key string, v any))
}

// counts returns the counts of one stage in a step.
func counts(stage string, calls, failed uint64) []analyzer.Count {
	return countsOf(map[string]string{"service": "checkout", "environment": "prod", "stage": stage, "service_version": "1"}, calls, failed)
}

// twoStages is an incident of two stages, in two channels: they fire, one escalates and is acknowledged, the other is silenced
// for a while, and both end.
var twoStages = scene{
	routes: []Route{{Match: []string{"stage=executor"}, Channel: "#checkout"}},
	counts: func(i int) []analyzer.Count {
		switch {
		case i < 3:
			return counts("planner", 100, 20)
		case i < 10:
			return append(counts("planner", 100, 90), counts("executor", 50, 40)...)
		case i%10 == 0:
			return append(counts("planner", 100, 0), counts("executor", 50, 0)...)
		}
		return nil
	},
	decide: func(i int, e *engine.Engine, put func(key string, v any)) {
		switch i {
		case 14:
			for _, g := range e.Groups() {
				if strings.Contains(g.Key, "planner") {
					put(engine.AckStoreKey(g.Key), engine.StoredAck{Ack: alerts.Ack{Group: g.Key, Incident: g.Since(), By: "U1", ByName: "anna", At: time.Now()}})
				}
			}
		case 20:
			now := time.Now()
			m, err := silence.NewMatcher("stage", "=", "executor")
			if err != nil {
				panic(err)
			}
			s := silence.Silence{ID: "s1", Matchers: silence.Matchers{m}, StartsAt: now, EndsAt: now.Add(time.Minute), UpdatedAt: now, CreatedBy: "anna", Comment: "deploy"}
			put(engine.SilenceStoreKey(s.ID), s)
		}
	},
}

// stormScene is a storm of seven stages, six at first. All end.
var stormScene = scene{
	counts: func(i int) (out []analyzer.Count) {
		for stage := range 7 {
			switch {
			case i < 10 && (i >= 3 || stage < 6):
				out = append(out, counts(fmt.Sprint("stage-", stage), 100, 90)...)
			case i%10 == 0:
				out = append(out, counts(fmt.Sprint("stage-", stage), 100, 0)...)
			}
		}
		return out
	},
	decide: func(int, *engine.Engine, func(string, any)) {},
}

// crashRun runs a scene with a crash at operation at. It returns, of each operation, whether it is about Slack, the number of posts
// in doubt, and the final messages in the channels.
func crashRun(t *testing.T, sc scene, at int, after bool) (operations []bool, doubts int, top []posted) {
	f := &fake{t: t}
	cfg := Config{Token: "xoxb-test", Channel: "C123", APIURL: "http://slack.test/api", Routes: sc.routes}
	p := &mortal{Store: &alertstest.Store{}, f: f, at: at, after: after}
	decisions := engine.NewDecisions()
	must.Do(t, decisions.Replace(nil))
	c := engine.Default()
	c.EvaluationInterval, c.RuleFiles = 5*time.Second, []string{"../rules/stage_failure_rate.yaml"}
	var e *engine.Engine
	start := func() (stop func()) {
		e = enginetest.New(t, c, engine.Options{Notifiers: []alerts.Notifier{notifierOf(t, p, cfg, p, nil)}, Store: p, Decisions: decisions})
		return must.Run(t, e.Run)
	}
	begin := time.Now().Unix() / 5 * 5
	decide := func(key string, v any) {
		b := must.Get(json.Marshal(v))(t)
		must.Do(t, decisions.Put(key, b))
	}
	stop := start()
	tally := func(i int) *analyzer.Tally {
		return &analyzer.Tally{Second: begin + int64(i)*5 + 4, Counts: sc.counts(i)}
	}
	for i := range 190 { // 16 minutes
		must.Do(t, e.Add(t.Context(), tally(i)))
		sc.decide(i, e, decide)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		p.mu.Lock()
		dead := p.dead
		p.mu.Unlock()
		if dead {
			stop()
			p.mu.Lock()
			p.dead, p.at = false, -1
			p.mu.Unlock()
			stop = start()
			for j := range i + 1 {
				must.Do(t, e.Add(t.Context(), tally(j)))
			}
			synctest.Wait()
		}
	}
	stop()
	return p.slack, p.doubts, f.top()
}

// A process that crashes at any write or call, before or after its effect, loses no alert, leaves each message in its final
// state, and posts at most one extra message per post in doubt.
func TestCrash(t *testing.T) {
	slowtest.Skip(t)
	first := func(at, _ int) bool { return at < 8 || at%40 == 0 }
	crashes(t, twoStages, first, func(operation string, doubts int, top []posted) {
		shown := map[string]int{}
		for _, m := range top {
			shown[m.Channel]++
		}
		if shown["C123"] != 1 || shown["C456"] < 1 || shown["C456"] > 1+doubts {
			t.Errorf("%s: %d and %d messages, with %d posts in doubt; want one each, and one more for a doubt where nobody may search", operation, shown["C123"], shown["C456"], doubts)
		}
		last := map[string]string{}
		for _, m := range top {
			last[m.Channel] = m.Text
		}
		for channel, text := range last {
			must.Contain(t, text, "RESOLVED", operation, "the last message in", channel, "says")
		}
	})
}

// So does a process that crashes in a storm: there is one summary of all groups.
func TestCrashInAStorm(t *testing.T) {
	slowtest.Skip(t)
	first := func(at, ours int) bool { return at%150 == 0 || ours > 0 && ours < 6 }
	crashes(t, stormScene, first, func(operation string, _ int, top []posted) {
		if len(top) != 1 || !strings.Contains(top[0].Text, "RESOLVED: all 7 alerts") {
			t.Errorf("%s: messages %+v", operation, top)
		}
	})
}

// crashes runs sc without a crash, and with one at each operation for which selected returns true. ours is the number of the operation
// among those about Slack; 0 if it is none.
func crashes(t *testing.T, sc scene, selected func(at, ours int) bool, check func(operation string, doubts int, top []posted)) {
	slowtest.SkipShort(t, "simulates hundreds of crashes")
	run := func(at int, after bool) (operations []bool) {
		synctest.Test(t, func(t *testing.T) {
			slack, doubts, top := crashRun(t, sc, at, after)
			operations = slack
			check(fmt.Sprintf("crash at %d, after its effect: %v", at, after), doubts, top)
		})
		return operations
	}
	operations := run(-1, false)
	if len(operations) < 20 {
		t.Fatalf("%d operations", len(operations))
	}
	n := 0
	for at, slack := range operations {
		ours := 0
		if slack {
			n++
			ours = n
		}
		if *allCrashes || selected(at, ours) {
			run(at, false)
			run(at, true)
		}
	}
	t.Logf("%d operations, %d of them about Slack", len(operations), n)
}
