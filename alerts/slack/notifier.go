package slack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/secret"
)

const (
	// eventType marks the metadata of llmtap's messages.
	eventType = "llmtap_alert"
	// callTimeout bounds one call of Slack's API.
	callTimeout = 10 * time.Second
	// maxRecords bounds the messages remembered in memory; the Store remembers the others.
	maxRecords = 1000
	// lookBack is how long before the intent a message in doubt is looked for: the clocks may differ.
	lookBack = 2 * time.Minute
)

// Options are what a Notifier works with. All may be zero.
type Options struct {
	Store       alerts.Store // nil: a restart posts firing groups again
	ExternalURL string       // of llmtap's web pages; without one messages contain commands only
	Client      *http.Client
	Logger      *slog.Logger
}

// A Notifier tells alert groups in one Slack channel. It is safe for concurrent use; calls go one after another.
type Notifier struct {
	cfg         Config
	externalURL string
	api         *slack.Client
	store       alerts.Store
	log         *slog.Logger

	mu      sync.Mutex // guards the rest, and keeps one call at a time
	records map[string]*record
	limited map[string]time.Time // by method: Slack takes no call before
}

var _ alerts.Paced = (*Notifier)(nil)

// Pace implements alerts.Paced. Slack takes about 50 edits a minute, of all messages together; news need some of them.
func (n *Notifier) Pace() alerts.Pace { return alerts.Pace{Numbers: 1500 * time.Millisecond} }

// A record is what is known of the message of one group.
type record struct {
	NoticeID string          `json:"notice_id"`
	Channel  string          `json:"channel"` // as Slack named it
	TS       string          `json:"ts"`      // "": not posted, or in doubt
	IntentAt time.Time       `json:"intent"`  // wall time before the first try whose end is not known; zero: no doubt
	Told     map[string]gist `json:"told"`    // by series
	ToldAt   time.Time       `json:"told_at"` // stream time of the newest state told
}

// New reads the token and returns a Notifier. It does not call Slack.
func New(cfg Config, o Options) (*Notifier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	token, err := secret.Read(cfg.Token, "token_file", cfg.TokenFile)
	if err != nil {
		return nil, err
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: callTimeout}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	api := slack.New(token, slack.OptionAPIURL(strings.TrimRight(cfg.APIURL, "/")+"/"), slack.OptionHTTPClient(o.Client))
	return &Notifier{
		cfg: cfg, externalURL: o.ExternalURL, api: api, store: o.Store, log: o.Logger,
		records: map[string]*record{}, limited: map[string]time.Time{},
	}, nil
}

// Notify posts the first state of g and edits the message for later ones. What is new is also told in the thread.
func (n *Notifier) Notify(ctx context.Context, g alerts.Group) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	updated := g.Updated()
	r := n.load(ctx, g.Key)
	if r == nil || r.over(g) {
		r = &record{NoticeID: noticeID(g), Channel: n.cfg.Channel, ToldAt: updated}
		n.remember(g.Key, r)
	}
	m := render(g, n.externalURL)
	if r.TS == "" {
		found, err := n.find(ctx, r)
		if err != nil {
			return err
		}
		if !found {
			if err := n.post(ctx, g, r, m); err != nil {
				return err
			}
			n.told(ctx, g, r, updated)
			return nil
		}
	}
	gone, err := n.update(ctx, r, m)
	if err != nil {
		return err
	}
	if gone {
		n.log.Warn("alert message is gone from slack; posting a new one", "group", g.Key)
		r.TS, r.IntentAt, r.Told = "", time.Time{}, nil
		if err := n.post(ctx, g, r, m); err != nil {
			return err
		}
	} else if err := n.reply(ctx, g, r); err != nil {
		return err
	}
	n.told(ctx, g, r, updated)
	return nil
}

// over reports whether g is a later incident than the one r tells: it started after the last state that was told.
func (r *record) over(g alerts.Group) bool { return g.Since().After(r.ToldAt) }

// noticeID is the same for all states of one incident.
func noticeID(g alerts.Group) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s %d", g.Key, g.Since().UnixNano()))
	return hex.EncodeToString(h[:16])
}

// send posts or edits the message. If Slack refuses its blocks, the text alone has to do: an alert that cannot be
// drawn is still an alert.
func (n *Notifier) send(ctx context.Context, method string, r *record, m message, how slack.MsgOption) (channel, ts string, out outcome) {
	options := []slack.MsgOption{
		how,
		slack.MsgOptionText(m.text, false),
		slack.MsgOptionDisableLinkUnfurl(),
		slack.MsgOptionDisableMediaUnfurl(),
		slack.MsgOptionMetadata(slack.SlackMetadata{EventType: eventType, EventPayload: map[string]any{"notice_id": r.NoticeID}}),
	}
	if out = n.free(method); out.err != nil {
		return "", "", out
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
		if out = n.classify(method, err); out.code != "invalid_blocks" && out.code != "invalid_blocks_format" && out.code != "msg_blocks_too_long" {
			break
		}
		n.log.Error("slack refuses the blocks of an alert; sending its text alone", "error", out.err)
	}
	return "", "", out
}

