package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

var (
	leaderKills   = flag.Int("leader-kills", 1, "number of times TestLeaderKilled kills the process that notifies")
	leaderSuspend = flag.Duration("leader-suspend", 11*time.Second, "time for which TestLeaderSuspended suspends the process that notifies")
)

// Services that fail before the process that notifies dies.
const ackedService, silencedService = "service-acknowledged", "service-silenced"

// An alertCluster is processes of the role alert that share NATS and a Slack workspace.
type alertCluster struct {
	slack  *slack.Server
	conn   *jetstream.Conn
	kv     *jetstream.KV
	flags  []string
	leader *upProcess

	mu      sync.Mutex  // guards the rest
	failing [][2]string // services and versions
}

func newAlertCluster(t *testing.T) *alertCluster {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, sends signals")
	}
	t.Parallel()
	c := &alertCluster{slack: slack.New(slack.Config{Channels: []string{"oncall"}})}
	srv := httptest.NewServer(c.slack)
	t.Cleanup(srv.Close)
	url := collectortest.StartNATS(t, "")
	c.conn = collectortest.ConnectNATS(t, url, nil)
	c.kv = must.Get(c.conn.KV(t.Context(), event.BucketAlerts))(t)
	text := fmt.Sprintf("slack: {token: xoxb-test, channel: '#oncall', api_url: '%s/api/'}\n", srv.URL)
	config := filetest.Temp(t, "llmtap.yaml", text)
	c.flags = []string{"--config", config, "--roles", "alert", "--nats-url", url, "--clickhouse-dsn", "http://127.0.0.1:1/llmtap"}
	return c
}

// tally publishes tallies until the test ends.
func (c *alertCluster) tally(t *testing.T) {
	t.Helper()
	done, ctx := make(chan struct{}), t.Context()
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for next := time.Now().Unix() - 300; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			for ; next < time.Now().Unix() && ctx.Err() == nil; next++ {
				payload, _ := json.Marshal(c.second(next))
				if err := c.conn.PublishTally(ctx, 0, 1, next, payload); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		}
	}()
}

func (c *alertCluster) second(s int64) *analyzer.Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	tally := &analyzer.Tally{Second: s}
	for _, f := range c.failing {
		labels := func(more ...string) map[string]string {
			kv := map[string]string{"service": f[0], "environment": "prod", "stage": "planner", "service_version": f[1]}
			for i := 0; i < len(more); i += 2 {
				kv[more[i]] = more[i+1]
			}
			return kv
		}
		tally.Counts = append(tally.Counts, analyzer.Count{Metric: analyzer.MetricCalls, Labels: labels(), N: 20},
			analyzer.Count{Metric: analyzer.MetricFailed, Labels: labels("status", "400", "cause", "orphan_tool_reply"), N: 8})
	}
	return tally
}

// fail makes the calls of a service fail from now on.
func (c *alertCluster) fail(service string) { c.fails(service, "1") }

// fails is fail for a version of the service.
func (c *alertCluster) fails(service, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing = append(c.failing, [2]string{service, version})
}

// put stores a decision of a person.
func (c *alertCluster) put(t *testing.T, key string, v any) {
	t.Helper()
	value, err := json.Marshal(v)
	if err == nil {
		err = c.kv.Put(t.Context(), key, value)
	}
	must.Do(t, err)
}

// message waits for a message about a service, with a text in its blocks.
func (c *alertCluster) message(t *testing.T, service, text string) slack.Message {
	t.Helper()
	var m slack.Message
	must.Wait(t, fmt.Sprintf("a message about %s with %q", service, text), func() (ok bool) {
		m, ok = c.shown(service, text)
		return ok
	}, func() any { return c.leader.stderr.String() })
	return m
}

// shown returns the first message about a service, with a text in its blocks, if there is one.
func (c *alertCluster) shown(service, text string) (slack.Message, bool) {
	for _, m := range c.slack.Messages() {
		if m.ThreadTS == "" && strings.Contains(string(m.Blocks), service) && strings.Contains(string(m.Blocks), text) {
			return m, true
		}
	}
	return slack.Message{}, false
}

// about returns the number of messages about a service, without its thread, and the lines in the thread.
func (c *alertCluster) about(service string) (messages int, thread []string) {
	all := c.slack.Messages()
	for _, m := range all {
		if m.ThreadTS != "" || !strings.Contains(string(m.Blocks), service) {
			continue
		}
		messages++
		for _, line := range all {
			if line.ThreadTS == m.TS {
				thread = append(thread, line.Text)
			}
		}
	}
	return messages, thread
}

// standby starts a process and waits until it stands by.
func (c *alertCluster) standby(t *testing.T) *upProcess {
	t.Helper()
	u := startUp(t, c.flags...)
	await(t, u, "standing by", 0)
	waitFor(t, u, "its problems", func() bool { return !strings.Contains(c.command(t, u, anyCode, "problems"), "have not been read yet") })
	return u
}

// await waits until u has logged a text more than n times.
func await(t *testing.T, u *upProcess, text string, n int) {
	t.Helper()
	waitFor(t, u, text, func() bool { return strings.Count(u.stderr.String(), text) > n })
}

