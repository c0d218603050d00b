package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/llmtap/llmtap/alerts"
)

const (
	notifyTimeout = 30 * time.Second
	stopGrace     = 2 * time.Second // grace period for a call in progress when Run stops; afterwards another process may lead
	leadsPoll     = 100 * time.Millisecond
	minBackoff    = time.Second
	maxBackoff    = time.Minute
	turnGrace     = 20 * time.Millisecond // groups that a rate limit rejected are due again at about the same time
	// foldInterval is the minimum time between two calls of Folder.Fold that send something. Slack accepts 50 edits per
	// minute, of all messages.
	foldInterval = 2 * time.Second
)

// recorder adapts Options.Recorder to the Notifier interface.
type recorder func(ctx context.Context, a alerts.Alert) error

func (r recorder) Notify(ctx context.Context, g alerts.Group) error {
	for _, a := range g.Alerts {
		if err := r(ctx, a); err != nil {
			return &alerts.RetryError{Err: fmt.Errorf("record alert: %w", err)}
		}
	}
	return nil
}

// A receiver is a notifier, or the recorder, which receives only material changes. Each receiver has its own goroutine,
// so a slow receiver does not delay the others. Its queue is the set of open groups, with one entry per group: the
// newest state.
type receiver struct {
	alerts.Notifier
	name      string        // for logs and metrics
	folder    alerts.Folder // the Notifier, if it is one
	pace      alerts.Pace
	recorder  bool
	wake      signal
	numbersAt time.Time       // last notification in which only numbers changed; guarded by Engine.mu
	foldedAt  time.Time       // last attempt to send a summary; guarded by Engine.mu
	sending   []*notification // notifications on their way; guarded by Engine.mu
	faults    faults          // guarded by Engine.mu
}

func newReceiver(n alerts.Notifier) *receiver {
	r := &receiver{Notifier: n, wake: newSignal(), name: receiverName(n)}
	_, r.recorder = n.(recorder)
	r.folder, _ = n.(alerts.Folder)
	if p, ok := n.(alerts.Paced); ok {
		r.pace = p.Pace()
	}
	return r
}

func receiverName(n alerts.Notifier) string {
	if n, ok := n.(alerts.Named); ok {
		return n.Name()
	}
	return ""
}

// people reports whether r notifies people, who are not notified of muted groups.
func (r *receiver) people() bool { return !r.recorder && !r.pace.Muted }

// decisions reports whether r is notified of what people have decided.
func (r *receiver) decisions() bool { return !r.pace.NewsOnly || r.pace.Decisions }

// A delivery is the state of one group at one receiver.
type delivery struct {
	version, news uint64 // version and news of the group when last sent
	decisions     uint64 // decisions of the group when last sent
	to            *receiver
	folded        bool                        // the last notification was a summary
	alone         bool                        // Folder.Fold did not fold the group
	rejected      uint64                      // news of the group at the receiver's last final error
	at            time.Time                   // time of the last success
	newsAt        time.Time                   // time of the last success with news or as a reminder
	notBefore     time.Time                   // earliest next attempt after an error
	backoff       *backoff.ExponentialBackOff // nil after a success
	attempts      int                         // consecutive failures
	failedAt      time.Time                   // time of the first of them
	tried         bool                        // there was an attempt, so the receiver may know the group
	missed        bool                        // the group ended while the receiver failed
}

func newDeliveries(receivers []*receiver) []delivery {
	out := make([]delivery, len(receivers))
	for i, r := range receivers {
		out[i].to = r
	}
	return out
}

// dispatcher sends open groups to receivers.
type dispatcher struct {
	cfg       Config
	m         *metrics
	log       *slog.Logger
	receivers []*receiver
	changed   signal      // raised after deliveries, because they must be stored
	leads     func() bool // Options.Leads
	mu        *sync.Mutex // Engine.mu
	groups    *groups
}

