package slack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
)

// A record is the state of a group's messages: one, and one more for each channel to which a later state was routed. The
// fields of the first are those of the record, as they were when there was only one.
type record struct {
	notice
	NoticeID  string    `json:"notice_id"`
	Further   []*notice `json:"further,omitempty"` // bounded by the channels of the configuration
	UpdatedAt time.Time `json:"updated_at"`        // stream time of the latest state sent
}

// notices returns the messages of r.
func (r *record) notices() []*notice { return append([]*notice{&r.notice}, r.Further...) }

// at returns the message in a configured channel, or nil.
func (r *record) at(channel string) *notice {
	for _, p := range r.notices() {
		if p.Target == channel {
			return p
		}
	}
	return nil
}

// add adds a message in a configured channel, unless there is one.
func (r *record) add(channel string) {
	if r.at(channel) == nil {
		p := newNotice(channel)
		r.Further = append(r.Further, &p)
	}
}

// move replaces p, which was not posted, by a message in another channel.
func (r *record) move(p *notice, channel string) {
	if r.at(channel) == nil {
		*p = newNotice(channel)
		return
	}
	// The first message has another channel, so p is a further one, or it takes the place of the first.
	if p == &r.notice {
		*p, r.Further = *r.Further[0], r.Further[1:]
		return
	}
	r.Further = slices.DeleteFunc(r.Further, func(x *notice) bool { return x == p })
}

// noticeID returns an id for the incident of g, the same for all its states.
func noticeID(g alerts.Group) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s %d", g.Key, g.Since().UnixNano()))
	return hex.EncodeToString(h[:16])
}

// hasMessage reports whether this incident of g has a message of its own, or may have one.
func (n *Notifier) hasMessage(ctx context.Context, g alerts.Group) bool {
	r, ok := n.records.Load(ctx, g.Key)
	return ok && !g.Since().After(r.UpdatedAt) && slices.ContainsFunc(r.notices(), func(p *notice) bool { return p.TS != "" || !p.IntentAt.IsZero() })
}

// linked returns g with links to the messages of the alerts that hide its alerts.
func (n *Notifier) linked(ctx context.Context, g alerts.Group) alerts.Group {
	g.Alerts = slices.Clone(g.Alerts)
	for i, a := range g.Alerts {
		if a.Inhibitor == nil {
			continue
		}
		if by, ok := n.records.Load(ctx, a.Inhibitor.Group); ok && by.TS != "" {
			x := *a.Inhibitor
			x.URL = n.permalink(ctx, &by.notice)
			g.Alerts[i].Inhibitor = &x
		}
	}
	return g
}

// showAll sends g to all channels of r. If the channel of a route rejects the first message, it is sent to the default
// channel instead, because it must not be lost.
func (n *Notifier) showAll(ctx context.Context, g alerts.Group, r *record, to destination) error {
	first := r.at(to.channel)
	if first != nil && first.TS == "" && to.channel != n.channel {
		err := n.showOne(ctx, g, r, first, to)
		if err != nil && !retryable(err) && !accountCodes[codeOf(err)] {
			if !errors.Is(err, errRejected) { // which is logged once
				n.log.Error("cannot send an alert to the channel of its route; sending it to slack.channel", "channel", to.channel, "group", g.Key, "error", err)
			}
			n.refused[to.channel] = time.Now()
			r.move(first, n.channel)
			to.channel = n.channel
			first = nil
		} else if err != nil {
			return err
		}
	} else {
		first = nil
	}
	var failed []error
	for _, p := range r.notices() {
		if p == first || p.Target != to.channel && p.TS == "" && p.IntentAt.IsZero() { // the group was hidden when it was routed there
			continue
		}
		if err := n.showOne(ctx, g, r, p, to); retryable(err) {
			return err
		} else if err != nil {
			failed = append(failed, err)
		}
	}
	err := errors.Join(failed...)
	if err != nil && len(failed) < len(r.notices()) { // people see the group in another channel
		if !errors.Is(err, errRejected) {
			n.log.Error("cannot update an alert in one of its channels", "group", g.Key, "error", err)
		}
		return nil
	}
	return err
}

// showOne sends g as the message p and remembers what was sent.
func (n *Notifier) showOne(ctx context.Context, g alerts.Group, r *record, p *notice, to destination) error {
	err := n.show(ctx, g, r, p, to)
	if err == nil {
		p.Told = markup.Tell(g, p.Told)
	}
	return err
}

// show posts or edits the message p and replies in its thread.
func (n *Notifier) show(ctx context.Context, g alerts.Group, r *record, p *notice, to destination) error {
	m := render(g, n.access)
	if n.socket != nil {
		m.controls(g, n.groupBy)
	}
	if p.TS == "" {
		if found, err := n.find(ctx, r.NoticeID, p); err != nil {
			return err
		} else if !found && (g.Muted() || g.Missed) {
			return nil // there is no message to edit
		} else if !found {
			return n.postGroup(ctx, g, r, p, m, to)
		}
	}
	gone, err := n.update(ctx, r.NoticeID, p, m)
	if err != nil {
		return err
	}
	if gone && (g.Muted() || g.Missed) {
		return nil
	}
	if gone {
		n.log.Warn("alert message no longer exists in slack; posting a new one", "group", g.Key)
		p.TS, p.IntentAt, p.Sent, p.Permalink = "", time.Time{}, nil, ""
		return n.postGroup(ctx, g, r, p, m, to)
	}
	return n.replyNews(ctx, g, p, to)
}

// postGroup posts the message p, which mentions people in the channel to which g is routed now.
func (n *Notifier) postGroup(ctx context.Context, g alerts.Group, r *record, p *notice, m message, to destination) error {
	var who []string
	if p.Target == to.channel && to.rank > 0 {
		who = to.mention
	}
	err := n.post(ctx, r.NoticeID, p, m, who, func() { n.records.Save(ctx, g.Key, r) })
	if err == nil {
		p.Mentioned = to.rank
	}
	return err
}

// replyNews posts news to the thread; a reminder is also shown in the channel. Only an escalation mentions people again.
func (n *Notifier) replyNews(ctx context.Context, g alerts.Group, p *notice, to destination) error {
	var lines []string
	if p.Sent != nil {
		lines = markup.StatusNews(g, p.Told)
		if !g.Muted() {
			lines = append(lines, markup.News(g, p.Sent)...)
		}
	}
	remind := len(lines) == 0 && g.Repeat && !p.reminded
	if remind {
		lines = markup.Reminder(g)
	}
	if len(lines) == 0 {
		return nil
	}
	var who []string
	escalated := to.rank > max(p.Mentioned, wording.SentRank(p.Sent)) && !g.Muted()
	if escalated && p.Target == to.channel {
		who = to.mention
	}
	if err := n.reply(ctx, p, who, strings.Join(lines, "\n"), remind); err != nil {
		return err
	}
	p.reminded = p.reminded || remind
	if escalated {
		p.Mentioned = to.rank
	}
	return nil
}

// shown returns g as people may see it.
func (n *Notifier) shown(g alerts.Group) alerts.Group {
	return wording.Permitted(g, n.content)
}
