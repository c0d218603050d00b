package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/llmtap/llmtap/alerts"
)

const (
	// faultLog is the minimum interval between two log lines about failed notifications of a receiver; it grows with the
	// duration of the failure. Otherwise every group of a storm would be logged at every attempt.
	faultLog = time.Minute
	// endMemory is the time for which the end of a group is kept for a receiver that does not accept it. Its message would
	// otherwise look as if the alert still fired. Groups that never reached the receiver are closed when they end.
	endMemory = 24 * time.Hour
)

// faults are the failures of a receiver since its last success.
type faults struct {
	err       error     // the last one; nil: none
	since     time.Time // time of the first
	attempts  int       // failed notifications
	down      bool      // the last one was about the receiver, not about a group: one group is tried at a time
	notBefore time.Time // earliest next attempt while down
	backoff   *backoff.ExponentialBackOff
	logged    time.Time
}

func (f *faults) failed() bool { return f.err != nil }

// pause returns the time until the receiver may be tried again.
func (f *faults) pause(now time.Time) time.Duration {
	if !f.down {
		return 0
	}
	return f.notBefore.Sub(now)
}

// add records a failure, and reports whether to log it. first is false for the groups of a call that share its error.
func (f *faults) add(err error, first bool, now time.Time) (log bool) {
	if f.err == nil {
		f.since = now
	}
	f.err = err
	f.attempts++
	retry, ok := errors.AsType[*alerts.RetryError](err)
	if f.down = ok && retry.Down; f.down && first {
		if f.backoff == nil {
			f.backoff = newBackoff()
		}
		wait := f.backoff.NextBackOff()
		if retry.After > 0 {
			wait = retry.After
		}
		f.notBefore = now.Add(wait)
	}
	if now.Sub(f.logged) < max(faultLog, now.Sub(f.since)) {
		return false
	}
	f.logged = now
	return true
}

func newBackoff() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: minBackoff, Multiplier: 2, MaxInterval: maxBackoff}
}

// miss marks the groups that have ended while receiver i failed. What never reached people is no longer news for them.
func (g *groups) miss(i int) {
	for _, o := range g.open {
		d := &o.sent[i]
		if d.to.people() && d.version == 0 && (d.to.faults.down || d.attempts > 0) && !o.firing() {
			o.dirty = o.dirty || !d.missed && d.tried
			d.missed = true
		}
	}
}

// missed reports whether g ended while the receiver of d failed, and was never sent.
func (g *openGroup) missed(d *delivery) bool { return d.missed && d.version == 0 && !g.firing() }

// anyMissed reports whether people may have been sent g, which ended while their receiver failed.
func (g *openGroup) anyMissed() bool {
	return slices.ContainsFunc(g.sent, func(d delivery) bool { return g.missed(&d) && d.tried })
}

// outlived reports whether g ended so long ago that the receiver of d, which fails, is not sent its end.
func (g *openGroup) outlived(d *delivery, now time.Time) bool {
	return (d.attempts > 0 || d.to.faults.failed()) && !g.firing() && now.Sub(g.ended()) >= endMemory
}

// undelivered reports whether g has ended and is open because a receiver fails.
func (g *openGroup) undelivered() bool {
	undelivered := false
	for i := range g.sent {
		d := &g.sent[i]
		failing := d.attempts > 0 || d.to.faults.failed()
		if d.to.sends(g.key) || !g.told(d) && !failing {
			return false
		}
		undelivered = undelivered || !g.told(d)
	}
	return undelivered && !g.firing() && !g.hides
}

// makeRoom closes the group that ended first, of those that are open because a receiver fails: alerts that fire need the room.
func (g *groups) makeRoom() {
	var oldest *openGroup
	for _, o := range g.open {
		if o.undelivered() && (oldest == nil || o.ended().Before(oldest.ended())) {
			oldest = o
		}
	}
	if oldest != nil {
		g.m.alertsDropped.WithLabelValues("undelivered").Inc()
		delete(g.open, oldest.key)
	}
}

// ended returns the time at which the last alert of g ended.
func (g *openGroup) ended() (t time.Time) {
	for _, a := range g.alerts {
		if a.EndsAt.After(t) {
			t = a.EndsAt
		}
	}
	return t
}
