package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
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
)

// storm returns groups of n stages in 12 services.
func storm(n int, severity string) (out []alerts.Group) {
	for i := range n {
		a := incident()
		service, stage := fmt.Sprintf("service-%02d", i%12), fmt.Sprintf("%s-%04d", severity, i)
		a.Labels = map[string]string{"service": service, "environment": "prod", "stage": stage, "severity": severity}
		a.Annotations = map[string]string{"summary": service + "/" + stage + ": calls are failing"}
		a.Evidence.Failed, a.Evidence.Calls = uint64(20+i), 1000
		out = append(out, alerts.Group{Key: fmt.Sprintf(`StageFailureRate{service=%q,environment="prod",stage=%q}`, service, stage), Alerts: []alerts.Alert{a}})
	}
	return out
}

// after returns groups in a later state.
func after(groups []alerts.Group, d time.Duration, change func(a *alerts.Alert)) (out []alerts.Group) {
	for _, g := range groups {
		g.Alerts = slices.Clone(g.Alerts)
		for i := range g.Alerts {
			a := &g.Alerts[i]
			a.UpdatedAt, a.Labels = t0.Add(d), maps.Clone(a.Labels)
			change(a)
		}
		out = append(out, g)
	}
	return out
}

func resolve(a *alerts.Alert) { a.State, a.EndsAt = alerts.Resolved, a.UpdatedAt }

// deliver passes groups to Fold and Notify as the dispatcher does, without waiting. It returns the groups that failed.
func deliver(t *testing.T, n *Notifier, groups []alerts.Group) (failed []alerts.Group, err error) {
	t.Helper()
	slices.SortStableFunc(groups, func(a, b alerts.Group) int {
		x, y := a.Worst(), b.Worst()
		return y.Rank() - x.Rank()
	})
	for range 10 {
		var later []alerts.Group
		for i, result := range n.Fold(t.Context(), groups) {
			switch {
			case errors.Is(result, alerts.ErrFoldLater):
				later = append(later, groups[i])
				continue
			case errors.Is(result, alerts.ErrNotFolded):
				result = n.Notify(t.Context(), groups[i])
			}
			if result != nil {
				failed, err = append(failed, groups[i]), result
			}
		}
		if groups = later; len(later) == 0 {
			return failed, err
		}
	}
	t.Fatal("groups are postponed again and again")
	return nil, nil
}

func mustDeliver(t *testing.T, n *Notifier, groups []alerts.Group) {
	t.Helper()
	failed, err := deliver(t, n, groups)
	must.Do(t, err, len(failed), "groups failed")
}

func (f *fake) text(t *testing.T, i int) string {
	t.Helper()
	return plainBlocks(t, []byte(f.top()[i].Blocks))
}

