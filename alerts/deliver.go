package alerts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	notifyTimeout = 30 * time.Second
	stopGrace     = 5 * time.Second // for a call in hand when Run is told to stop
	minBackoff    = time.Second
	maxBackoff    = time.Minute
)

// A receiver is a notifier, or the recorder, which is told of material changes only. Each has a goroutine of its own,
// so a slow one delays nobody. Its queue is the set of notices: one entry per group, the newest state wins.
type receiver struct {
	Notifier
	pace     Pace
	recorder bool
	wake     chan struct{} // capacity 1; never closed
	numbers  time.Time     // when it was last told of numbers alone; guarded by Engine.mu
}

// An urgency orders what is due at the same time.
type urgency int

const (
	first   urgency = iota // nobody was told of it, or not how bad it is
	news                   // material changes, reminders, and what must be told in time
	numbers                // nothing but numbers changed
)

func newReceiver(n Notifier) receiver {
	r := receiver{Notifier: n, wake: make(chan struct{}, 1)}
	if p, ok := n.(Paced); ok {
		r.pace = p.Pace()
	}
	return r
}

// A delivery is what one receiver was told of one notice.
type delivery struct {
	version, rev uint64    // told
	refused      uint64    // rev for which the receiver gave a final error
	at           time.Time // of the last success
	news         time.Time // of the last success that told something material, or reminded
	next         time.Time // not before, after a RetryError
	attempts     int       // in a row that ended in a RetryError
}

// recorder makes a Recorder a Notifier.
type recorder struct{ Recorder }

func (r recorder) Notify(ctx context.Context, g Group) error {
	for _, a := range g.Alerts {
		if err := r.RecordAlert(ctx, a); err != nil {
			return &RetryError{Err: fmt.Errorf("record alert: %w", err)}
		}
	}
	return nil
}

// Run tells the receivers about alerts until ctx ends, then writes the state once more. It returns nil. A Standby engine
// begins with what the engine before it has written, and may run again later.
func (e *Engine) Run(ctx context.Context) error {
	if e.standby {
		for !e.lead(ctx) {
			if !sleep(ctx, nil, 5*time.Second) {
				return nil
			}
		}
		defer e.follow()
	}
	var g sync.WaitGroup
	g.Go(func() { e.keep(ctx) })
	for i := range e.receivers {
		g.Go(func() { e.deliver(ctx, i) })
	}
	g.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	e.save(last)
	return nil
}

// wakeAll tells Run that something changed.
func (e *Engine) wakeAll() {
	wake(e.wakeKeep)
	e.wakeReceivers()
}

func (e *Engine) wakeReceivers() {
	for i := range e.receivers {
		wake(e.receivers[i].wake)
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake already
	}
}

// sleep waits for a wake, for d if it is positive, or for the end of ctx, which it reports.
func sleep(ctx context.Context, c chan struct{}, d time.Duration) bool {
	var timer <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-c:
	case <-timer:
	}
	return true
}

// keep writes the state to the store whenever it changes, and again after an error.
func (e *Engine) keep(ctx context.Context) {
	for {
		var retry time.Duration
		if !e.save(ctx) {
			retry = 5 * time.Second
		}
		if !sleep(ctx, e.wakeKeep, retry) {
			return
		}
	}
}

// deliver tells receiver i what is due, one group at a time.
func (e *Engine) deliver(ctx context.Context, i int) {
	r := e.receivers[i]
	for ctx.Err() == nil {
		d, wait := e.due(i, time.Now())
		if d == nil {
			if !sleep(ctx, r.wake, wait) {
				return
			}
			continue
		}
		began := time.Now()
		err := e.notify(ctx, r.Notifier, d.group)
		if ctx.Err() != nil && err != nil {
			return // not told; the store knows
		}
		if !r.recorder {
			e.m.notification.Observe(time.Since(began).Seconds())
		}
		e.done(i, d, err, time.Now())
	}
}

// notify calls n. A stop gives the call some time to end, so that no post is left in doubt.
func (e *Engine) notify(ctx context.Context, n Notifier, g Group) error {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopGrace, cancel) })()
	return n.Notify(call, g)
}

// A dispatch is one call of a notifier.
type dispatch struct {
	key          string
	group        Group
	version, rev uint64
}

