package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
)

const (
	// maxSingle is the number of groups that get messages of their own although they are due at once: Slack accepts about
	// as many in a burst, and a person can read them.
	maxSingle = 5
	// maxWaiting is maxSingle while Slack limits the posts to the channel: each then waits a second or more for every one before it.
	maxWaiting = 3
	// limitEcho is the time after the end of a rate limit for which the next posts are expected to be limited, too.
	limitEcho = 10 * time.Second
	// joinFor is the time for which new groups join a summary. An edit notifies nobody, so a group that fires much later is
	// a new message, or part of a new summary.
	joinFor = 10 * time.Minute
	// maxMentions bounds the mentions in one message.
	maxMentions = 10
	// criticalRank is the destination.rank of an alert that pages: of severity critical or page.
	criticalRank = 4
)

var _ alerts.Folder = (*Notifier)(nil)

// A fold is what one call of Fold does in one channel.
type fold struct {
	critical, others []int              // groups without a message, by index
	escalated        []int              // members of summaries that have become critical
	changed          map[*summary][]int // other members
}

// Fold implements alerts.Folder. If more than maxSingle groups are new in a channel, or more than maxWaiting while Slack limits the
// posts to it, it sends a summary. A few critical groups get messages of their own nevertheless, and before the summary: they page,
// and each needs its own evidence, buttons and thread. While a summary is new, all groups join it, so that a storm that arrives
// in parts is one message.
func (n *Notifier) Fold(ctx context.Context, groups []alerts.Group) []error {
	results := make([]error, len(groups))
	failed := func(err error) []error {
		for i := range results {
			results[i] = err
		}
		return results
	}
	if err := n.await(ctx); err != nil {
		return failed(err)
	}
	defer n.done()
	if err := n.summaries.load(ctx); err != nil {
		return failed(err)
	}
	to := make([]destination, len(groups))
	folds := map[string]*fold{}
	channel := func(name string) *fold {
		if folds[name] == nil {
			folds[name] = &fold{changed: map[*summary][]int{}}
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
func (n *Notifier) single(channel string, f *fold, results []error) (critical bool) {
	alone := func(list []int) {
		for _, i := range list {
			results[i] = alerts.ErrNotFolded
		}
	}
	into, most := n.joinable(channel), maxSingle
	if time.Since(n.limited[n.limitKey("chat.postMessage", &notice{Target: channel})]) < limitEcho {
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
func (n *Notifier) join(ctx context.Context, channel string, f *fold, groups []alerts.Group, results []error, to []destination, later bool) {
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

// hasMessage reports whether this incident of g has a message of its own, or may have one.
func (n *Notifier) hasMessage(ctx context.Context, g alerts.Group) bool {
	r, ok := n.records.Load(ctx, g.Key)
	return ok && !g.Since().After(r.UpdatedAt) && slices.ContainsFunc(r.notices(), func(p *notice) bool { return p.TS != "" || !p.IntentAt.IsZero() })
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

// shown returns g as people may see it.
func (n *Notifier) shown(g alerts.Group) alerts.Group {
	return permitted(g, n.content)
}

// sendSummary posts or edits s after a change of the groups in list, which it adds.
func (n *Notifier) sendSummary(ctx context.Context, s *summary, groups []alerts.Group, list []int, to []destination) error {
	remind, missed, rank := false, true, s.Rank
	for _, i := range list {
		s.put(n.shown(groups[i]))
		missed = missed && groups[i].Missed
		remind = remind || groups[i].Repeat
		if !groups[i].Muted() {
			rank = max(rank, to[i].rank)
		}
	}
	missed = missed && s.firing() == 0
	var who []string
	for _, i := range list {
		if to[i].rank == rank && !groups[i].Muted() {
			for _, m := range to[i].mention {
				if (rank > s.Rank || !slices.Contains(s.Who, m)) && !slices.Contains(who, m) {
					who = append(who, m)
				}
			}
		}
	}
	err := n.showSummary(ctx, s, who, rank, remind, missed)
	if err != nil && !retryable(err) && !accountCodes[codeOf(err)] && s.TS == "" && s.Target != n.channel {
		if !errors.Is(err, errRejected) { // which is logged once
			n.log.Error("cannot send a summary of alerts to the channel of their route; sending it to slack.channel", "channel", s.Target, "error", err)
		}
		n.refused[s.Target] = time.Now()
		n.summaries.close(ctx, s)
		return &alerts.RetryError{Err: err} // the groups are new again
	}
	return n.later(err)
}

// showSummary posts or edits s and replies in its thread. who must be mentioned, and rank is the highest
// destination.rank. missed is set if all groups ended before people could be notified.
func (n *Notifier) showSummary(ctx context.Context, s *summary, who []string, rank int, remind, missed bool) error {
	m := s.render(n.access)
	mention := who
	if s.TS == "" {
		found, err := n.find(ctx, &s.record, &s.notice)
		if err != nil {
			return err
		}
		switch {
		case found:
			s.Rank, mention = rank, nil // the message mentions them
		case missed:
			n.summaries.close(ctx, s)
			return nil
		}
	}
	if s.TS != "" {
		gone, err := n.update(ctx, &s.record, &s.notice, m)
		if err != nil {
			return err
		}
		if gone {
			n.log.Warn("summary of alerts no longer exists in slack; posting a new one")
			s.TS = ""
		}
	}
	var err error
	if s.TS == "" {
		err = n.postSummary(ctx, s, m, mention)
	} else {
		err = n.replySummary(ctx, s, mention, rank, remind)
	}
	if err == nil {
		s.Rank, s.Who, s.Over = rank, append(s.Who, who...), s.firing() == 0
	}
	n.summaries.save(ctx, s)
	return err
}

// postSummary posts s. As in post, the intent is stored first.
func (n *Notifier) postSummary(ctx context.Context, s *summary, m message, who []string) error {
	if err := n.checkLimit("chat.postMessage", &s.notice); err != nil {
		return err
	}
	if s.IntentAt.IsZero() {
		s.IntentAt = time.Now().UTC()
	}
	n.summaries.save(ctx, s)
	if len(who) > 0 {
		m.addMention(n.mention(ctx, who[:min(len(who), maxMentions)]))
	}
	channel, ts, out := n.send(ctx, "chat.postMessage", &s.record, &s.notice, m, slack.MsgOptionPost())
	if out.err != nil {
		if !out.doubt {
			s.IntentAt = time.Time{}
		}
		return out.err
	}
	s.Channel, s.TS, s.IntentAt = channel, ts, time.Time{}
	return nil
}

// replySummary posts news of s to its thread: the end of all its groups, a higher severity, or a reminder.
func (n *Notifier) replySummary(ctx context.Context, s *summary, who []string, rank int, remind bool) error {
	firing, all := s.firing(), wording.Number(uint64(len(s.Members)))
	options := []slack.MsgOption{slack.MsgOptionTS(s.TS), slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl()}
	line := ""
	switch {
	case firing == 0 && !s.Over:
		line = fmt.Sprintf(":large_green_circle: Resolved after %s: all %s alerts", duration(s.UpdatedAt.Sub(s.Since)), all)
	case firing > 0 && s.Over:
		line = fmt.Sprintf(":bell: Firing again: %s of %s alerts", wording.Number(uint64(firing)), all)
	case rank > s.Rank && rank == criticalRank:
		critical := s.count(func(m *member) bool { return m.Firing && m.Rank == criticalRank })
		line = fmt.Sprintf(":red_circle: Now %s critical", wording.Number(uint64(critical)))
	case len(who) > 0:
		line = fmt.Sprintf(":bell: Now %s alerts are firing", wording.Number(uint64(firing)))
	case remind && firing > 0:
		line = fmt.Sprintf(":bell: Still firing after %s: %s of %s alerts", duration(s.UpdatedAt.Sub(s.Since)), wording.Number(uint64(firing)), all)
		options = append(options, slack.MsgOptionBroadcast())
	default:
		return nil
	}
	if err := n.checkLimit("chat.postMessage", &s.notice); err != nil {
		return err
	}
	if len(who) > 0 {
		line = n.mention(ctx, who[:min(len(who), maxMentions)]) + " " + line
	}
	if _, _, err := n.api.PostMessageContext(ctx, s.Channel, append(options, slack.MsgOptionText(line, false))...); err != nil {
		return n.failed("chat.postMessage", &s.notice, fmt.Errorf("in thread: %w", err)).err
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
