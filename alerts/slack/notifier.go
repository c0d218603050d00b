package slack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
)

const (
	// eventType marks the metadata of llmtap's messages.
	eventType = "llmtap_alert"
	// clockSkew is the assumed clock difference to Slack: the search for a message in doubt starts this long before its
	// intent.
	clockSkew = 2 * time.Minute
)

// A Notifier sends alert groups to one Slack channel. It is safe for concurrent use; calls are serialized.
type Notifier struct {
	channel  string
	access   alerts.Access
	groupBy  []string
	allowed  []string // Config.Allowed
	appToken bool     // an app-level token is configured
	socket   *socket  // nil: messages have no buttons
	api      *slack.Client
	log      *slog.Logger

	mu      sync.Mutex // guards the rest, and serializes calls
	records *alerts.Records[*record]
	limited map[string]time.Time // end of the rate limit, by method
}

var _ alerts.Paced = (*Notifier)(nil)

// Pace implements alerts.Paced. Slack accepts about 50 edits per minute across all messages, and some of them are
// needed for news.
func (n *Notifier) Pace() alerts.Pace { return alerts.Pace{Numbers: 1500 * time.Millisecond} }

// A record is the state of a group's message.
type record struct {
	NoticeID  string               `json:"notice_id"`
	Channel   string               `json:"channel"`    // configured channel, then the id returned by Slack
	TS        string               `json:"ts"`         // timestamp of the message; empty if not posted or in doubt
	IntentAt  time.Time            `json:"intent"`     // wall time before the first post with an unknown outcome; zero if there is none
	Sent      map[string]sentState `json:"sent"`       // last states sent, by series
	Acked     string               `json:"acked"`      // ackID that was last sent
	UpdatedAt time.Time            `json:"updated_at"` // stream time of the latest state sent
}

// Notify posts the first state of g and edits the message for later states. It also posts news to the thread.
func (n *Notifier) Notify(ctx context.Context, g alerts.Group) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, ok := n.records.Load(ctx, g.Key)
	if !ok || g.Since().After(r.UpdatedAt) { // no message, or the message of an earlier incident
		r = &record{NoticeID: noticeID(g), Channel: n.channel, UpdatedAt: g.Updated()}
		n.records.Keep(g.Key, r)
	}
	if err := n.show(ctx, g, r); err != nil {
		return err
	}
	r.Sent, r.Acked, r.UpdatedAt = sentStates(g, r.Sent), ackID(g), g.Updated()
	n.records.Save(ctx, g.Key, r)
	return nil
}

// show posts or edits the message and replies in its thread.
func (n *Notifier) show(ctx context.Context, g alerts.Group, r *record) error {
	m := render(g, n.access)
	if n.socket != nil {
		m.controls(g, n.groupBy)
	}
	if r.TS == "" {
		if found, err := n.find(ctx, r); err != nil {
			return err
		} else if !found && g.Muted() {
			return nil // there is no message to edit
		} else if !found {
			return n.post(ctx, g, r, m)
		}
	}
	gone, err := n.update(ctx, r, m)
	if err != nil {
		return err
	}
	if gone && g.Muted() {
		return nil
	}
	if gone {
		n.log.Warn("alert message no longer exists in slack; posting a new one", "group", g.Key)
		r.TS, r.IntentAt, r.Sent = "", time.Time{}, nil
		return n.post(ctx, g, r, m)
	}
	return n.reply(ctx, g, r)
}

// noticeID returns an id for the incident of g, the same for all its states.
func noticeID(g alerts.Group) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s %d", g.Key, g.Since().UnixNano()))
	return hex.EncodeToString(h[:16])
}

// send posts or edits the message. If Slack rejects its blocks, it sends only the text.
func (n *Notifier) send(ctx context.Context, method string, r *record, m message, how slack.MsgOption) (channel, ts string, out outcome) {
	options := []slack.MsgOption{
		how,
		slack.MsgOptionText(m.text, false),
		slack.MsgOptionDisableLinkUnfurl(),
		slack.MsgOptionDisableMediaUnfurl(),
		slack.MsgOptionMetadata(slack.SlackMetadata{EventType: eventType, EventPayload: map[string]any{"notice_id": r.NoticeID}}),
	}
	if err := n.checkLimit(method); err != nil {
		return "", "", outcome{err: err}
	}
	for _, blocks := range [][]slack.Block{m.blocks, nil} {
		var err error
		channel, ts, _, err = n.api.SendMessageContext(ctx, r.Channel, append(options, slack.MsgOptionBlocks(blocks...))...)
		if err == nil && ts == "" {
			err = errNoTimestamp
		}
		if err == nil {
			return channel, ts, outcome{}
		}
		if out = n.failed(method, err); out.code != "invalid_blocks" && out.code != "invalid_blocks_format" && out.code != "msg_blocks_too_long" {
			break
		}
		n.log.Error("slack rejects the blocks of an alert; sending only the text", "error", out.err)
	}
	return "", "", out
}

