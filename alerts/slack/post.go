package slack

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts/wording"
)

const (
	// eventType marks the metadata of llmtap's messages.
	eventType = "llmtap_alert"
	// clockSkew is the assumed clock difference to Slack: the search for a message in doubt starts this long before its
	// intent.
	clockSkew = 2 * time.Minute
	// unfoldFor is the time for which messages are sent without containers after Slack has rejected one with them.
	unfoldFor = time.Hour
	// maxHistoryPages bounds the search for a message in doubt.
	maxHistoryPages = 5
	historyPage     = 200
)

// A poster posts, edits and finds messages, within the limits of Slack.
type poster struct {
	limits
	api *slack.Client
	log *slog.Logger
	// unfoldUntil is the time until which messages have no containers, because Slack has rejected one.
	unfoldUntil time.Time
	handles     handles
}

// A notice is one message of a group.
type notice struct {
	Target   string    `json:"target,omitempty"` // configured channel
	Channel  string    `json:"channel"`          // configured channel, then the id returned by Slack
	TS       string    `json:"ts"`               // timestamp of the message; empty if not posted or in doubt
	IntentAt time.Time `json:"intent"`           // wall time before the first post with an unknown outcome; zero if there is none
	wording.Told
	Mentioned int    `json:"mentioned"` // highest destination.rank that was sent
	Permalink string `json:"permalink,omitempty"`

	reminded bool // by a call of Notify that is being retried
}

func newNotice(channel string) notice { return notice{Target: channel, Channel: channel} }

// post sends the first message and mentions who. The intent is saved first and removed once the outcome is known.
func (s *poster) post(ctx context.Context, id string, p *notice, m message, who []string, save func()) error {
	const method = "chat.postMessage"
	if err := s.check(method, p.Target); err != nil {
		return err
	}
	if p.IntentAt.IsZero() {
		p.IntentAt = time.Now().UTC()
	}
	save()
	m.addMention(s.mention(ctx, who))
	channel, ts, out := s.send(ctx, method, id, p, m, slack.MsgOptionPost())
	if out.err != nil {
		if !out.doubt {
			p.IntentAt = time.Time{}
			save()
		}
		return out.err
	}
	p.Channel, p.TS, p.IntentAt = channel, ts, time.Time{}
	return nil
}

// update edits the message. gone reports that the message no longer exists or can no longer be edited.
func (s *poster) update(ctx context.Context, id string, p *notice, m message) (gone bool, err error) {
	_, _, out := s.send(ctx, "chat.update", id, p, m, slack.MsgOptionUpdate(p.TS))
	switch out.code {
	case "message_not_found", "cant_update_message", "edit_window_closed":
		return true, nil
	}
	return false, out.err
}

// reply posts text to the thread of the message and mentions who; a broadcast is also shown in the channel.
func (s *poster) reply(ctx context.Context, p *notice, who []string, text string, broadcast bool) error {
	const method = "chat.postMessage"
	if err := s.check(method, p.Target); err != nil {
		return err
	}
	if mention := s.mention(ctx, who); mention != "" {
		text = mention + " " + text
	}
	options := []slack.MsgOption{
		slack.MsgOptionTS(p.TS), slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl(),
		slack.MsgOptionText(wording.Truncate(text, maxSection), false),
	}
	if broadcast {
		options = append(options, slack.MsgOptionBroadcast())
	}
	if _, _, err := s.api.PostMessageContext(ctx, p.Channel, options...); err != nil {
		return s.failed(method, p.Target, fmt.Errorf("in thread: %w", err)).err
	}
	return nil
}

// find searches the channel of p for its message if it is unknown whether the message was posted. If the app may not
// read the channel, find returns false and the message is posted again: a duplicate is better than a missing message.
func (s *poster) find(ctx context.Context, id string, p *notice) (bool, error) {
	if p.IntentAt.IsZero() {
		return false, nil
	}
	const method = "conversations.history"
	query := &slack.GetConversationHistoryParameters{
		ChannelID: cmp.Or(s.ids[p.Target], p.Channel), IncludeAllMetadata: true, Inclusive: true, Limit: historyPage,
		Oldest: fmt.Sprintf("%d.000000", p.IntentAt.Add(-clockSkew).Unix()),
	}
	for range maxHistoryPages {
		if err := s.check(method, p.Target); err != nil {
			return false, err
		}
		h, err := s.api.GetConversationHistoryContext(ctx, query)
		if err != nil {
			out := s.failed(method, p.Target, err)
			if out.code == "" || out.doubt || accountCodes[out.code] { // not about permissions
				return false, out.err
			}
			s.log.Warn("cannot search for an alert message in doubt; posting it again", "error", out.err)
			return false, nil
		}
		for _, msg := range h.Messages {
			if msg.Metadata.EventType == eventType && msg.Metadata.EventPayload["notice_id"] == id {
				p.Channel, p.TS, p.IntentAt = query.ChannelID, msg.Timestamp, time.Time{}
				return true, nil
			}
		}
		if query.Cursor = h.ResponseMetaData.NextCursor; !h.HasMore || query.Cursor == "" {
			return false, nil
		}
	}
	s.log.Warn("too many messages since an alert message in doubt; posting it again", "searched", maxHistoryPages*historyPage)
	return false, nil
}

// send posts or edits the message. If Slack rejects its blocks, it sends them without
// containers, and then only the text.
func (s *poster) send(ctx context.Context, method, id string, p *notice, m message, how slack.MsgOption) (channel, ts string, out outcome) {
	options := []slack.MsgOption{
		how,
		slack.MsgOptionText(m.text, false),
		slack.MsgOptionDisableLinkUnfurl(),
		slack.MsgOptionDisableMediaUnfurl(),
		slack.MsgOptionMetadata(slack.SlackMetadata{EventType: eventType, EventPayload: map[string]any{"notice_id": id}}),
	}
	if err := s.check(method, p.Target); err != nil {
		return "", "", outcome{err: err}
	}
	forms := [][]slack.Block{m.all(), m.unfolded(), nil}
	if time.Now().Before(s.unfoldUntil) {
		forms = forms[1:]
	}
	for i, blocks := range forms {
		var err error
		channel, ts, _, err = s.api.SendMessageContext(ctx, p.Channel, append(options, slack.MsgOptionBlocks(blocks...))...)
		if err == nil && ts == "" {
			err = errNoTimestamp
		}
		if err == nil {
			s.ids[p.Target] = channel
			if i == 1 && blocks != nil { // otherwise every message would need two calls of the rate limit
				s.unfoldUntil = time.Now().Add(unfoldFor)
			}
			return channel, ts, outcome{}
		}
		if out = s.failed(method, p.Target, err); out.code != "invalid_blocks" && out.code != "invalid_blocks_format" && out.code != "msg_blocks_too_long" {
			break
		}
		s.log.Error("slack rejects the blocks of an alert; sending simpler ones", "error", out.err)
	}
	return "", "", out
}

// permalink returns the link to the message p, or "" if Slack does not return it.
func (s *poster) permalink(ctx context.Context, p *notice) string {
	if p.Permalink == "" {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		link, err := s.api.GetPermalinkContext(ctx, &slack.PermalinkParameters{Channel: p.Channel, Ts: p.TS})
		if err != nil {
			s.log.Debug("cannot read the link of an alert message", "error", err)
		}
		p.Permalink = link
	}
	return p.Permalink
}
