package slack

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/silence"
)

// refusedFor is the time for which the default channel replaces a channel that rejected a message.
const refusedFor = 10 * time.Minute

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
	kv := a.Routable()
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

// route returns the destination of g, with the default channel instead of one that rejects messages.
func (n *Notifier) route(g alerts.Group) destination {
	to := n.destination(g)
	if time.Since(n.refused[to.channel]) < refusedFor {
		to.channel = n.channel
	}
	return to
}
