package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// loaded returns decisions without silences and acknowledgements.
func loaded(t *testing.T) *Decisions {
	t.Helper()
	d := NewDecisions()
	must.Do(t, d.Replace(nil))
	return d
}

func put(t *testing.T, d *Decisions, key string, v any) {
	t.Helper()
	b := must.Get(json.Marshal(v))(t)
	must.Do(t, d.Put(key, b))
	synctest.Wait()
}

// silenced adds a silence of d from now on.
func silenced(t *testing.T, to *Decisions, d time.Duration, matchers ...string) silence.Silence {
	t.Helper()
	ms := must.Get(silence.ParseMatchers(matchers))(t)
	now := time.Now()
	s := silence.Silence{ID: "s1", Matchers: ms, StartsAt: now, EndsAt: now.Add(d), UpdatedAt: now, CreatedBy: "anna", Comment: "deploy"}
	put(t, to, SilenceStoreKey(s.ID), s)
	return s
}

// A system is a receiver with silences of its own.
type system struct{ notifier }

func (*system) Pace() alerts.Pace { return alerts.Pace{Every: time.Minute, Muted: true} }

// posts is a receiver that shows each notification as a new message.
type posts struct{ notifier }

func (*posts) Pace() alerts.Pace { return alerts.Pace{NewsOnly: true} }

// kinds returns what each notification said, such as "firing" or "resolved muted".
func kinds(n *notifier) (out []string) {
	for _, g := range n.groups {
		k := "resolved"
		if g.Firing() {
			k = "firing"
		}
		if g.Muted() {
			k += " muted"
		}
		if g.Ack != nil {
			k += " acknowledged"
		}
		if g.Repeat {
			k += " reminder"
		}
		out = append(out, k)
	}
	return out
}

// expect compares the notifications since the last call.
func expect(t *testing.T, n *notifier, want ...string) {
	t.Helper()
	must.Equal(t, fmt.Sprint(drop(n)), fmt.Sprint(want), "sent")
}

// drop removes and returns the notifications since the last call.
func drop(n *notifier) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	got := kinds(n)
	n.groups, n.at = nil, nil
	return got
}

// quiet is a configuration in which changed numbers alone are not sent.
func quiet() Config {
	cfg := Default()
	cfg.UpdateInterval = time.Hour
	return cfg
}

// An alert that is silenced from its start is never sent to people, not even its end; others receive it as always.
func TestSilencedFromStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, am := loaded(t), &system{}
		silenced(t, d, 2*time.Hour, "service=checkout-agent", `severity=~"warning|critical"`)
		b := newBenchOf(t, Default(), Options{Decisions: d, Notifiers: []alerts.Notifier{am}})
		breach(b, 60)
		if len(b.Active()) != 1 || b.Active()[0].Silence == nil {
			t.Fatalf("active %v, want one silenced alert", b.Active())
		}
		if len(am.groups) == 0 {
			t.Error("a receiver with silences of its own does not receive the alert")
		}
		b.idle(30 * time.Minute)
		must.Equal(t, len(b.sent.groups), 0, "notifications: %q", kinds(b.sent))
		if am.last().Firing() {
			t.Error("the end was not sent to a receiver with silences of its own")
		}
		last := b.rec.rows[len(b.rec.rows)-1]
		if last.State != alerts.Resolved || last.Silence == nil || last.Silence.CreatedBy != "anna" {
			t.Errorf("recorded %s, silence %v; want the resolved alert and its silence", last.State, last.Silence)
		}
		must.Equal(t, len(b.groups.open), 0, "groups are open at the end")
	})
}

// An alert that is silenced later is edited once, then there are neither numbers nor reminders. Its end is sent.
func TestSilencedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, hook, cfg := loaded(t), &posts{}, Default()
		cfg.RepeatInterval = 2 * time.Minute
		b := newBenchOf(t, cfg, Options{Decisions: d, Notifiers: []alerts.Notifier{hook}})
		breach(b, 60)
		drop(b.sent)
		drop(&hook.notifier)
		now := time.Now()
		silenced(t, d, 10*time.Hour, "service=checkout-agent")
		expect(t, b.sent, "firing muted")
		if len(b.rec.rows) == 0 || b.rec.rows[len(b.rec.rows)-1].Silence == nil || time.Since(now) > time.Second {
			t.Error("the silence was not recorded at once")
		}
		breach(b, 300)
		must.Equal(t, len(b.sent.groups), 0, "notifications while silenced: %q", kinds(b.sent))
		b.idle(30 * time.Minute)
		expect(t, b.sent, "resolved muted")
		expect(t, &hook.notifier, "resolved muted")
	})
}