// free is an error while Slack takes no call of method: asking all the same would only make it longer.
func (n *Notifier) free(method string) outcome {
	if wait := time.Until(n.limited[method]); wait > 0 {
		return outcome{err: &alerts.RetryError{After: wait, Err: fmt.Errorf("%s: %w", method, errLimited)}}
	}
	return outcome{}
}

// classify is the function of that name, and remembers until when Slack takes no more of method.
func (n *Notifier) classify(method string, err error) outcome {
	out := classify(method, err)
	if limited, ok := errors.AsType[*slack.RateLimitedError](err); ok {
		n.limited[method] = time.Now().Add(limited.RetryAfter)
	}
	return out
}

// post sends the first message. The intent is stored before, and stays until Slack has said yes or no.
func (n *Notifier) post(ctx context.Context, g alerts.Group, r *record, m message) error {
	if out := n.free("chat.postMessage"); out.err != nil {
		return out.err
	}
	if r.IntentAt.IsZero() {
		r.IntentAt = time.Now().UTC()
	}
	n.save(ctx, g.Key, r)
	channel, ts, out := n.send(ctx, "chat.postMessage", r, m, slack.MsgOptionPost())
	if out.err != nil {
		if !out.doubt {
			r.IntentAt = time.Time{}
			n.save(ctx, g.Key, r)
		}
		return out.err
	}
	r.Channel, r.TS, r.IntentAt = channel, ts, time.Time{}
	n.save(ctx, g.Key, r) // the message is known even if the process ends before it is told in full
	return nil
}

// find looks for the message of a record whose post ended in doubt. Where Slack does not let us look, the message is
// sent again: one too many is better than none.
func (n *Notifier) find(ctx context.Context, r *record) (bool, error) {
	if r.IntentAt.IsZero() {
		return false, nil
	}
	h, err := n.api.GetConversationHistoryContext(ctx, &slack.GetConversationHistoryParameters{
		ChannelID: r.Channel, IncludeAllMetadata: true, Inclusive: true, Limit: 200,
		Oldest: fmt.Sprintf("%d.000000", r.IntentAt.Add(-lookBack).Unix()),
	})
	if err != nil {
		out := n.classify("conversations.history", err)
		if out.code == "" || out.doubt { // not an answer about our rights
			return false, out.err
		}
		n.log.Warn("cannot look for an alert message in doubt; posting it again", "error", out.err)
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

// update edits the message; gone says that Slack no longer has it, or no longer lets it be edited.
func (n *Notifier) update(ctx context.Context, r *record, m message) (gone bool, err error) {
	_, _, out := n.send(ctx, "chat.update", r, m, slack.MsgOptionUpdate(r.TS))
	switch out.code {
	case "message_not_found", "cant_update_message", "edit_window_closed":
		return true, nil
	}
	return false, out.err
}

// reply tells in the thread what is new; a reminder is shown in the channel too.
func (n *Notifier) reply(ctx context.Context, g alerts.Group, r *record) error {
	var lines []string
	if r.Told != nil {
		lines = news(g, r.Told)
	}
	options := []slack.MsgOption{slack.MsgOptionTS(r.TS), slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl()}
	if len(lines) == 0 && g.Repeat {
		lines = reminder(g)
		options = append(options, slack.MsgOptionBroadcast())
	}
	if len(lines) == 0 {
		return nil
	}
	text := cut(strings.Join(lines, "\n"), maxSection)
	if out := n.free("chat.postMessage"); out.err != nil {
		return out.err
	}
	if _, _, err := n.api.PostMessageContext(ctx, r.Channel, append(options, slack.MsgOptionText(text, false))...); err != nil {
		return n.classify("chat.postMessage", fmt.Errorf("in thread: %w", err)).err
	}
	return nil
}

// told notes that g was told in full.
func (n *Notifier) told(ctx context.Context, g alerts.Group, r *record, updated time.Time) {
	r.Told, r.ToldAt = gistOf(g, r.Told), updated
	n.save(ctx, g.Key, r)
}

func storeKey(group string) string {
	h := sha256.Sum256([]byte(group))
	return "slack." + hex.EncodeToString(h[:8])
}

func (n *Notifier) load(ctx context.Context, group string) *record {
	if r := n.records[group]; r != nil || n.store == nil {
		return r
	}
	b, err := n.store.Get(ctx, storeKey(group))
	if err != nil || b == nil {
		if err != nil {
			n.log.Error("cannot read which slack message tells an alert; a new one may be posted", "group", group, "error", err)
		}
		return nil
	}
	r := new(record)
	if err := json.Unmarshal(b, r); err != nil {
		n.log.Error("stored slack message is unreadable; a new one may be posted", "group", group, "error", err)
		return nil
	}
	n.remember(group, r)
	return r
}

// remember keeps r in memory; when it is full, any other goes, the Store still has it.
func (n *Notifier) remember(group string, r *record) {
	if len(n.records) >= maxRecords {
		for k := range n.records {
			delete(n.records, k)
			break
		}
	}
	n.records[group] = r
}

// save writes r. That the store refuses it delays no message: at worst a restart posts one again.
func (n *Notifier) save(ctx context.Context, group string, r *record) {
	if n.store == nil {
		return
	}
	b, err := json.Marshal(r)
	if err == nil {
		put, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = n.store.Put(put, storeKey(group), b)
	}
	if err != nil {
		n.log.Error("cannot store which slack message tells an alert", "group", group, "error", err)
	}
}
