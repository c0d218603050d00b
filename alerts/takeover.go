package alerts

import (
	"context"
	"maps"
	"time"
)

// missedFor is how long a standby remembers what ended while it did not lead: as long as tallies are kept by default.
const missedFor = 24 * time.Hour

// lead takes over what the engine before has told. What this one found since then is news, also what is over again.
func (e *Engine) lead(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	own, told := e.notices, e.told
	e.notices, e.told, e.written = map[string]*notice{}, 0, savedState{}
	if err := e.load(ctx); err != nil {
		e.failed("store", err)
		e.notices, e.told = own, told
		return false
	}
	e.leads = true
	if last := e.next - int64(e.cfg.EvaluationInterval.Seconds()); e.next > 0 && last > e.told {
		e.adopt(own)
		e.publish(time.Unix(last, 0).UTC())
		e.told = last
	}
	return true
}

// follow goes on evaluating for the engine that leads now.
func (e *Engine) follow() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leads = false
}

// toldBefore is the step up to which a leader has told, 0 if that is not known: a standby that starts need not look at
// what fired before.
func (e *Engine) toldBefore(ctx context.Context) int64 {
	if e.store == nil {
		return 0
	}
	var state savedState
	if _, err := e.get(ctx, stateKey, &state); err != nil {
		e.failed("store", err)
	}
	return min(state.LastStep, time.Now().Unix())
}

// adopt adds to the notices of the engine before what this one saw begin, or end, after the last step that was told.
func (e *Engine) adopt(own map[string]*notice) {
	for key, n := range own {
		for _, a := range n.alerts {
			to := e.notices[key]
			if a.opened <= e.told {
				if to == nil || a.State != Resolved || a.EndsAt.Unix() <= e.told {
					continue
				}
				if t := to.find(a.key); t != nil { // the engine before did not see its end
					t.resolve(a.EndsAt)
					to.news()
				}
				continue
			}
			if to != nil && a.State == Firing && to.find(a.key) != nil {
				continue // to those who were told it has never ended
			}
			if to == nil {
				if len(e.notices) >= maxNotices {
					e.m.alertsDropped.WithLabelValues("max_alerts").Inc()
					continue
				}
				to = &notice{key: key, sent: make([]delivery, len(e.receivers))}
				e.notices[key] = to
			}
			a.FoundLate = a.FoundLate || time.Since(time.Unix(a.opened, 0)) > lateAfter
			if !to.add(a, time.Unix(a.opened, 0)) {
				e.m.alertsDropped.WithLabelValues("max_alerts").Inc()
			}
		}
	}
}

// forgetEnded drops what a standby need not remember any more.
func (e *Engine) forgetEnded(ts time.Time) {
	maps.DeleteFunc(e.notices, func(_ string, n *notice) bool {
		if n.firing() {
			return false
		}
		for _, a := range n.alerts {
			if ts.Sub(a.EndsAt) < missedFor {
				return false
			}
		}
		return true
	})
}