// When a silence ends, an alert that still fires is sent: urgently if people do not know it. The end needs no evaluation.
func TestSilenceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := loaded(t)
		silenced(t, d, 2*time.Minute+500*time.Millisecond, "alertname=StageFailureRate")
		cfg := quiet()
		cfg.RepeatInterval = 8 * time.Minute
		b := newBenchOf(t, cfg, Options{Decisions: d})
		breach(b, 120)
		expect(t, b.sent)
		time.Sleep(time.Second)
		synctest.Wait()
		expect(t, b.sent, "firing")
		b.sec++ // the second without a tally

		breach(b, 60)
		s := silenced(t, d, time.Hour, "alertname=StageFailureRate")
		expect(t, b.sent, "firing muted")
		breach(b, 60)
		s.EndsAt = time.Now()
		put(t, d, SilenceStoreKey(s.ID), s) // expired by hand
		expect(t, b.sent, "firing")
		breach(b, 300)
		expect(t, b.sent) // no reminder
	})
}

// A silence of warnings does not hide that the alert became critical.
func TestSilencedWarningEscalates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := loaded(t)
		b := newBenchOf(t, quiet(), Options{Decisions: d})
		silenced(t, d, time.Hour, "severity=warning")
		b.seconds(60, calls("1", 100), failures("1", "x", "", 15))
		expect(t, b.sent)
		breach(b, 600)
		if len(b.sent.groups) == 0 || b.sent.groups[0].Muted() || b.sent.groups[0].Current()[0].Severity() != "critical" {
			t.Errorf("%q, want the critical alert", kinds(b.sent))
		}
	})
}

// An acknowledged group is shown as such and not repeated; it is sent when its severity rises and when it ends. The next
// incident is not acknowledged.
func TestAcknowledge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, hook := loaded(t), &posts{}
		cfg := Default()
		cfg.RepeatInterval = 2 * time.Minute
		b := newBenchOf(t, cfg, Options{Decisions: d, Notifiers: []alerts.Notifier{hook}})
		warn := func(seconds int) {
			b.seconds(seconds, calls("1", 100), failures("1", "x", "", 15))
		}
		warn(100)
		expect(t, &hook.notifier, "firing")
		warn(60)
		expect(t, &hook.notifier, "firing reminder")
		g := b.groups.sorted()[0].group()
		ack := StoredAck{Ack: alerts.Ack{Group: g.Key, Incident: g.Since(), By: "U1", ByName: "Anna", At: time.Now()}}
		drop(b.sent)
		put(t, d, AckStoreKey(g.Key), ack)
		expect(t, b.sent, "firing acknowledged") // at once
		warn(300)
		expect(t, &hook.notifier)
		breach(b, 600)
		expect(t, &hook.notifier, "firing acknowledged")
		drop(b.sent)
		ack.Withdrawn = true
		put(t, d, AckStoreKey(g.Key), ack)
		expect(t, b.sent, "firing")
		ack.Withdrawn = false
		put(t, d, AckStoreKey(g.Key), ack)
		expect(t, b.sent, "firing acknowledged")
		b.idle(30 * time.Minute)
		expect(t, &hook.notifier, "resolved acknowledged")
		warn(100)
		expect(t, &hook.notifier, "firing")
	})
}

