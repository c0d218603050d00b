package slack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A peer is one of several processes with one Store, of which one at a time notifies.
type peer struct {
	*engine.Engine
	*alertstest.Store
	f *fake

	mu       sync.Mutex
	turn     uint64
	mentions int  // posts that mention U0000OTTO
	dies     bool // when its first summary is accepted, before it knows
	dead     bool
}

func newPeer(t *testing.T, f *fake, store *alertstest.Store) *peer {
	t.Helper()
	p := &peer{Store: store, f: f}
	cfg := Config{Token: "xoxb-test", Channel: "C123", APIURL: "http://slack.test/api", Mentions: map[string][]string{"warning": {"U0000OTTO"}}}
	c := engine.Default()
	c.RuleFiles = []string{"../rules/stage_failure_rate.yaml"}
	p.Engine = enginetest.New(t, c, engine.Options{Notifiers: []alerts.Notifier{notifierOf(t, p, cfg, p, nil)}, Store: p, Standby: true})
	return p
}

// lead lets p notify until the returned function is called.
func (p *peer) lead(t *testing.T) (stop func()) {
	t.Helper()
	p.mu.Lock()
	p.turn++
	p.mu.Unlock()
	return must.Run(t, p.Run)
}

// Turn implements alerts.SharedStore.
func (p *peer) Turn() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turn
}

func (p *peer) Put(ctx context.Context, key string, value []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errCrashed
	}
	return p.Store.Put(ctx, key, value)
}

func (p *peer) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return nil, errCrashed
	}
	if strings.HasSuffix(r.URL.Path, "chat.postMessage") {
		body, err := io.ReadAll(r.Body)
		if err = errors.Join(err, r.Body.Close()); err != nil {
			return nil, err
		}
		if bytes.Contains(body, []byte("U0000OTTO")) {
			p.mentions++
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.dead = p.dies && bytes.Contains(body, []byte("alerts+are+firing"))
	}
	resp, err := p.f.RoundTrip(r)
	if p.dead && err == nil {
		_ = resp.Body.Close() // of the fake
		return nil, errCrashed
	}
	return resp, err
}

// A process that notified before a storm takes over again in the middle of it: it continues the summary of the process in
// between, without another message or mention.
func TestStormIsTakenOver(t *testing.T) {
	f := func(name string, dies bool) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stormTakenOver(t, dies) })
		})
	}
	f("stops", false)
	f("dies when its summary is accepted", true)
}

func stormTakenOver(t *testing.T, dies bool) {
	slack, store := &fake{t: t}, &alertstest.Store{}
	a, b := newPeer(t, slack, store), newPeer(t, slack, store)
	b.dies = dies
	// second passes seconds in which that many stages fail.
	second := func(seconds, stages int) {
		t.Helper()
		for range seconds {
			var counts []analyzer.Count
			for i := range stages {
				kv := map[string]string{"service": fmt.Sprint("service-", i%7), "environment": "prod", "stage": fmt.Sprint("stage-", i), "service_version": "1"}
				counts = append(counts, countsOf(kv, 100, 20)...)
			}
			for _, p := range []*peer{a, b} {
				must.Do(t, p.Add(t.Context(), &analyzer.Tally{Second: time.Now().Unix(), Counts: counts}))
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
	}
	check := func(leader string, alerts, messages, mentions int) {
		t.Helper()
		top := slack.top()
		shown := len(top) - 1 // the first groups of a storm may have messages of their own
		_, text, _ := strings.Cut(top[len(top)-1].Text, ":large_orange_circle: ")
		var members int
		must.Do(t, must.Err(fmt.Sscanf(text, "%d alerts are firing", &members)), leader, "leads: the last message says", text)
		if shown += members; alerts > 0 && shown != alerts {
			t.Errorf("%s leads: %d alerts are shown, want %d", leader, shown, alerts)
		}
		if n := a.mentions + b.mentions; len(top) != messages || n != mentions {
			t.Errorf("%s leads: %d messages and %d mentions, want %d and %d", leader, len(top), n, messages, mentions)
		}
	}
	stop := a.lead(t)
	second(5, 1)
	stop()
	if n := len(slack.top()); n != 1 {
		t.Fatalf("%d messages of one alert", n)
	}
	stop = b.lead(t)
	second(5, 31)
	stop()
	messages, mentions := len(slack.top()), a.mentions+b.mentions
	alerts := 31
	if dies {
		alerts = 0 // unknown: its summary is of the groups that were due first
	}
	check("second", alerts, messages, messages)
	stop = a.lead(t)
	second(20, 41)
	check("first again", 41, messages, mentions)
	stop()
}
