package slack

import (
	"context"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts"
)

const (
	// maxSingle is the number of groups that get messages of their own although they are due at once: Slack accepts about
	// as many in a burst, and a person can read them.
	maxSingle = 5
	// maxWaiting is maxSingle while Slack limits the posts to the channel: each then waits a second or more for every one before it.
	maxWaiting = 3
	// joinFor is the time for which new groups join a summary. An edit notifies nobody, so a group that fires much later is
	// a new message, or part of a new summary.
	joinFor = 10 * time.Minute
	// criticalRank is the destination.rank of an alert that pages: of severity critical or page.
	criticalRank = 4
)

// A plan is what one call of fold does in one channel.
type plan struct {
	critical, others []int              // groups without a message, by index
	escalated        []int              // members of summaries that have become critical
	changed          map[*summary][]int // other members
}

// fold sends a summary if more than maxSingle groups are new in a channel, or more than maxWaiting while Slack limits the posts to
// it. A few critical groups get messages of their own nevertheless, and before the summary: they page, and each needs its own
// evidence, buttons and thread. While a summary is new, all groups join it, so that a storm that arrives in parts is one message.
func (n *Notifier) fold(ctx context.Context, groups []alerts.Group) []error {
	if err := n.summaries.load(ctx); err != nil {
		return slices.Repeat([]error{err}, len(groups))
	}
	results := make([]error, len(groups))
	to := make([]destination, len(groups))
	folds := map[string]*plan{}
	channel := func(name string) *plan {
		if folds[name] == nil {
			folds[name] = &plan{changed: map[*summary][]int{}}
		}
		return folds[name]
	}
	for i, g := range groups {
		to[i] = n.route(g)
		if s, m := n.summaries.of(g); m != nil {
			f := channel(s.Target)
			if becomesCritical(g, m, to[i]) {
				f.escalated = append(f.escalated, i)
			} else {
				f.changed[s] = append(f.changed[s], i)
			}
		} else if g.Missed || n.hasMessage(ctx, g) {
			results[i] = alerts.ErrNotFolded
		} else if f := channel(to[i].channel); to[i].rank == criticalRank {
			f.critical = append(f.critical, i)
		} else {
			f.others = append(f.others, i)
		}
	}
	first := false // critical groups get messages of their own
	for name, f := range folds {
		first = n.single(name, f, results) || first
	}
	for name, f := range folds {
		n.join(ctx, name, f, groups, results, to, first)
	}
	return results
}

// single sets ErrNotFolded for the groups that get messages of their own, and reports whether critical ones are among them.
func (n *Notifier) single(channel string, f *plan, results []error) (critical bool) {
	alone := func(list []int) {
		for _, i := range list {
			results[i] = alerts.ErrNotFolded
		}
	}
	into, most := n.joinable(channel), maxSingle
	if n.echoes(channel) {
		most = maxWaiting
	}
	waiting := len(f.critical) + len(f.others)
	if len(f.critical)+len(f.escalated) <= most {
		alone(f.escalated)
		critical = len(f.escalated) > 0
		f.escalated = nil
		if into == nil || into.Rank < criticalRank {
			alone(f.critical)
			critical = critical || len(f.critical) > 0
			f.critical = nil
		}
	}
	if into == nil && len(f.critical) == 0 && (waiting <= most || len(f.others) == 1) {
		alone(f.others)
		f.others = nil
	}
	return critical
}

// join sends the summaries of a channel. If later is set, it only sets ErrFoldLater.
func (n *Notifier) join(ctx context.Context, channel string, f *plan, groups []alerts.Group, results []error, to []destination, later bool) {
	fresh := append(f.critical, f.others...)
	for _, i := range f.escalated {
		s, _ := n.summaries.of(groups[i])
		f.changed[s] = append(f.changed[s], i)
	}
	for !later && len(fresh) > 0 {
		s := n.joinable(channel)
		if s == nil {
			s = n.summaries.open(groups[fresh[0]], channel)
		}
		k := min(len(fresh), maxMembers-len(s.Members))
		f.changed[s] = append(f.changed[s], fresh[:k]...)
		for _, i := range fresh[:k] {
			s.put(n.shown(groups[i]))
		}
		fresh = fresh[k:]
	}
	for _, i := range fresh {
		results[i] = alerts.ErrFoldLater
	}
	for s, list := range f.changed {
		err := error(alerts.ErrFoldLater)
		if !later {
			if err = n.down; err == nil {
				err = n.sendSummary(ctx, s, groups, list, to)
			}
		}
		for _, i := range list {
			results[i] = err
		}
	}
}

// becomesCritical reports whether g, of which m is the state in a summary, needs a message of its own.
func becomesCritical(g alerts.Group, m *member, to destination) bool {
	return to.rank == criticalRank && m.Rank < criticalRank && !g.Muted()
}

// joinable returns the summary of a channel that new groups join, or nil.
func (n *Notifier) joinable(channel string) *summary {
	for _, s := range n.summaries.slots {
		if s != nil && s.Target == channel && !s.Over && time.Since(s.Began) < joinFor && len(s.Members) < maxMembers {
			return s
		}
	}
	return nil
}

// notifySummary updates the summary that g is part of. It returns false without an error if g needs a message of its own, for example
// because it has become critical.
func (n *Notifier) notifySummary(ctx context.Context, g alerts.Group, to destination) (bool, error) {
	if err := n.summaries.load(ctx); err != nil {
		return true, err
	}
	s, m := n.summaries.of(g)
	switch {
	case m == nil:
		return false, nil
	case becomesCritical(g, m, to):
		s.drop(m.Group)
		s.Moved++
		n.summaries.save(ctx, s)
		return false, nil
	}
	return true, n.sendSummary(ctx, s, []alerts.Group{g}, []int{0}, []destination{to})
}