// checkLimit returns an error while method is rate-limited, because a call would prolong the limit.
func (n *Notifier) checkLimit(method string) error {
	if wait := time.Until(n.limited[method]); wait > 0 {
		return &alerts.RetryError{After: wait, Err: fmt.Errorf("%s: %w", method, errLimited)}
	}
	return nil
}

// failed classifies err and records a rate limit of method.
func (n *Notifier) failed(method string, err error) outcome {
	if limited, ok := errors.AsType[*slack.RateLimitedError](err); ok {
		n.limited[method] = time.Now().Add(limited.RetryAfter)
	}
	return classify(method, err)
}

// post sends the first message. The intent is stored first and removed once the outcome is known.
func (n *Notifier) post(ctx context.Context, g alerts.Group, r *record, m message) error {
	if err := n.checkLimit("chat.postMessage"); err != nil {
		return err
	}
	if r.IntentAt.IsZero() {
		r.IntentAt = time.Now().UTC()
	}
	n.records.Save(ctx, g.Key, r)
	channel, ts, out := n.send(ctx, "chat.postMessage", r, m, slack.MsgOptionPost())
	if out.err != nil {
		if !out.doubt {
			r.IntentAt = time.Time{}
			n.records.Save(ctx, g.Key, r)
		}
		return out.err
	}
	r.Channel, r.TS, r.IntentAt = channel, ts, time.Time{}
	return nil
}

// find searches the channel for the message of r if it is unknown whether the message was posted. If the app may not
// read the channel, find returns false and the message is posted again: a duplicate is better than a missing message.
func (n *Notifier) find(ctx context.Context, r *record) (bool, error) {
	if r.IntentAt.IsZero() {
		return false, nil
	}
	h, err := n.api.GetConversationHistoryContext(ctx, &slack.GetConversationHistoryParameters{
		ChannelID: r.Channel, IncludeAllMetadata: true, Inclusive: true, Limit: 200,
		Oldest: fmt.Sprintf("%d.000000", r.IntentAt.Add(-clockSkew).Unix()),
	})
	if err != nil {
		out := n.failed("conversations.history", err)
		if out.code == "" || out.doubt { // not about permissions
			return false, out.err
		}
		n.log.Warn("cannot search for an alert message in doubt; posting it again", "error", out.err)
		return false, nil
	}
	for _, msg := range h.Messages {
		if msg.Metadata.EventType == eventType && msg.Metadata.EventPayload["notice_id"] == r.NoticeID {
			r.TS, r.IntentAt = msg.Timestamp, time.Time{}
			return true, nil
		}
	}
	return false, nil
}

// update edits the message. gone reports that the message no longer exists or can no longer be edited.
func (n *Notifier) update(ctx context.Context, r *record, m message) (gone bool, err error) {
	_, _, out := n.send(ctx, "chat.update", r, m, slack.MsgOptionUpdate(r.TS))
	switch out.code {
	case "message_not_found", "cant_update_message", "edit_window_closed":
		return true, nil
	}
	return false, out.err
}

// reply posts news to the thread; a reminder is also shown in the channel.
func (n *Notifier) reply(ctx context.Context, g alerts.Group, r *record) error {
	var lines []string
	if r.Sent != nil {
		lines = statusNews(g, r)
		if !g.Muted() {
			lines = append(lines, news(g, r.Sent)...)
		}
	}
	options := []slack.MsgOption{slack.MsgOptionTS(r.TS), slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl()}
	if len(lines) == 0 && g.Repeat {
		lines = reminder(g)
		options = append(options, slack.MsgOptionBroadcast())
	}
	if len(lines) == 0 {
		return nil
	}
	if err := n.checkLimit("chat.postMessage"); err != nil {
		return err
	}
	text := slack.MsgOptionText(alerts.Truncate(strings.Join(lines, "\n"), maxSection), false)
	if _, _, err := n.api.PostMessageContext(ctx, r.Channel, append(options, text)...); err != nil {
		return n.failed("chat.postMessage", fmt.Errorf("in thread: %w", err)).err
	}
	return nil
}
