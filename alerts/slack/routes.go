package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/silence"
)

const (
	// handlesTTL is the time for which the handles of user groups are cached.
	handlesTTL = time.Hour
	// handlesRetry is the minimum time between two attempts to read them.
	handlesRetry = 5 * time.Minute
	// lookupTimeout bounds a request without which a message can be sent.
	lookupTimeout = 3 * time.Second
)

// A Route selects the channel of a group and who is mentioned.
type Route struct {
	// Match are matchers that must all match the labels of the group's worst firing alert: those of the alert, alertname,
	// and the cause and root_cause of most of its failures.
	Match []string `yaml:"match"`
	// Channel is a channel as in Config. If empty, it is Config.Channel.
	Channel string `yaml:"channel"`
	// Mention lists users (U0123456789), user groups (S0123456789 or @handle), @here and @channel.
	Mention []string `yaml:"mention"`
}

// A route is a Route with parsed matchers.
type route struct {
	match   silence.Matchers
	channel string
	mention []string
}

var mentionForm = regexp.MustCompile(`^([UWS][A-Z0-9]{2,20}|@[a-z0-9][a-z0-9._-]{0,79}|!(here|channel|everyone))$`)

// routes returns the parsed routes, and all errors, joined.
func (c Config) routes() (list []route, err error) {
	var errs []error
	mentions := func(key string, list []string) {
		for i, s := range list {
			if !mentionForm.MatchString(s) {
				errs = append(errs, fmt.Errorf("%s[%d]: %q is none of U0123456789 (a user), S0123456789 or @handle (a user group), @here and @channel", key, i, s))
			}
		}
	}
	for i, r := range c.Routes {
		key := fmt.Sprintf("routes[%d]", i)
		out := route{channel: cmp.Or(r.Channel, c.Channel), mention: r.Mention}
		for j, s := range r.Match {
			m, err := silence.ParseMatcher(s)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s.match[%d]: %w", key, j, err))
			}
			out.match = append(out.match, m)
		}
		if len(r.Match) == 0 {
			errs = append(errs, fmt.Errorf("%s.match: is empty; later routes would have no effect. Set the default in slack.channel", key))
		}
		if r.Channel == "" && len(r.Mention) == 0 {
			errs = append(errs, fmt.Errorf("%s: has neither channel nor mention", key))
		}
		mentions(key+".mention", r.Mention)
		list = append(list, out)
	}
	for _, severity := range slices.Sorted(maps.Keys(c.Mentions)) {
		mentions("mentions."+severity, c.Mentions[severity])
	}
	return list, errors.Join(errs...)
}

// A destination is where a group is sent, and who is mentioned.
type destination struct {
	channel string
	mention []string
	rank    int // of the worst firing alert; 0 if none fires
}

// destination returns the destination of g, by its worst alert.
func (n *Notifier) destination(g alerts.Group) destination {
	a := g.Worst()
	to := destination{channel: n.channel}
	kv := maps.Clone(a.Labels)
	if kv == nil {
		kv = map[string]string{}
	}
	if s := a.Evidence.Shares; len(s) > 0 {
		for label, v := range map[string]string{"cause": s[0].Cause, "root_cause": s[0].RootCause} {
			if kv[label] == "" {
				kv[label] = v
			}
		}
	}
	if i := slices.IndexFunc(n.routes, func(r route) bool { return r.match.Match(a.Name, kv) }); i >= 0 {
		to.channel, to.mention = n.routes[i].channel, slices.Clone(n.routes[i].mention)
	}
	if a.State == alerts.Firing {
		to.rank = a.Rank() + 1
	}
	for _, m := range n.mentions[a.Severity()] {
		if !slices.Contains(to.mention, m) {
			to.mention = append(to.mention, m)
		}
	}
	return to
}

// handles are the ids of user groups by handle.
type handles struct {
	ids   map[string]string
	at    time.Time // of the answer
	tried time.Time
}

// lookUp reads the user groups of the workspace.
func (h *handles) lookUp(ctx context.Context, api *slack.Client) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	h.tried = time.Now()
	list, err := api.GetUserGroupsContext(ctx)
	if err != nil {
		return err
	}
	h.at, h.ids = h.tried, map[string]string{}
	for _, g := range list {
		h.ids[g.Handle] = g.ID
	}
	return nil
}

// mention returns the mrkdwn that mentions list. A handle that cannot be found remains text, because the alert matters more.
func (n *Notifier) mention(ctx context.Context, list []string) string {
	var out []string
	for _, m := range list {
		switch {
		case slices.Contains([]string{"@here", "@channel", "@everyone"}, m), m[0] == '!':
			out = append(out, "<!"+m[1:]+">")
		case m[0] == '@':
			out = append(out, n.group(ctx, m[1:]))
		case isGroup(m):
			out = append(out, "<!subteam^"+m+">")
		default:
			out = append(out, "<@"+m+">")
		}
	}
	return strings.Join(out, " ")
}

// group returns the mention of a user group.
func (n *Notifier) group(ctx context.Context, handle string) string {
	h := &n.handles
	if _, known := h.ids[handle]; (!known || time.Since(h.at) > handlesTTL) && time.Since(h.tried) > handlesRetry {
		if err := h.lookUp(ctx, n.api); err != nil {
			n.log.Warn("cannot look up the user groups of slack", "error", err)
		}
	}
	if id := h.ids[handle]; id != "" {
		return "<!subteam^" + id + ">"
	}
	n.log.Warn("a user group to mention is unknown; its handle is sent as text", "handle", "@"+handle)
	return escape("@" + handle)
}

// addMention adds who is mentioned to the first post.
func (m *message) addMention(text string) {
	if text == "" {
		return
	}
	m.text = text + " " + m.text
	block := slack.NewSectionBlock(slack.NewTextBlockObject(slack.MarkdownType, text, false, true), nil, nil)
	m.blocks = slices.Insert(m.blocks, min(1, len(m.blocks)), slack.Block(block))
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
