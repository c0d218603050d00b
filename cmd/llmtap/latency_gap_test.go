package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	fleetslack "github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// The process with the role alert is down for ten, or forty, minutes around a burst of five minutes: after the restart the burst
// is notified once, with its own times and numbers, and marked as found late. After ten minutes the rule's window still includes
// it; after forty it is notified as resolved. The process, NATS with the tallies and the engine's state, and ClickHouse are real;
// only the seconds of the tallies are in the past, to avoid waiting.
func TestAlertRoleKilledAroundBurst(t *testing.T) {
	slowtest.SkipShort(t, "takes a minute")
	needClickHouse(t)
	t.Parallel()
	f := func(gap time.Duration, want string) {
		t.Run(gap.String(), func(t *testing.T) {
			t.Parallel()
			killedAroundBurst(t, gap, want)
		})
	}
	f(10*time.Minute, "CRITICAL shop/planner: 900 of 2,400 calls failed (38%)")
	f(40*time.Minute, "RESOLVED shop/planner: 900 of 2,400 calls failed at the peak (38%)")
}

func killedAroundBurst(t *testing.T, gap time.Duration, want string) {
	natsURL, dsn := servers(t)
	var mu sync.Mutex // guards posts
	var posts []fleetslack.Message
	slack := httptest.NewServer(fleetslack.New(fleetslack.Config{Channels: []string{"oncall"}, OnPost: func(m fleetslack.Message) {
		mu.Lock()
		defer mu.Unlock()
		posts = append(posts, m)
	}}))
	defer slack.Close()
	text := fmt.Sprintf("slack: {token: xoxb-test, channel: '#oncall', api_url: '%s/api/'}\nalerts: {evaluation_interval: 5s}\n", slack.URL)
	config := filetest.Temp(t, "llmtap.yaml", text)
	conn := collectortest.ConnectNATS(t, natsURL, nil)
	now := time.Now().Truncate(time.Second)
	killed := now.Add(-gap)
	burst := killed.Add(2 * time.Minute)
	// 4 calls per second of stream time; during the burst, 3 of them fail.
	publish := func(from, to time.Time) {
		t.Helper()
		for s := from; s.Before(to); s = s.Add(time.Second) {
			kv := map[string]string{"service": "shop", "service_version": "1.0", "environment": "prod", "stage": "planner"}
			y := analyzer.Tally{Epoch: 1, Second: s.Unix(), Counts: []analyzer.Count{{Metric: analyzer.MetricCalls, Labels: kv, N: 4}}}
			if !s.Before(burst) && s.Before(burst.Add(5*time.Minute)) {
				failed := maps.Clone(kv)
				failed["status"], failed["cause"] = "400", "orphan_tool_reply"
				y.Counts = append(y.Counts, analyzer.Count{Metric: analyzer.MetricFailed, Labels: failed, N: 3})
			}
			payload, err := json.Marshal(&y)
			if err == nil {
				err = conn.PublishTally(t.Context(), 0, y.Epoch, y.Second, payload)
			}
			must.Do(t, err)
		}
	}

	publish(killed.Add(-15*time.Minute), killed)
	up := startUp(t, "--roles", "alert", "--nats-url", natsURL, "--clickhouse-dsn", dsn, "--config", config)
	kv := must.Get(conn.KV(t.Context(), event.BucketAlerts))(t)
	waitFor(t, up, "the evaluation of the tallies before the kill", func() bool {
		step, err := lastStep(t.Context(), kv)
		return err == nil && step >= killed.Unix()-10
	})
	up.kill(t)
	publish(killed, now)
	up.start(t)
	var shown string
	waitFor(t, up, want, func() bool {
		mu.Lock()
		defer mu.Unlock()
		messages := map[string]bool{}
		for _, p := range posts {
			if p.ThreadTS == "" {
				messages[p.TS], shown = true, fleetslack.Text(p)
			}
		}
		if len(messages) > 1 {
			t.Fatalf("%d messages, the last one:\n%s", len(messages), shown)
		}
		return strings.Contains(shown, want)
	})
	must.Contain(t, shown, "Found late", "not marked as found late")
	// 240 of 2,400 calls are 10%: the alert starts at the next step after 80 s of the burst.
	// The message shows the minute.
	at := shownTime.FindStringSubmatch(shown)
	if earliest, latest := minute(burst.Add(80*time.Second)), minute(burst.Add(90*time.Second)); at == nil || at[1] != earliest && at[1] != latest {
		t.Errorf("alert started at %q, want %s or %s:\n%s", at, earliest, latest, shown)
	}
}

// shownTime matches the start of an alert in a message.
var shownTime = regexp.MustCompile(`(\d{4}-\d\d-\d\d \d\d:\d\d) UTC`)

func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

// lastStep returns the step up to which the alert role has evaluated and notified.
func lastStep(ctx context.Context, kv *jetstream.KV) (int64, error) {
	value, _, err := kv.Get(ctx, "engine")
	if err != nil {
		return 0, err
	}
	var state struct {
		LastStep int64 `json:"last_step"`
	}
	err = json.Unmarshal(value, &state)
	return state.LastStep, err
}