// incident starts a leader, a standby, and an acknowledged incident, and a silenced one.
func (c *alertCluster) incident(t *testing.T) (other *upProcess) {
	t.Helper()
	now := time.Now()
	matchers := must.Get(silence.ParseMatchers([]string{"service=" + silencedService}))(t)
	c.put(t, engine.SilenceStoreKey("s1"), silence.Silence{ID: "s1", Matchers: matchers, StartsAt: now, EndsAt: now.Add(time.Hour), CreatedBy: "anna", Comment: "x"})
	c.leader = startUp(t, c.flags...)
	c.tally(t)
	await(t, c.leader, "took the lease", 0)
	other = c.standby(t)
	must.Contain(t, other.metrics(t), "\nllmtap_alerts_leader 0\n", "the metrics of the process that stands by do not say so")
	c.fail(ackedService)
	c.fail(silencedService)
	await(t, c.leader, "severity=critical service="+ackedService, 0) // its first evaluation may have seen a part of the calls
	c.message(t, ackedService, "")
	var acked time.Time
	must.Wait(t, "Slack shows the acknowledgement", func() bool {
		for _, g := range c.groups(t) {
			if strings.Contains(g.Key, ackedService) && !g.Since().Equal(acked) {
				acked = g.Since()
				c.put(t, engine.AckStoreKey(g.Key), engine.StoredAck{Ack: alerts.Ack{Group: g.Key, Incident: acked, By: "U1", ByName: "anna", At: now}})
			}
		}
		_, ok := c.shown(ackedService, "Acknowledged by")
		return ok
	})
	time.Sleep(500 * time.Millisecond) // until this is stored: whoever dies in between may repeat it once
	return other
}

// groups returns the open groups of the leader.
func (c *alertCluster) groups(t *testing.T) (list []alerts.Group) {
	t.Helper()
	err := c.kv.Each(t.Context(), func(key string, value []byte, _ uint64) error {
		var saved struct{ Group alerts.Group }
		if !strings.HasPrefix(key, "group.") {
			return nil
		}
		err := json.Unmarshal(value, &saved)
		list = append(list, saved.Group)
		return err
	})
	must.Do(t, err)
	return list
}

// check compares what Slack shows of the old and the silenced incident with what it showed before.
func (c *alertCluster) check(t *testing.T, before slack.Message) {
	t.Helper()
	var after slack.Message
	must.Wait(t, "the message is updated", func() bool {
		after = c.message(t, ackedService, "Acknowledged by")
		return after.Updates > before.Updates
	})
	messages, lines := c.about(ackedService)
	if after.TS != before.TS || messages != 1 {
		t.Errorf("%d messages about the old incident, the first one with %d and then %d updates", messages, before.Updates, after.Updates)
	}
	for i, line := range lines {
		if slices.Contains(lines[:i], line) {
			t.Errorf("the thread repeats %q", line)
		}
	}
	if n, _ := c.about(silencedService); n > 0 {
		t.Errorf("%d messages about the silenced incident", n)
	}
}

// The process that notifies is killed with SIGKILL. The other one posts new alerts (within 15 s on an idle machine) and continues the messages of the old
// ones; silences and acknowledgements survive.
//
//	go test ./cmd/llmtap -run TestLeaderKilled -leader-kills 12 -v
func TestLeaderKilled(t *testing.T) {
	slowtest.Skip(t)
	c := newAlertCluster(t)
	other := c.incident(t)
	var took []time.Duration
	for i := range *leaderKills {
		if i > 0 {
			other = c.standby(t)
			time.Sleep(time.Duration(i) * 130 * time.Millisecond % time.Second) // at any time between two renewals
		}
		before := c.message(t, ackedService, "Acknowledged by")
		killed := time.Now()
		c.leader.kill(t)
		c.leader = other
		service := fmt.Sprintf("service-%d-new", i)
		c.fail(service)
		took = append(took, c.message(t, service, "").ReceivedAt.Sub(killed))
		c.check(t, before)
		must.Contain(t, c.leader.metrics(t), "\nllmtap_alerts_leader 1\n", "the metrics of the process that notifies do not say so")
		if n, _ := c.about(service); n != 1 {
			t.Errorf("%d messages about %s", n, service)
		}
	}
	t.Logf("kill to first post of a new alert: %d kills, min %.1f s, median %.1f s, max %.1f s", len(took), slices.Min(took).Seconds(),
		quantile(took, 0.5).Seconds(), slices.Max(took).Seconds())
	if worst := slices.Max(took); worst > time.Minute {
		t.Errorf("the other process posts after %v", worst)
	}
}

// The process that notifies is suspended until another one has taken over, then continues: it stands by.
func TestLeaderSuspended(t *testing.T) {
	slowtest.Skip(t)
	c := newAlertCluster(t)
	other := c.incident(t)
	before := c.message(t, ackedService, "Acknowledged by")
	suspended := c.leader
	signalProcess(t, suspended.cmd.Process.Pid, syscall.SIGSTOP)
	stopped := time.Now()
	c.leader = other
	c.fail("service-new")
	took := c.message(t, "service-new", "").ReceivedAt.Sub(stopped)
	time.Sleep(time.Until(stopped.Add(*leaderSuspend)))
	signalProcess(t, suspended.cmd.Process.Pid, syscall.SIGCONT)
	await(t, suspended, "standing by", 0)
	c.check(t, before)
	messages, lines := c.about("service-new")
	must.Equal(t, messages, 1, "messages about the new incident")
	if strings.Contains(other.stderr.String(), "lease lost") {
		t.Error("the process that took over has lost the lease again")
	}
	t.Logf("taken over after %.1f s; the thread of the new incident: %q", took.Seconds(), lines)
}