func TestSummaryLifecycle(t *testing.T) {
	f, cfg := newSlack(t)
	cfg.Mentions = map[string][]string{"critical": {"U0000ANNA", "@here"}, "warning": {"U0000OTTO"}}
	store := &alertstest.Store{}
	n := newNotifier(t, cfg, store)
	critical, warnings := storm(100, "critical"), storm(400, "warning")
	mustDeliver(t, n, append(slices.Clone(warnings), critical...))
	if m := f.top(); len(m) != 1 || m[0].Edits != 0 || strings.Count(m[0].Text, "<@U0000ANNA>") != 1 || strings.Contains(m[0].Text, "OTTO") {
		t.Fatalf("%d messages, the first is %+v", len(m), m[0])
	}
	alertstest.Golden(t, "summary_posted.txt", f.text(t, 0))

	// Changes of all groups are one edit without a reply, also after a restart.
	n = newNotifier(t, cfg, store)
	mustDeliver(t, n, after(slices.Concat(critical, warnings), time.Minute, func(a *alerts.Alert) { a.Evidence.Failed++ }))
	acked := slices.Clone(critical[:7])
	for i := range acked {
		acked[i].Ack = &alerts.Ack{Group: acked[i].Key, By: "U0000ANNA", At: t0}
	}
	mustDeliver(t, n, acked)
	mustDeliver(t, n, after(critical[7:10], time.Minute, func(a *alerts.Alert) { a.Silence = &silence.Silence{ID: "x", EndsAt: t0.Add(time.Hour)} }))
	mustDeliver(t, n, after(critical[10:], 2*time.Minute, resolve))
	if text := f.text(t, 0); !strings.Contains(text, "410 of 500 alerts are firing, 10 critical") ||
		!strings.Contains(text, "7 acknowledged · 3 muted") {
		t.Errorf("message:\n%s", text)
	}
	if m := f.top(); len(m) != 1 || m[0].Edits != 4 || len(f.thread()) != 0 || strings.Contains(m[0].Text, "ANNA") {
		t.Errorf("%d messages, %d edits, %d replies, text %q; want 1, 4, 0, without a mention", len(m), m[0].Edits, len(f.thread()), m[0].Text)
	}

	// New groups join, a reminder is one reply, and so is the end.
	joined := storm(420, "warning")[400:]
	mustDeliver(t, n, joined)
	repeated := slices.Clone(warnings)
	for i := range repeated {
		repeated[i].Repeat = true
	}
	mustDeliver(t, n, repeated)
	end := after(slices.Concat(critical, warnings, joined), 3*time.Minute, resolve)
	mustDeliver(t, n, end)
	mustDeliver(t, n, end) // sent again after a crash
	if text := f.text(t, 0); !strings.Contains(text, "RESOLVED: all 520 alerts") || strings.Contains(text, "failed") {
		t.Errorf("message:\n%s", text)
	}
	var thread []string
	for _, m := range f.thread() {
		thread = append(thread, fmt.Sprint(m.Broadcast, " ", plainText(m.Text)))
	}
	want := []string{"true 🔔 Still firing after 2 min: 430 of 520 alerts", "false 🟢 Resolved after 3 min: all 520 alerts"}
	must.Equal(t, strings.Join(thread, "\n"), strings.Join(want, "\n"), "thread")

	// The next incidents are messages of their own.
	mustDeliver(t, n, after(warnings[:3], time.Hour, func(a *alerts.Alert) { a.StartsAt = a.UpdatedAt }))
	must.Equal(t, len(f.top()), 4, "messages after 3 more incidents")
}

// A few critical groups among many warnings have messages of their own, before the summary. Of many critical groups, none has.
func TestSummaryAndSingles(t *testing.T) {
	f, cfg := newSlack(t)
	cfg.Mentions = map[string][]string{"critical": {"U0000ANNA"}}
	n := newNotifier(t, cfg, nil)
	mustDeliver(t, n, storm(5, "warning"))
	if m := f.top(); len(m) != 5 {
		t.Fatalf("%d messages for 5 groups", len(m))
	}
	warnings := storm(30, "warning")[5:]
	mustDeliver(t, n, append(slices.Clone(warnings), storm(2, "critical")...))
	if m := f.top(); len(m) != 8 || !strings.Contains(m[5].Text, "CRITICAL") || !strings.Contains(m[6].Text, "CRITICAL") || !strings.Contains(m[7].Text, "25 alerts are firing") {
		t.Fatalf("messages %+v", m[5:])
	}
	critical := func(a *alerts.Alert) { a.Labels["severity"] = "critical" }

	// One becomes critical.
	mustDeliver(t, n, after(warnings[:1], time.Minute, critical))
	mustDeliver(t, n, after(warnings[1:2], time.Minute, func(a *alerts.Alert) { a.Evidence.Failed++ }))
	if m := f.top(); len(m) != 9 || !strings.HasPrefix(m[8].Text, "<@U0000ANNA> :red_circle: CRITICAL") || !strings.Contains(m[8].Text, "warning-0005") {
		t.Fatalf("messages after an escalation: %+v", m[8:])
	}
	if text := f.text(t, 7); !strings.Contains(text, "24 alerts are firing") || !strings.Contains(text, "1 in messages of their own") {
		t.Errorf("summary:\n%s", text)
	}
	mustDeliver(t, n, after(warnings[:1], 2*time.Minute, func(a *alerts.Alert) { critical(a); resolve(a) }))
	must.Contain(t, f.top()[8].Text, "RESOLVED", "the last message")

	// All others become critical: one mention in the thread.
	mustDeliver(t, n, after(warnings[1:], 2*time.Minute, critical))
	mustDeliver(t, n, after(warnings[1:], 3*time.Minute, critical))
	if replies := f.which(f.top()[7].TS); len(f.top()) != 9 || len(replies) != 1 || !strings.HasPrefix(replies[0].Text, "<@U0000ANNA> :red_circle: Now 24 critical") {
		t.Errorf("%d messages, replies %+v", len(f.top()), replies)
	}
}