// wake makes all receivers look for due groups.
func (d *dispatcher) wake() {
	for _, r := range d.receivers {
		r.wake.raise()
	}
}

// run notifies the receivers until ctx ends.
func (d *dispatcher) run(ctx context.Context) {
	var g sync.WaitGroup
	for i, r := range d.receivers {
		g.Go(func() {
			for ctx.Err() == nil {
				if !d.leads() { // then ctx ends soon
					r.wake.wait(ctx, leadsPoll)
					continue
				}
				list, wait := d.due(i, time.Now())
				if len(list) > 0 {
					d.send(ctx, i, list)
				} else if !r.wake.wait(ctx, wait) {
					return
				}
			}
		})
	}
	g.Wait()
}

// send notifies receiver i of the only notification in list, or of several in a summary. When ctx ends, a call in progress has
// stopGrace to complete, so that its outcome is known.
func (d *dispatcher) send(ctx context.Context, i int, list []*notification) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopGrace, cancel) })()
	began := time.Now()
	var results []error
	sent := true
	if r := d.receivers[i]; list[0].foldable {
		results, sent = fold(call, r.folder, list)
	} else {
		results = []error{r.Notify(call, list[0].group)}
	}
	if ctx.Err() != nil && errors.Join(results...) != nil {
		return // treated as not sent; the Store has the intent
	}
	result := d.complete(i, list, results, time.Now())
	if sent && !d.receivers[i].recorder {
		d.m.notification.Observe(time.Since(began).Seconds())
		d.m.notifications.WithLabelValues(result).Inc()
	}
}

// A notification is one call of a notifier.
type notification struct {
	group                    alerts.Group
	version, news, decisions uint64
	foldable                 bool // may be part of a summary
	folded                   bool // is part of a summary
	since                    time.Time
	attempts                 int // failed ones
}

// An urgency orders notifications that are due at the same time.
type urgency int

const (
	urgent  urgency = iota // the group or its severity is new to the receiver; the highest severity first
	news                   // material changes, reminders, and resends for which the receiver has a deadline
	numbers                // only numbers changed
)

// due returns the next notification for receiver i, the most urgent one first. If it may be part of a summary, due returns all
// that may be. If none is due, it returns the time until one may be due, or 0 if only a change can make one due. Urgency
// matters because a receiver with a rate limit must not send new numbers of many groups while a new group waits.
func (d *dispatcher) due(i int, now time.Time) ([]*notification, time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.receivers[i]
	r.sending = nil
	if wait := r.faults.pause(now); wait > 0 {
		return nil, wait
	}
	d.groups.miss(i)
	var best *openGroup
	var bestSince, bestReady, soonest time.Time
	var how urgency
	bestRank := 0
	repeat := false
	for _, o := range d.groups.open {
		if o.stored < o.news {
			continue // the intent must be stored first, which then raises r.wake
		}
		at, u, reminder, ok := o.due(i, r, d.cfg)
		if !ok {
			continue
		}
		ready := at
		if next := r.foldedAt.Add(foldInterval); o.sent[i].offers() && ready.Before(next) {
			ready = next
		} else if next := r.numbersAt.Add(r.pace.Numbers); u == numbers && ready.Before(next) {
			ready = next
		}
		if soonest.IsZero() || ready.Before(soonest) {
			soonest = ready
		}
		since, severity := o.sent[i].since(at, now), 0
		if u == urgent {
			severity = o.rank()
		}
		if ready.After(now.Add(turnGrace)) {
			continue
		}
		if best != nil {
			order := cmp.Or(cmp.Compare(u, how), cmp.Compare(bestRank, severity), since.Compare(bestSince), strings.Compare(o.key, best.key))
			if r.faults.down { // it may be down for this group only
				order = cmp.Or(cmp.Compare(o.sent[i].attempts, best.sent[i].attempts), order)
			}
			if order > 0 {
				continue
			}
		}
		best, bestRank, bestSince, bestReady, how, repeat = o, severity, since, ready, u, reminder
	}
	if best == nil {
		return nil, max(soonest.Sub(now), 0)
	}
	if bestReady.After(now) {
		return nil, bestReady.Sub(now)
	}
	if best.sent[i].offers() {
		r.sending = d.foldTogether(i, now)
		return r.sending, 0
	}
	if how == numbers {
		r.numbersAt = now
	}
	r.sending = []*notification{best.notification(i, repeat)}
	return r.sending, 0
}