// due returns what receiver i is to be told first at now, or nil and the time until something may be due (0: only
// after a change). Of what is due the most urgent comes first: a receiver that takes a message a second must not be
// busy with the numbers of many groups while a new one waits.
func (e *Engine) due(i int, now time.Time) (*dispatch, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var best *notice
	var bestAt, soonest time.Time
	var how urgency
	repeat := false
	calm := e.receivers[i].numbers.Add(e.receivers[i].pace.Numbers) // when numbers may be told again
	for _, n := range e.sortedNotices() {
		if n.saved < n.rev {
			continue // the intent comes first; keep wakes us
		}
		at, u, again, ok := n.dueAt(i, &e.receivers[i], e.cfg)
		if !ok {
			continue
		}
		ready := at
		if u == numbers && ready.Before(calm) {
			ready = calm
		}
		if soonest.IsZero() || ready.Before(soonest) {
			soonest = ready
		}
		if !ready.After(now) && (best == nil || u < how || u == how && at.Before(bestAt)) {
			best, bestAt, how, repeat = n, at, u, again
		}
	}
	if best == nil {
		return nil, max(soonest.Sub(now), 0)
	}
	if how == numbers {
		e.receivers[i].numbers = now
	}
	g := best.group()
	g.Repeat = repeat
	return &dispatch{key: best.key, group: g, version: best.version, rev: best.rev}, 0
}

// dueAt is when receiver r, the i-th, is to be told of n, how urgently, whether as a reminder, and whether at all.
func (n *notice) dueAt(i int, r *receiver, cfg Config) (at time.Time, how urgency, repeat, ok bool) {
	d := &n.sent[i]
	again := r.pace.Every > 0 && n.firing()
	how = news
	switch {
	case d.refused == n.rev && !again:
		return at, how, false, false
	case r.recorder && d.rev == n.rev:
		return at, how, false, false
	case d.rev != n.rev, d.version != n.version && !r.pace.NewsOnly:
		// The first notice goes out at once, and so does a rise from warning to critical.
		if d.version != 0 && !r.recorder && d.rev >= n.raised {
			at = d.at.Add(cfg.UpdateInterval)
			if again && cfg.UpdateInterval > r.pace.Every {
				at = d.at.Add(r.pace.Every)
			}
		} else {
			how = first
		}
		if d.rev == n.rev && !again {
			how = numbers
		}
	case again:
		at = d.at.Add(r.pace.Every)
	case n.firing():
		at, repeat = d.news.Add(cfg.RepeatInterval), true
	default:
		return at, how, false, false
	}
	if how == numbers && n.firing() && d.news.Add(cfg.RepeatInterval).Before(at) {
		how, repeat = news, true
	}
	if at.Before(d.next) {
		at = d.next
	}
	return at, how, repeat, true
}

// done notes how the dispatch d to receiver i ended.
func (e *Engine) done(i int, d *dispatch, err error, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.notices[d.key] // there as long as a receiver was not told
	s := &n.sent[i]
	result := "delivered"
	var later *RetryError
	switch {
	case err == nil:
		if s.rev != d.rev || d.group.Repeat {
			s.news = now
			n.dirty = true
		}
		s.version, s.rev, s.at, s.next, s.attempts = d.version, d.rev, now, time.Time{}, 0
	case errors.As(err, &later):
		result = "retried"
		wait := later.After
		if wait <= 0 {
			wait = min(minBackoff<<min(s.attempts, 10), maxBackoff)
		}
		if s.attempts&(s.attempts-1) == 0 { // the first ones, then ever fewer
			e.log.Warn("alert not delivered yet", "group", d.key, "error", err, "retry_in", wait)
		}
		s.attempts++
		s.next = now.Add(wait)
	default:
		result = "failed"
		s.refused = d.rev
		s.next = now.Add(e.receivers[i].pace.Every)
		e.log.Error("alert not delivered", "group", d.key, "error", err)
	}
	if !e.receivers[i].recorder {
		e.m.notifications.WithLabelValues(result).Inc()
	}
	e.settle(n)
	wake(e.wakeKeep)
}

// settle forgets n when it is over and everybody was told, or refused to be.
func (e *Engine) settle(n *notice) {
	told, refused := true, false
	for i := range n.sent {
		told = told && n.sent[i].rev == n.rev
		refused = refused || n.sent[i].refused == n.rev
		if n.sent[i].rev != n.rev && n.sent[i].refused != n.rev {
			return
		}
	}
	if told != n.settled {
		n.settled, n.dirty = told, true
	}
	if !n.firing() && (told || refused) {
		delete(e.notices, n.key)
		wake(e.wakeKeep)
	}
}