// Routes decide the channel of each group. A channel that rejects the summary is replaced by the default.
func TestSummaryRoutes(t *testing.T) {
	f, cfg := newSlack(t)
	cfg.Routes = []Route{
		{Match: []string{`service="service-00"`}, Channel: "#checkout"},
		{Match: []string{`service="service-01"`}, Channel: "#gone"},
	}
	n := newNotifier(t, cfg, nil)
	f.archived = "#gone"
	groups := storm(120, "warning")
	for range 3 {
		if failed, _ := deliver(t, n, groups); len(failed) > 0 {
			groups = failed
			continue
		}
		break
	}
	if m := f.top(); len(m) != 2 {
		t.Fatalf("%d messages, want one per channel", len(m))
	}
	mustDeliver(t, n, storm(120, "warning"))
	for _, m := range f.top() {
		want := "110 alerts are firing"
		if m.Channel == "C456" {
			want = "10 alerts are firing"
		}
		must.Contain(t, m.Text, want, "channel", m.Channel)
	}
}

// Five groups are five messages, unless Slack limits posts: then the fifth would wait for five seconds.
func TestFewWhileLimited(t *testing.T) {
	for limited, want := range map[time.Duration]int{-time.Second: 1, -time.Minute: maxSingle} {
		f, cfg := newSlack(t)
		cfg.Channel = "C123"
		n := newNotifier(t, cfg, &alertstest.Store{})
		n.limited["chat.postMessage C123"] = time.Now().Add(limited)
		mustDeliver(t, n, storm(maxSingle, "critical"))
		must.Equal(t, len(f.top()), want, "limited until %s ago: messages", -limited)
	}
}

// Whatever happens to the post, and whichever process continues: one summary, and no group is lost.
func TestSummaryInDoubt(t *testing.T) {
	for name, status := range map[string]int{"lost": http.StatusBadGateway, "limited": http.StatusTooManyRequests} {
		for _, stored := range []bool{true, false} {
			f, cfg := newSlack(t)
			cfg.Channel = "C123"
			if status == http.StatusTooManyRequests {
				stored = false
			}
			f.answer = func(method string, n int) (int, http.Header, string, bool) {
				if method == "chat.postMessage" && n == 0 {
					return status, http.Header{"Retry-After": {"1"}}, "", stored
				}
				return 0, nil, "", false
			}
			store := &alertstest.Store{}
			groups := storm(50, "warning")
			failed, err := deliver(t, newNotifier(t, cfg, store), groups)
			if len(failed) != 50 || !retryable(err) {
				t.Fatalf("%s: %d groups failed: %v", name, len(failed), err)
			}
			mustDeliver(t, newNotifier(t, cfg, store), failed)
			if m := f.top(); len(m) != 1 || !strings.Contains(m[0].Text, "50 alerts are firing") {
				t.Errorf("%s, stored %v: messages %+v", name, stored, m)
			}
		}
	}
}

// A process ends after the post, before it stores the message.
func TestSummaryAfterACrash(t *testing.T) {
	f, cfg := newSlack(t)
	cfg.Channel = "C123"
	store, intents := &alertstest.Store{}, &alertstest.Store{}
	posted := false
	f.answer = func(method string, _ int) (int, http.Header, string, bool) {
		if method == "chat.postMessage" && !posted {
			posted = true
			store.CopyTo(intents)
		}
		return 0, nil, "", false
	}
	mustDeliver(t, newNotifier(t, cfg, store), storm(50, "warning"))
	mustDeliver(t, newNotifier(t, cfg, intents), storm(60, "warning"))
	if m := f.top(); len(m) != 1 || !strings.Contains(m[0].Text, "60 alerts are firing") {
		t.Errorf("messages %+v", m)
	}
	replies := f.thread()
	must.Equal(t, len(replies), 0, "replies %+v", replies)
}

