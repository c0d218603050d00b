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
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/analyzer"
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
	n      int // operations
	at     int // operation at which it crashes; -1: it does not
	after  bool
	dead   bool
	doubts int // posts whose outcome the crash hides: the answer is lost, or is not stored
}

func (p *mortal) do(outcome bool, effect func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errCrashed
	}
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
	if crashed := p.do(strings.HasPrefix(key, "slack."), func() { err = p.Store.Put(ctx, key, value) }); crashed != nil {
		return crashed
	}
	return err
}

func (p *mortal) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	crashed := p.do(strings.HasSuffix(r.URL.Path, "chat.postMessage"), func() { resp, err = p.f.RoundTrip(r) })
	if crashed != nil {
		return nil, crashed
	}
	return resp, err
}

// crashRun runs an incident of two stages, in two channels, with a crash at operation at: they fire, one escalates and is
// acknowledged, the other is silenced for a while, and both end. It returns the number of operations, of the posts in doubt,
// and the final messages in the channels.
func crashRun(t *testing.T, at int, after bool) (operations, doubts int, top []posted) {
	f := &fake{t: t}
	cfg := Config{
		Token: "xoxb-test", Channel: "C123", APIURL: "http://slack.test/api",
		Routes: []Route{{Match: []string{"stage=executor"}, Channel: "#checkout"}},
	}
	p := &mortal{Store: &alertstest.Store{}, f: f, at: at, after: after}
	decisions := alerts.NewDecisions()
	if err := decisions.Replace(nil); err != nil {
		t.Fatal(err)
	}
	c := alerts.Default()
	c.EvaluationInterval, c.RuleFiles = 5*time.Second, []string{"../rules/stage_failure_rate.yaml"}
	var e *alerts.Engine
	start := func() (stop func()) {
		list, err := cfg.Receivers(alerts.NotifierOptions{Store: p, Client: &http.Client{Transport: p, Timeout: 10 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		if e, err = alerts.New(t.Context(), c, alerts.Options{Notifiers: []alerts.Notifier{list[0].Notifier}, Store: p, Decisions: decisions}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- e.Run(ctx) }()
		return func() {
			cancel()
			if err := errors.Join(<-stopped, e.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	begin := time.Now().Unix() / 5 * 5
	counts := func(stage string, calls, failed uint64) (out []analyzer.Count) {
		kv := func() map[string]string {
			return map[string]string{"service": "checkout", "environment": "prod", "stage": stage, "service_version": "1"}
		}
		out = append(out, analyzer.Count{Metric: analyzer.MetricCalls, Labels: kv(), N: calls})
		if failed > 0 {
			x := kv()
			x["status"], x["cause"], x["root_cause"] = "400", "orphan_tool_reply", ""
			out = append(out, analyzer.Count{Metric: analyzer.MetricFailed, Labels: x, N: failed})
		}
		return out
	}
	tally := func(i int) *analyzer.Tally {
		out := &analyzer.Tally{Second: begin + int64(i)*5 + 4}
		switch {
		case i < 3:
			out.Counts = counts("planner", 100, 20)
		case i < 10:
			out.Counts = append(counts("planner", 100, 90), counts("executor", 50, 40)...)
		case i%10 == 0:
			out.Counts = append(counts("planner", 100, 0), counts("executor", 50, 0)...)
		}
		return out
	}
	decide := func(key string, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := decisions.Put(key, b); err != nil {
			t.Fatal(err)
		}
	}
	stop := start()
	for i := range 190 { // 16 minutes
		if err := e.Add(t.Context(), tally(i)); err != nil {
			t.Fatal(err)
		}
		switch i {
		case 14:
			for _, g := range e.Groups() {
				if strings.Contains(g.Key, "planner") {
					decide(alerts.AckStoreKey(g.Key), alerts.StoredAck{Ack: alerts.Ack{Group: g.Key, Incident: g.Since(), By: "U1", ByName: "anna", At: time.Now()}})
				}
			}
		case 20:
			ms, err := silence.ParseMatchers([]string{"stage=executor"})
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			s := silence.Silence{ID: "s1", Matchers: ms, StartsAt: now, EndsAt: now.Add(time.Minute), UpdatedAt: now, CreatedBy: "anna", Comment: "deploy"}
			decide(alerts.SilenceStoreKey(s.ID), s)
		}
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
				if err := e.Add(t.Context(), tally(j)); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
	}
	stop()
	return p.n, p.doubts, f.top()
}

// A process that crashes at any write or call, before or after its effect, loses no alert, leaves each message in its final
// state, and posts at most one extra message per post in doubt.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates hundreds of crashes")
	}
	check := func(at int, after bool) (operations int) {
		synctest.Test(t, func(t *testing.T) {
			n, doubts, top := crashRun(t, at, after)
			operations = n
			name := fmt.Sprintf("crash at %d, after its effect: %v", at, after)
			shown := map[string]int{}
			for _, m := range top {
				shown[m.Channel]++
			}
			if shown["C123"] != 1 || shown["C456"] < 1 || shown["C456"] > 1+doubts {
				t.Errorf("%s: %d and %d messages, with %d posts in doubt; want one each, and one more for a doubt where nobody may search", name, shown["C123"], shown["C456"], doubts)
			}
			last := map[string]string{}
			for _, m := range top {
				last[m.Channel] = m.Text
			}
			for channel, text := range last {
				if !strings.Contains(text, "RESOLVED") {
					t.Errorf("%s: the last message in %s says %q", name, channel, text)
				}
			}
		})
		return operations
	}
	n := check(-1, false)
	if n < 20 {
		t.Fatalf("%d operations", n)
	}
	for at := range n {
		if *allCrashes || at < 8 || at%40 == 0 {
			check(at, false)
			check(at, true)
		}
	}
}