// notification returns the notification of the current state of g for receiver i.
func (g *openGroup) notification(i int, repeat bool) *notification {
	n := &notification{group: g.group(), version: g.version, news: g.news, decisions: g.decisions}
	n.group.Repeat, n.group.Missed = repeat, g.missed(&g.sent[i])
	return n
}

// since returns the time since which a notification that is due at at waits. A group that was rejected because of a rate
// limit is before groups that are new since then; otherwise it could be rejected again and again.
func (d *delivery) since(at, now time.Time) time.Time {
	switch {
	case d.attempts > 0:
		return d.failedAt
	case at.IsZero():
		return now
	}
	return at
}

// due returns when to send g to receiver r, which has index i, how urgently, and whether as a reminder. ok is false if
// there is nothing to send.
func (g *openGroup) due(i int, r *receiver, cfg Config) (at time.Time, how urgency, reminder, ok bool) {
	d := &g.sent[i]
	resend := r.pace.Every > 0 && g.firing()
	how = news
	switch {
	case d.rejected == g.news && !resend, g.missed(d) && !d.tried, (r.recorder || r.people() && g.muted()) && g.told(d):
		return at, how, false, false
	case d.version != 0 && d.decisions != g.decisions && r.decisions():
		// Somebody waits for the effect of a button or a command.
		if d.news < g.raised {
			how = urgent
		}
	case d.news != g.news, d.version != g.version && !r.pace.NewsOnly:
		// The first notification is sent immediately, and so is an escalation from warning to critical.
		if d.version != 0 && !r.recorder && d.news >= g.raised {
			at = d.at.Add(cfg.UpdateInterval)
			if resend && cfg.UpdateInterval > r.pace.Every {
				at = d.at.Add(r.pace.Every)
			}
		} else {
			how = urgent
		}
		if d.news == g.news && !resend {
			how = numbers
		}
	case resend:
		at = d.at.Add(r.pace.Every)
	case g.firing() && g.ack == nil:
		at, reminder = d.newsAt.Add(cfg.RepeatInterval), true
	default:
		return at, how, false, false
	}
	if repeat := d.newsAt.Add(cfg.RepeatInterval); how == numbers && g.firing() && g.ack == nil && repeat.Before(at) {
		at, how, reminder = repeat, news, true
	}
	if at.Before(d.notBefore) {
		at = d.notBefore
	}
	return at, how, reminder, true
}

// told reports whether the receiver of d has been sent all that it should know about g, except numbers. If g is muted, that is
// nothing if g was never sent, and otherwise that g is muted, and its end.
func (g *openGroup) told(d *delivery) bool {
	if g.missed(d) && !d.tried {
		return true
	}
	decisions := d.decisions == g.decisions || !d.to.decisions()
	if d.to.people() && g.muted() {
		return d.version == 0 || decisions && (g.firing() || d.news == g.news)
	}
	return d.news == g.news && decisions
}

// unsent reports whether people have not been notified of g.
func (g *openGroup) unsent() bool {
	return !slices.ContainsFunc(g.sent, func(d delivery) bool { return d.to.people() && d.version != 0 })
}