// A Store that cannot be read must not lead to a second summary; a group in it that changes is not lost either.
func TestSummaryUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := newFake(t)
		store := &unreadable{Store: &alertstest.Store{}}
		groups := storm(50, "warning")
		mustDeliver(t, notifierOf(t, f, cfg, store, nil), groups)
		store.err = errors.New("no answer")
		n := notifierOf(t, f, cfg, store, nil)
		changed := after(groups, time.Minute, func(a *alerts.Alert) { a.Evidence.Failed++ })
		if failed, err := deliver(t, n, changed); len(failed) != 50 || !retryable(err) || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("%d groups failed: %v", len(failed), err)
		}
		if err := n.Notify(t.Context(), changed[0]); !retryable(err) {
			t.Errorf("one group: %v", err)
		}
		store.err = nil
		mustDeliver(t, n, changed)
		if m := f.top(); len(m) != 1 || m[0].Edits != 1 {
			t.Errorf("messages %+v, want one, edited once", m)
		}
		// If the Store stays unreadable, people matter more than a second message.
		store.err = errors.New("no answer")
		n = notifierOf(t, f, cfg, store, nil)
		failed, _ := deliver(t, n, changed)
		must.Equal(t, len(failed), 50, "groups failed")
		time.Sleep(2 * loadFor)
		mustDeliver(t, n, changed)
		must.Equal(t, len(f.top()), 2, "messages, with a second summary")
	})
}

// unreadable is a Store whose Get returns err.
type unreadable struct {
	*alertstest.Store
	err error
}

func (s *unreadable) Get(ctx context.Context, key string) ([]byte, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.Store.Get(ctx, key)
}

// The record of a summary stays below 1 MB, whatever the names; further groups are in further summaries, and none is lost.
func TestSummarySize(t *testing.T) {
	f, cfg := newSlack(t)
	largest := &sizes{}
	n := newNotifier(t, cfg, largest)
	groups := storm(5000, "warning")
	for i := range groups {
		a := &groups[i].Alerts[0]
		for k, v := range a.Labels {
			if k != "severity" {
				a.Labels[k] = v + strings.Repeat("<!channel>\u202e&\u2028", 10)
			}
		}
		a.Evidence.Shares = []alerts.Share{{Cause: strings.Repeat("<", 1000), Failed: 1}}
	}
	mustDeliver(t, n, groups)
	if largest.max == 0 || largest.max >= 1<<20 {
		t.Errorf("the largest record has %d bytes", largest.max)
	}
	total := 0
	for _, m := range f.top() {
		var k int
		must.Do(t, must.Err(fmt.Sscanf(strings.ReplaceAll(strings.SplitN(m.Text, " ", 2)[1], ",", ""), "%d alerts", &k)), "in", m.Text)
		total += k
		if strings.Contains(m.Text, "<!") || strings.Contains(m.Blocks, "<!channel") || strings.Contains(m.Blocks, `\u003c!channel`) || strings.Contains(m.Text, "\u202e") {
			t.Errorf("text %q", m.Text)
		}
		var blocks []json.RawMessage
		if err := json.Unmarshal([]byte(m.Blocks), &blocks); err != nil || len(blocks) > 6 || len(m.Blocks) > 10_000 {
			t.Errorf("%d blocks of %d bytes: %v", len(blocks), len(m.Blocks), err)
		}
	}
	must.Equal(t, total, 5000, "groups in summaries")
}

// sizes is a Store that only remembers the size of the largest value.
type sizes struct{ max int }

func (s *sizes) Get(context.Context, string) ([]byte, error) { return nil, nil }
func (s *sizes) Put(_ context.Context, _ string, value []byte) error {
	s.max = max(s.max, len(value))
	return nil
}

