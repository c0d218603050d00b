package rules_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// silent are the rules that can fire while no calls come.
var silent = []string{"backlog_growing.yaml", "collector_blind.yaml", "events_dropped.yaml", "events_lost.yaml", "responses_missing.yaml", "traffic_unusual.yaml", "watchdog.yaml"}

// A fleet that is idle, or whose processes have ended, is not blind. One whose hooks vanish in the middle of calls is.
func TestIdleIsNotBlind(t *testing.T) {
	slowtest.Skip(t)
	fleet := []string{"shop", "desk", "mail", "docs"}
	idle := func(p *pipeline, d time.Duration) {
		for range int(d / time.Minute) {
			p.beat(event.HookAlive, fleet...)
			p.wait(time.Minute - 100*time.Millisecond*time.Duration(len(fleet)))
		}
	}
	f := func(name string, script func(p *pipeline), want ...string) {
		t.Run(name, func(t *testing.T) {
			p, _ := playAfter(t, new(alertstest.Store), false, script, silent...)
			must.Agree(t, cmp.Diff(want, p.severities), "fired")
		})
	}
	f("a healthy day and a night without calls", func(p *pipeline) {
		p.busy(2*time.Hour, true, fleet...)
		idle(p, time.Hour) // lunch
		p.busy(3*time.Hour, true, fleet...)
		idle(p, 14*time.Hour)
		p.busy(time.Hour, true, fleet...)
	})
	f("the processes stop at night, and start in the morning", func(p *pipeline) {
		p.busy(time.Hour, true, fleet...)
		p.beat(event.HookEnded, fleet...)
		p.wait(8 * time.Hour)
		p.busy(time.Hour, true, fleet...)
	})
	f("a batch ends", func(p *pipeline) {
		p.busy(12*time.Minute, true, fleet...)
		p.beat(event.HookEnded, fleet...)
		p.wait(time.Hour)
	})
	f("two services are killed at the end of the day", func(p *pipeline) {
		p.busy(time.Hour, true, fleet...)
		p.beat(event.HookEnded, fleet[2:]...)
		p.wait(time.Hour)
	})
	broken := func(p *pipeline) {
		p.busy(time.Hour, true, fleet...)
		for _, p.labels.Service = range fleet {
			p.request(question)
		}
	}
	f("the network breaks in the middle of calls", func(p *pipeline) {
		broken(p)
		p.wait(14 * time.Minute)
	}, "CollectorBlind critical")
	f("the network breaks in the middle of calls, for hours", func(p *pipeline) {
		broken(p)
		p.wait(3 * time.Hour)
		if a := p.e.Active(); len(a) != 1 || a[0].Severity() != "critical" {
			t.Errorf("after 3 hours: %+v", a)
		}
		p.busy(3*time.Minute, true, fleet...)
		if a := p.e.Active(); len(a) > 0 {
			t.Errorf("although calls have come again: %+v", a)
		}
	}, "CollectorBlind critical")
	f("the network breaks for two minutes", func(p *pipeline) {
		broken(p)
		p.wait(2 * time.Minute)
		p.busy(20*time.Minute, true, fleet...)
	})
	f("a fleet without heartbeats stops every evening", func(p *pipeline) {
		p.busy(time.Hour, false, fleet...)
		p.wait(23 * time.Hour)
		p.severities = nil // the first evening may be a fault, see below
		p.busy(time.Hour, false, fleet...)
		p.wait(time.Hour)
	})
	f("the network of a fleet without heartbeats breaks, or it is idle", func(p *pipeline) {
		p.busy(time.Hour, false, fleet...)
		p.wait(time.Hour)
	}, "CollectorBlind warning")
	f("a part of the fleet has no heartbeats, the others are idle", func(p *pipeline) {
		p.busy(time.Hour, false, "a", "b", "c")
		p.busy(time.Minute, true, fleet...)
		idle(p, time.Hour)
	})
}
