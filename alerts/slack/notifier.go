package slack

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/records"
	"github.com/llmtap/llmtap/alerts/wording"
)

const (
	// eventType marks the metadata of llmtap's messages.
	eventType = "llmtap_alert"
	// clockSkew is the assumed clock difference to Slack: the search for a message in doubt starts this long before its
	// intent.
	clockSkew = 2 * time.Minute
	// refusedFor is the time for which the default channel replaces a channel that rejected a message.
	refusedFor = 10 * time.Minute
	// unfoldFor is the time for which messages are sent without containers after Slack has rejected one with them.
	unfoldFor = time.Hour
	// rejectedFor is the time after which a channel that rejected a message is tried again, with one message. Until then, its
	// messages are not sent.
	rejectedFor = time.Minute
	// maxHistoryPages bounds the search for a message in doubt.
	maxHistoryPages = 5
	historyPage     = 200
)

// A Notifier sends alert groups to Slack channels. It is safe for concurrent use; calls are serialized.
type Notifier struct {
	channel  string // of groups that no route matches
	routes   []route
	mentions map[string][]string // by severity
	access   alerts.Access
	groupBy  []string
	allowed  []string // Config.Allowed
	content  bool     // Config.Content
	appToken bool     // an app-level token is configured
	socket   *socket  // nil: messages have no buttons
	api      *slack.Client
	log      *slog.Logger
	// limitedFor counts the seconds of rate limits.
	limitedFor prometheus.Counter

	turn      chan struct{} // of 1; holds a value during a call of Notify or Fold, which has the rest for itself
	records   *records.Set[*record]
	summaries summaries
	limited   map[string]time.Time // end of the rate limit, by limitKey
	// unfoldUntil is the time until which messages have no containers, because Slack has rejected one.
	unfoldUntil time.Time
	rejected    map[string]rejection // last rejection of a message, by configured channel
	ids         map[string]string    // ids of channels, by configured channel; known after the first message
	handles     handles
	down        error                // of the current call: Slack accepts nothing at present, so its other messages are not tried
	refused     map[string]time.Time // last time at which the channel of a route rejected a message
}

var _ alerts.Paced = (*Notifier)(nil)

// Pace implements alerts.Paced. Slack accepts about 50 edits per minute across all messages, and some of them are
// needed for news.
func (n *Notifier) Pace() alerts.Pace { return alerts.Pace{Numbers: 1500 * time.Millisecond} }

// A record is the state of a group's messages: one, and one more for each channel to which a later state was routed. The
// fields of the first are those of the record, as they were when there was only one.
type record struct {
	notice
	NoticeID  string    `json:"notice_id"`
	Further   []*notice `json:"further,omitempty"` // bounded by the channels of the configuration
	UpdatedAt time.Time `json:"updated_at"`        // stream time of the latest state sent
}

// A notice is one message of a group.
type notice struct {
	Target    string               `json:"target,omitempty"` // configured channel
	Channel   string               `json:"channel"`          // configured channel, then the id returned by Slack
	TS        string               `json:"ts"`               // timestamp of the message; empty if not posted or in doubt
	IntentAt  time.Time            `json:"intent"`           // wall time before the first post with an unknown outcome; zero if there is none
	Sent      map[string]sentState `json:"sent"`             // last states sent, by series
	Acked     string               `json:"acked"`            // ackID that was last sent
	Mentioned int                  `json:"mentioned"`        // highest destination.rank that was sent
	Permalink string               `json:"permalink,omitempty"`

	reminded bool // by a call of Notify that is being retried
}

func newNotice(channel string) notice { return notice{Target: channel, Channel: channel} }

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

// route returns the destination of g, with the default channel instead of one that rejects messages.
func (n *Notifier) route(g alerts.Group) destination {
	to := n.destination(g)
	if time.Since(n.refused[to.channel]) < refusedFor {
		to.channel = n.channel
	}
	return to
}

// Notify posts the first state of g and edits the message for later states. It also posts news to the thread. If a later
// state is routed to another channel, it is posted there, too; all messages of the group are then kept up to date.
func (n *Notifier) Notify(ctx context.Context, g alerts.Group) error {
	if err := n.await(ctx); err != nil {
		return err
	}
	defer n.done()
	return n.later(n.notify(ctx, g))
}

// await waits until no other call is in progress. done ends the call.
func (n *Notifier) await(ctx context.Context) error {
	select {
	case n.turn <- struct{}{}:
		n.down = nil
		return nil
	case <-ctx.Done():
		return &alerts.RetryError{Err: fmt.Errorf("wait for the previous notification: %w", ctx.Err())}
	}
}

func (n *Notifier) done() { <-n.turn }