// Silences and acknowledgements survive a restart, also if the next leader learns of them only later.
func TestDecisionsSurviveRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, d := &alertstest.Store{}, loaded(t)
		a := newBenchOf(t, quiet(), Options{Decisions: d, Store: store})
		start := a.sec
		breach(a, 60)
		g := a.groups.sorted()[0].group()
		ack := StoredAck{Ack: alerts.Ack{Group: g.Key, Incident: g.Since(), By: "U1", At: time.Now()}}
		put(t, d, AckStoreKey(g.Key), ack)
		s := silenced(t, d, time.Hour, "service=checkout-agent")
		a.idle(5 * time.Second)
		a.stop()

		late := NewDecisions()
		b := newBenchOf(t, quiet(), Options{Decisions: late, Store: store})
		replay(b, start, b.sec)
		b.idle(20 * time.Second)
		expect(t, b.sent)
		values := map[string][]byte{}
		for k, v := range map[string]any{SilenceStoreKey(s.ID): s, AckStoreKey(g.Key): ack} {
			values[k], _ = json.Marshal(v)
		}
		must.Do(t, late.Replace(values))
		b.idle(20 * time.Second)
		expect(t, b.sent)
		if x := b.Active(); len(x) != 1 || x[0].Silence == nil || b.groups.sorted()[0].ack == nil {
			t.Errorf("after the restart: %v", x)
		}
		b.stop()

		c := newBenchOf(t, quiet(), Options{Decisions: loaded(t), Store: store}) // both ended while there was no engine
		synctest.Wait()
		expect(t, c.sent, "firing")
	})
}

// A group that was muted from its start is sent urgently by the next leader when the silence ends, and its end is not sent.
func TestTakeOverOfMutedGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		d := loaded(t)
		silenced(t, d, time.Hour, "service=checkout-agent")
		open := func() (*bench, func()) {
			cfg := Default()
			cfg.RuleFiles = []string{"../rules/stage_failure_rate.yaml"}
			b := &bench{t: t, sec: time.Now().Unix(), sent: &notifier{}, rec: &recorded{}, store: store}
			b.Engine = newEngine(t, cfg, Options{Notifiers: []alerts.Notifier{b.sent}, Recorder: b.rec, Store: store, Decisions: d, Standby: true})
			return b, func() { b.stop = must.Run(t, b.Run) }
		}
		a, leadA := open()
		b, leadB := open()
		leadA()
		step := func(n int) {
			for range n {
				at := a.sec
				b.sec = at
				replay(b, at, at+1)
				a.second(calls("1", 4), failures("1", "x", "", 2))
			}
		}
		step(60)
		a.stop()
		leadB()
		synctest.Wait()
		expect(t, a.sent)
		expect(t, b.sent)
		step(5)
		silenced(t, d, 0, "service=checkout-agent")
		expect(t, b.sent, "firing")
	})
}

// A stored value that is no silence, or would silence every alert, changes nothing.
func TestUnreadableDecisions(t *testing.T) {
	const until = `"startsAt":"2020-01-01T00:00:00Z","endsAt":"2099-01-01T00:00:00Z"}`
	for key, value := range map[string]string{
		"silence.a": `{`, "silence.b": `{` + until, "silence.c": `{"matchers":[{"name":"service","value":".*","isRegex":true}],` + until,
		"silence.d": `{"matchers":[{"name":"service","value":"(","isRegex":true}],` + until,
		"ack.x":     `{"group":"G{}","incident":"2020-01-01T00:00:00Z"}`,
	} {
		d := NewDecisions()
		if err := d.Replace(map[string][]byte{key: []byte(value)}); err == nil || !d.isLoaded() {
			t.Errorf("%s: %v", key, err)
		}
		must.Fail(t, d.Put(key, []byte(value)), "", key)
		if s := d.Silences.Find(time.Now(), "A", map[string]string{"service": "shop"}); s != nil || len(d.Acks()) != 0 {
			t.Errorf("%s: silence %v, acknowledgements %v", key, s, d.Acks())
		}
	}
}

// A slow receiver takes 29 s for each notification.
type slow struct{ notifier }

func (n *slow) Notify(ctx context.Context, g alerts.Group) error {
	time.Sleep(29 * time.Second)
	return n.notifier.Notify(ctx, g)
}

// An alert that is silenced, and ends, while its first notification is on its way: the receiver learns of its end.
func TestEndsDuringFirstNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, n, cfg := loaded(t), &slow{}, Default()
		cfg.RuleFiles = []string{ruleFile(t, "", "Burst|sum by (service) (increase(llmtap_failed_calls_total[11s])) > 0|annotations:|  llmtap_window: 10s")}
		b := newBenchOf(t, cfg, Options{Decisions: d, Notifiers: []alerts.Notifier{n}})
		breach(b, 6)
		silenced(t, d, time.Hour, "alertname=Burst")
		b.idle(time.Minute)
		expect(t, &n.notifier, "firing", "resolved muted")
		must.Equal(t, len(b.groups.open), 0, "groups are open at the end")
	})
}