// complete records the outcomes of the notifications in list for receiver i, and returns the worst: "delivered", "retried" or
// "failed".
func (d *dispatcher) complete(i int, list []*notification, results []error, now time.Time) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.changed.raise()
	d.receivers[i].sending = nil
	worst := "delivered"
	logged := map[string]bool{} // the groups of a summary share an error
	for k, n := range list {
		o, err := d.groups.open[n.group.Key], results[k]
		if n.folded {
			d.receivers[i].foldedAt = now
		}
		switch {
		case err == nil:
			d.delivered(i, n, o, now)
		case errors.Is(err, alerts.ErrNotFolded):
			o.sent[i].alone = true
		case errors.Is(err, alerts.ErrFoldLater):
		default:
			result := d.rejected(i, n, o, err, !logged[err.Error()], now)
			logged[err.Error()] = true
			if worst != "failed" {
				worst = result
			}
		}
		d.groups.settle(o)
	}
	return worst
}

// delivered records that receiver i was sent n.
func (d *dispatcher) delivered(i int, n *notification, o *openGroup, now time.Time) {
	s := &o.sent[i]
	if r := d.receivers[i]; r.faults.failed() && !n.group.Missed { // which the receiver need not have been sent
		if after := now.Sub(r.faults.since); after >= faultLog {
			d.log.Info("alert receiver accepts notifications again", "receiver", r.name, "after", after.Round(time.Second))
		}
		d.groups.miss(i)
		r.faults = faults{logged: r.faults.logged}
	}
	if s.news != n.news || s.decisions != n.decisions || n.group.Repeat {
		s.newsAt = now
		o.dirty = true
	}
	if n.folded && s.version == 0 && !s.folded {
		d.m.folded.Inc()
	}
	if s.folded != n.folded {
		s.folded, o.dirty = n.folded, true
	}
	s.version, s.news, s.decisions, s.at, s.notBefore, s.backoff, s.attempts, s.alone = n.version, n.news, n.decisions, now, time.Time{}, nil, 0, false
}

// rejected records the error of n at receiver i, and returns "retried" or "failed".
func (d *dispatcher) rejected(i int, n *notification, o *openGroup, err error, log bool, now time.Time) string {
	s, f := &o.sent[i], &d.receivers[i].faults
	s.tried = true
	log = f.add(err, log, now) && log
	retry, ok := errors.AsType[*alerts.RetryError](err)
	if !ok {
		s.rejected = n.news
		s.notBefore = now.Add(d.receivers[i].pace.Every)
		if log {
			d.log.Error("notification failed", "receiver", d.receivers[i].name, "group", o.key, "error", err)
		}
		return "failed"
	}
	if s.backoff == nil {
		s.backoff = newBackoff()
	}
	wait := s.backoff.NextBackOff()
	if retry.After > 0 {
		wait = retry.After
	}
	if log {
		d.log.Warn("notification failed, retrying", "receiver", d.receivers[i].name, "group", o.key, "error", err, "retry_in", wait, "failed", f.attempts)
	}
	if s.attempts++; s.attempts == 1 {
		s.failedAt = now
	}
	s.notBefore = now.Add(wait)
	return "retried"
}

// sends reports whether a notification of the group with this key is on its way to r. A group that was muted meanwhile has
// nothing more to send, but the receiver must learn of that, and of its end, if the notification arrives.
func (r *receiver) sends(key string) bool {
	return slices.ContainsFunc(r.sending, func(n *notification) bool { return n.group.Key == key })
}

// settle closes o once none of its alerts fires, hides another one or may relapse, and every receiver has been sent, or has
// rejected, its latest news and decisions.
func (g *groups) settle(o *openGroup) {
	sent, rejected := true, false
	for i := range o.sent {
		d := &o.sent[i]
		told := o.told(d)
		sent = sent && told
		if !told && d.rejected != o.news && !o.outlived(d, time.Now()) || d.to.sends(o.key) {
			return
		}
		rejected = rejected || !told
	}
	if sent != o.settled {
		o.settled, o.dirty = sent, true
	}
	if !o.firing() && !o.hides && (sent || rejected) && !o.mayRelapse(time.Unix(g.evaluated, 0)) {
		delete(g.open, o.key)
	}
}
