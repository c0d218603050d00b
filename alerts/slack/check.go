package slack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/slack-go/slack"
)

const (
	// maxChannelPages is the maximum number of pages of channels to search for a name.
	maxChannelPages = 20
	channelsPerPage = 1000
)

// Scopes of the bot token. deploy/slack/manifest.yaml requests those that some configuration uses.
const (
	scopeWrite          = "chat:write"        // send, edit and reply
	scopeWritePublic    = "chat:write.public" // also in public channels that the app has not joined; not requested
	scopeRead           = "channels:read"     // find a channel by its name
	scopeReadPrivate    = "groups:read"
	scopeHistory        = "channels:history" // find a message in doubt
	scopeHistoryPrivate = "groups:history"
	scopeUsers          = "users:read"      // the time zone of "until tomorrow 9:00"
	scopeUserGroups     = "usergroups:read" // the members of user groups in slack.allowed, and the handles in mentions
)

var channelID = regexp.MustCompile(`^[CGD][A-Z0-9]{6,}$`)

// check verifies the token, its scopes and the channel without posting. It returns the user and team of the token.
func (n *Notifier) check(ctx context.Context) (string, error) {
	answer, err := n.api.AuthTestContext(ctx)
	if err != nil {
		return "", n.checkError("verify the token", "auth.test", err)
	}
	var granted []string // nil: unknown
	if list := answer.Header.Get("X-Oauth-Scopes"); list != "" {
		granted = strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
		if !slices.Contains(granted, scopeWrite) {
			return "", fmt.Errorf("verify the token: it has the scopes %s, not chat:write; add the scope to the app and install it again", strings.Join(granted, ", "))
		}
	}
	note, err := n.checkChannels(ctx, granted)
	if err != nil {
		return "", err
	}
	mentions, err := n.checkMentions(ctx)
	if err != nil {
		return "", fmt.Errorf("messages are sent, but somebody is not mentioned: %w", err)
	}
	note += mentions
	if granted != nil && !slices.Contains(granted, scopeHistory) && !slices.Contains(granted, scopeHistoryPrivate) {
		note += "; a message whose post is in doubt is posted again: give the app the scope " + scopeHistory
	}
	buttons, err := n.checkButtons(ctx, granted)
	if err != nil {
		return "", fmt.Errorf("messages are sent, but buttons do not work: %w", err)
	}
	return fmt.Sprintf("posts as %s of %s%s%s", answer.User, answer.Team, note, buttons), nil
}

// checkButtons verifies the app-level token, and the scopes for presses. The note says what does not work fully.
func (n *Notifier) checkButtons(ctx context.Context, granted []string) (note string, err error) {
	if !n.appToken {
		return "", nil
	}
	if _, _, err := n.api.StartSocketModeContext(ctx); err != nil { // a connection that nobody uses ends by itself
		if _, limited := errors.AsType[*slack.RateLimitedError](err); limited {
			return "; the app-level token is not verified: Slack limits the rate", nil
		}
		return "", n.checkError("verify the app-level token", openConnection, err)
	}
	if granted == nil {
		return "", nil
	}
	if slices.ContainsFunc(n.allowed, isGroup) && !slices.Contains(granted, scopeUserGroups) {
		return "", errors.New("slack.allowed has user groups, but the bot token has no scope usergroups:read; add the scope to the app and install it again")
	}
	if !slices.Contains(granted, scopeUsers) {
		note = "; silences until tomorrow end at 9:00 UTC: give the app the scope users:read"
	}
	return note, nil
}

// checkChannels verifies that the token can post to all channels. The note says what was not verified.
func (n *Notifier) checkChannels(ctx context.Context, granted []string) (note string, err error) {
	names := map[string]string{} // key of the configuration by name
	seen := map[string]bool{}
	check := func(channel, key string) error {
		if seen[channel] {
			return nil
		}
		seen[channel] = true
		if channelID.MatchString(channel) {
			return n.checkID(ctx, channel, key, granted)
		}
		names[strings.TrimPrefix(channel, "#")] = key
		return nil
	}
	errs := []error{check(n.channel, "slack.channel")}
	for i, r := range n.routes {
		errs = append(errs, check(r.channel, fmt.Sprintf("slack.routes[%d].channel", i)))
	}
	if err := errors.Join(errs...); err != nil || len(names) == 0 {
		return "", err
	}
	return n.checkNames(ctx, names, granted)
}