// From tallies to Slack: 60 stages fail at once. Slack accepts nothing for an hour, or all. Then people know of every group
// that fires, and of the end of all.
func TestStorm(t *testing.T) {
	for name, body := range map[string]string{"accepted": "", "revoked": `{"ok":false,"error":"token_revoked"}`, "unknown channel": `{"ok":false,"error":"channel_not_found"}`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, cfg := newFake(t)
				cfg.Mentions = map[string][]string{"critical": {"U0000ANNA"}}
				w := newFleet(t, 60, f, cfg, true)
				if body != "" {
					f.answer = func(string, int) (int, http.Header, string, bool) { return 200, nil, body, false }
				}
				w.pass(10*time.Minute, func(int) bool { return true })
				w.pass(30*time.Minute, func(i int) bool { return i >= 20 })
				f.mu.Lock()
				f.answer = nil
				f.mu.Unlock()
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				top := f.top()
				total := 0
				for _, m := range top {
					_, text, _ := strings.Cut(m.Text, ":red_circle: ")
					k := 1
					if strings.Contains(m.Text, "RESOLVED") { // the first groups may be messages of their own
						k = 0
					} else if !strings.Contains(text, "CRITICAL") {
						must.Do(t, must.Err(fmt.Sscan(text, &k)), "in", m.Text)
					}
					total += k
				}
				if total != 40 || len(top) > 6 {
					t.Errorf("%d firing groups in %d messages, want 40 in at most 6", total, len(top))
				}
				w.pass(40*time.Minute, func(int) bool { return false })
				posts, edits, mentions := 0, 0, 0
				f.mu.Lock()
				for _, m := range f.messages {
					posts++
					edits += m.Edits
					mentions += strings.Count(m.Text, "ANNA") // edits have removed those of posts
					if m.Thread == "" && !strings.Contains(m.Text, "RESOLVED") {
						t.Errorf("message %q at the end", m.Text)
					}
				}
				f.mu.Unlock()
				if posts > 12 || edits > 100 || mentions > 0 {
					t.Errorf("%d posts, %d edits, %d mentions in threads", posts, edits, mentions)
				}
				t.Logf("%d posts, %d edits, %d calls, %d log lines", posts, edits, len(f.calls), w.log.n.Load())
			})
		})
	}
}

// 500 groups breach at once. Slack, over HTTP, accepts one post per second and channel: after one post, people know of all of them.
func TestStormOverHTTP(t *testing.T) {
	const stages = 500
	f, cfg := newSlack(t)
	cfg.Channel = "C123"
	var last time.Time
	limited := 0
	f.answer = func(method string, _ int) (int, http.Header, string, bool) {
		if now := time.Now(); method == "chat.postMessage" {
			if now.Sub(last) < time.Second {
				limited++
				return 429, http.Header{"Retry-After": {"1"}}, "", false
			}
			last = now
		}
		return 0, nil, "", false
	}
	n := newNotifier(t, cfg, &alertstest.Store{})
	c := engine.Default()
	c.RuleFiles = []string{"../rules/stage_failure_rate.yaml"}
	e := enginetest.New(t, c, engine.Options{Notifiers: []alerts.Notifier{named{n}}, Store: &alertstest.Store{}})
	stop := must.Run(t, e.Run)
	tally := &analyzer.Tally{Second: time.Now().Unix()/5*5 - 1}
	for i := range stages {
		tally.Counts = append(tally.Counts, countsOf(stageOf(i), 50, 30)...)
	}
	began := time.Now()
	must.Do(t, e.Add(t.Context(), tally))
	evaluated := time.Since(began)
	must.Wait(t, "all groups are told", func() bool {
		s := e.Receivers()
		return s[0].Waiting == 0
	})
	told := time.Since(began)
	stop()
	top := f.top()
	if len(top) != 1 || !strings.Contains(top[0].Text, "500 alerts are firing, 500 critical") || limited > 0 {
		t.Errorf("%d messages, %d rejected posts: %+v", len(top), limited, top)
	}
	t.Logf("%d groups are told after %s, of which the evaluation takes %s: %d post, %d edits", stages, told.Round(time.Millisecond), evaluated.Round(time.Millisecond), len(top), top[0].Edits)
}

// A summary never shows the texts of errors, which may quote messages.
func TestSummaryWithoutContent(t *testing.T) {
	f, cfg := newSlack(t)
	n := newNotifier(t, cfg, nil)
	groups := storm(10, "warning")
	for i := range groups {
		x := *groups[i].Alerts[0].Evidence.Example
		x.ErrorText = "SECRET"
		groups[i].Alerts[0].Evidence.Example = &x
	}
	mustDeliver(t, n, groups)
	if m := f.top()[0]; strings.Contains(m.Blocks+m.Text, "SECRET") {
		t.Errorf("message %s", m.Blocks)
	}
}