func (n *Notifier) notify(ctx context.Context, g alerts.Group) error {
	to := n.route(g)
	if done, err := n.notifySummary(ctx, g, to); done {
		return err
	}
	r, ok := n.records.Load(ctx, g.Key)
	if !ok || g.Since().After(r.UpdatedAt) { // no message, or the message of an earlier incident
		r = &record{NoticeID: noticeID(g), notice: newNotice(to.channel), UpdatedAt: g.Updated()}
		n.records.Keep(g.Key, r)
	}
	r.Target = cmp.Or(r.Target, n.channel) // of an earlier version
	if g.Firing() && !g.Muted() {
		r.add(to.channel)
	} else if r.at(to.channel) == nil {
		to.channel = r.Target
	}
	g = n.shown(n.linked(ctx, g))
	err := n.showAll(ctx, g, r, to)
	if err != nil {
		if len(r.Further) > 0 {
			n.records.Save(ctx, g.Key, r)
		}
		return err
	}
	for _, p := range r.notices() {
		p.reminded = false
	}
	r.UpdatedAt = g.Updated()
	n.records.Save(ctx, g.Key, r)
	return nil
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

func retryable(err error) bool {
	_, ok := errors.AsType[*alerts.RetryError](err)
	return ok
}

// showOne sends g as the message p and remembers what was sent.
func (n *Notifier) showOne(ctx context.Context, g alerts.Group, r *record, p *notice, to destination) error {
	err := n.show(ctx, g, r, p, to)
	if err == nil {
		p.Sent, p.Acked = sentStates(g, p.Sent), ackID(g)
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
		if found, err := n.find(ctx, r, p); err != nil {
			return err
		} else if !found && (g.Muted() || g.Missed) {
			return nil // there is no message to edit
		} else if !found {
			return n.post(ctx, g, r, p, m, to)
		}
	}
	gone, err := n.update(ctx, r, p, m)
	if err != nil {
		return err
	}
	if gone && (g.Muted() || g.Missed) {
		return nil
	}
	if gone {
		n.log.Warn("alert message no longer exists in slack; posting a new one", "group", g.Key)
		p.TS, p.IntentAt, p.Sent, p.Permalink = "", time.Time{}, nil, ""
		return n.post(ctx, g, r, p, m, to)
	}
	return n.reply(ctx, g, p, to)
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

// permalink returns the link to the message p, or "" if Slack does not return it.
func (n *Notifier) permalink(ctx context.Context, p *notice) string {
	if p.Permalink == "" {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		link, err := n.api.GetPermalinkContext(ctx, &slack.PermalinkParameters{Channel: p.Channel, Ts: p.TS})
		if err != nil {
			n.log.Debug("cannot read the link of an alert message", "error", err)
		}
		p.Permalink = link
	}
	return p.Permalink
}

// noticeID returns an id for the incident of g, the same for all its states.
func noticeID(g alerts.Group) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s %d", g.Key, g.Since().UnixNano()))
	return hex.EncodeToString(h[:16])
}

// send posts or edits the message. If Slack rejects its blocks, it sends them without
// containers, and then only the text.
func (n *Notifier) send(ctx context.Context, method string, r *record, p *notice, m message, how slack.MsgOption) (channel, ts string, out outcome) {
	options := []slack.MsgOption{
		how,
		slack.MsgOptionText(m.text, false),
		slack.MsgOptionDisableLinkUnfurl(),
		slack.MsgOptionDisableMediaUnfurl(),
		slack.MsgOptionMetadata(slack.SlackMetadata{EventType: eventType, EventPayload: map[string]any{"notice_id": r.NoticeID}}),
	}
	if err := n.checkLimit(method, p); err != nil {
		return "", "", outcome{err: err}
	}
	forms := [][]slack.Block{m.all(), m.unfolded(), nil}
	if time.Now().Before(n.unfoldUntil) {
		forms = forms[1:]
	}
	for i, blocks := range forms {
		var err error
		channel, ts, _, err = n.api.SendMessageContext(ctx, p.Channel, append(options, slack.MsgOptionBlocks(blocks...))...)
		if err == nil && ts == "" {
			err = errNoTimestamp
		}
		if err == nil {
			n.ids[p.Target] = channel
			if i == 1 && blocks != nil { // otherwise every message would need two calls of the rate limit
				n.unfoldUntil = time.Now().Add(unfoldFor)
			}
			return channel, ts, outcome{}
		}
		if out = n.failed(method, p, err); out.code != "invalid_blocks" && out.code != "invalid_blocks_format" && out.code != "msg_blocks_too_long" {
			break
		}
		n.log.Error("slack rejects the blocks of an alert; sending simpler ones", "error", out.err)
	}
	return "", "", out
}

// post sends the first message. The intent is stored first and removed once the outcome is known.
func (n *Notifier) post(ctx context.Context, g alerts.Group, r *record, p *notice, m message, to destination) error {
	if err := n.checkLimit("chat.postMessage", p); err != nil {
		return err
	}
	if p.IntentAt.IsZero() {
		p.IntentAt = time.Now().UTC()
	}
	n.records.Save(ctx, g.Key, r)
	if p.Target == to.channel && to.rank > 0 {
		m.addMention(n.mention(ctx, to.mention))
	}
	channel, ts, out := n.send(ctx, "chat.postMessage", r, p, m, slack.MsgOptionPost())
	if out.err != nil {
		if !out.doubt {
			p.IntentAt = time.Time{}
			n.records.Save(ctx, g.Key, r)
		}
		return out.err
	}
	p.Channel, p.TS, p.IntentAt, p.Mentioned = channel, ts, time.Time{}, to.rank
	return nil
}

// find searches the channel of p for its message if it is unknown whether the message was posted. If the app may not
// read the channel, find returns false and the message is posted again: a duplicate is better than a missing message.
func (n *Notifier) find(ctx context.Context, r *record, p *notice) (bool, error) {
	if p.IntentAt.IsZero() {
		return false, nil
	}
	const method = "conversations.history"
	query := &slack.GetConversationHistoryParameters{
		ChannelID: cmp.Or(n.ids[p.Target], p.Channel), IncludeAllMetadata: true, Inclusive: true, Limit: historyPage,
		Oldest: fmt.Sprintf("%d.000000", p.IntentAt.Add(-clockSkew).Unix()),
	}
	for range maxHistoryPages {
		if err := n.checkLimit(method, p); err != nil {
			return false, err
		}
		h, err := n.api.GetConversationHistoryContext(ctx, query)
		if err != nil {
			out := n.failed(method, p, err)
			if out.code == "" || out.doubt || accountCodes[out.code] { // not about permissions
				return false, out.err
			}
			n.log.Warn("cannot search for an alert message in doubt; posting it again", "error", out.err)
			return false, nil
		}
		for _, msg := range h.Messages {
			if msg.Metadata.EventType == eventType && msg.Metadata.EventPayload["notice_id"] == r.NoticeID {
				p.Channel, p.TS, p.IntentAt = query.ChannelID, msg.Timestamp, time.Time{}
				return true, nil
			}
		}
		if query.Cursor = h.ResponseMetaData.NextCursor; !h.HasMore || query.Cursor == "" {
			return false, nil
		}
	}
	n.log.Warn("too many messages since an alert message in doubt; posting it again", "searched", maxHistoryPages*historyPage)
	return false, nil
}

// update edits the message. gone reports that the message no longer exists or can no longer be edited.
func (n *Notifier) update(ctx context.Context, r *record, p *notice, m message) (gone bool, err error) {
	_, _, out := n.send(ctx, "chat.update", r, p, m, slack.MsgOptionUpdate(p.TS))
	switch out.code {
	case "message_not_found", "cant_update_message", "edit_window_closed":
		return true, nil
	}
	return false, out.err
}

// reply posts news to the thread; a reminder is also shown in the channel. Only an escalation mentions people again.
func (n *Notifier) reply(ctx context.Context, g alerts.Group, p *notice, to destination) error {
	var lines []string
	if p.Sent != nil {
		lines = statusNews(g, p)
		if !g.Muted() {
			lines = append(lines, news(g, p.Sent)...)
		}
	}
	options := []slack.MsgOption{slack.MsgOptionTS(p.TS), slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl()}
	remind := len(lines) == 0 && g.Repeat && !p.reminded
	if remind {
		lines = reminder(g)
		options = append(options, slack.MsgOptionBroadcast())
	}
	if len(lines) == 0 {
		return nil
	}
	if err := n.checkLimit("chat.postMessage", p); err != nil {
		return err
	}
	escalated := to.rank > max(p.Mentioned, sentRank(p.Sent)) && !g.Muted()
	if escalated && p.Target == to.channel {
		if who := n.mention(ctx, to.mention); who != "" {
			lines[0] = who + " " + lines[0]
		}
	}
	text := slack.MsgOptionText(wording.Truncate(strings.Join(lines, "\n"), maxSection), false)
	if _, _, err := n.api.PostMessageContext(ctx, p.Channel, append(options, text)...); err != nil {
		return n.failed("chat.postMessage", p, fmt.Errorf("in thread: %w", err)).err
	}
	p.reminded = p.reminded || remind
	if escalated {
		p.Mentioned = to.rank
	}
	return nil
}

// sentRank returns the highest destination.rank of states. A record of an earlier version has nothing else.
func sentRank(states map[string]sentState) (rank int) {
	for _, s := range states {
		a := alerts.Alert{Labels: map[string]string{"severity": s.Severity}}
		rank = max(rank, a.Rank()+1)
	}
	return rank
}