// checkID verifies that the token can post to the channel with an id, which is configured in key.
func (n *Notifier) checkID(ctx context.Context, channel, key string, granted []string) error {
	const action = "find the channel"
	ch, err := n.api.GetConversationInfoContext(ctx, &slack.GetConversationInfoInput{ChannelID: channel})
	if err == nil {
		return n.checkMember(ch, channel, granted)
	}
	if _, ok := errors.AsType[slack.SlackErrorResponse](err); !ok {
		return n.checkError(action, "conversations.info", err)
	}
	// The channel does not exist, or the token has no scope to read it. chat.getPermalink requires no scope, and returns
	// message_not_found only if the channel exists.
	_, err = n.api.GetPermalinkContext(ctx, &slack.PermalinkParameters{Channel: channel, Ts: "1.000000"})
	if refused, ok := errors.AsType[slack.SlackErrorResponse](err); err == nil || ok && refused.Err == "message_not_found" {
		return nil
	}
	if err = n.checkError(action, "chat.getPermalink", err); key != "slack.channel" {
		err = fmt.Errorf("%s: %w", key, err)
	}
	return err
}

// checkNames searches for channels by name. keys are the keys of the configuration by name.
func (n *Notifier) checkNames(ctx context.Context, keys map[string]string, granted []string) (note string, err error) {
	unknown := func() string {
		var list []string
		for name := range keys {
			list = append(list, keys[name])
		}
		slices.Sort(list)
		what := "the channel is"
		if len(list) > 1 {
			what = "the channels are"
		}
		return fmt.Sprintf("; %s not verified: set %s to its id (C0123456789), or give the app the scope channels:read", what, strings.Join(list, ", "))
	}
	p := slack.GetConversationsParameters{Limit: channelsPerPage, Types: []string{"public_channel"}}
	private := slices.Contains(granted, scopeReadPrivate)
	if private {
		p.Types = append(p.Types, "private_channel")
	}
	for range maxChannelPages {
		page, next, err := n.api.GetConversationsContext(ctx, &p)
		if refused, ok := errors.AsType[slack.SlackErrorResponse](err); ok && refused.Err == "missing_scope" {
			return unknown(), nil
		}
		if _, limited := errors.AsType[*slack.RateLimitedError](err); limited {
			return unknown(), nil
		}
		if err != nil {
			return "", n.checkError("find the channel", "conversations.list", err)
		}
		for i := range page {
			if _, ok := keys[page[i].Name]; ok {
				if err := n.checkMember(&page[i], "#"+page[i].Name, granted); err != nil {
					return "", err
				}
				delete(keys, page[i].Name)
			}
		}
		if len(keys) == 0 {
			return "", nil
		}
		if p.Cursor = next; next != "" {
			continue
		}
		var errs []error
		for _, name := range slices.Sorted(maps.Keys(keys)) {
			err := fmt.Errorf("find the channel: channel_not_found: no channel is named #%s; correct %s", name, keys[name])
			if !private {
				err = fmt.Errorf("%w, or set it to the channel's id if the channel is private", err)
			}
			errs = append(errs, err)
		}
		return "", errors.Join(errs...)
	}
	return unknown(), nil
}

// checkMember verifies that the app can post to ch, which is configured as channel.
func (n *Notifier) checkMember(ch *slack.Channel, channel string, granted []string) error {
	code := ""
	switch {
	case ch.IsArchived:
		code = "is_archived"
	case !ch.IsMember && (ch.IsPrivate || !slices.Contains(granted, scopeWritePublic)):
		code = "not_in_channel"
	default:
		return nil
	}
	return fmt.Errorf("post to %s: %s; %s", channel, code, advice[code])
}

// checkError describes an error of method. It distinguishes an unreachable Slack from one that rejects the request.
func (n *Notifier) checkError(action, method string, err error) error {
	if unreachable, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("reach Slack: %s: %w; check the network, HTTPS_PROXY and slack.api_url: the token and channel are not verified", method, unreachable.Err)
	}
	return fmt.Errorf("%s: %w", action, classify(method, err).err)
}

// checkMentions verifies the handles of user groups.
func (n *Notifier) checkMentions(ctx context.Context) (note string, err error) {
	wanted := map[string]string{} // key of the configuration by handle
	add := func(key string, list []string) {
		for _, m := range list {
			if h, ok := strings.CutPrefix(m, "@"); ok && h != "here" && h != "channel" && h != "everyone" {
				wanted[h] = key
			}
		}
	}
	for i, r := range n.routes {
		add(fmt.Sprintf("slack.routes[%d].mention", i), r.mention)
	}
	for severity, list := range n.mentions {
		add("slack.mentions."+severity, list)
	}
	if len(wanted) == 0 {
		return "", nil
	}
	var h handles
	if err := h.lookUp(ctx, n.api); err != nil {
		if _, limited := errors.AsType[*slack.RateLimitedError](err); limited {
			return "; the user groups to mention are not verified: Slack limits the rate", nil
		}
		return "", n.checkError("verify the user groups to mention", "usergroups.list", err)
	}
	var errs []error
	for _, handle := range slices.Sorted(maps.Keys(wanted)) {
		if h.ids[handle] == "" {
			errs = append(errs, fmt.Errorf("%s: no user group has the handle @%s; correct it, or use the id (S0123456789)", wanted[handle], handle))
		}
	}
	return "", errors.Join(errs...)
}
