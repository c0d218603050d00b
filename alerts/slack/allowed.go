package slack

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"
)

// membersTTL is the time for which the members of a user group are cached.
const membersTTL = 5 * time.Minute

var allowedID = regexp.MustCompile(`^[UWS][A-Z0-9]{2,20}$`)

// An allowList decides who may act on alerts. An empty list allows everyone who belongs to the app's workspace, but no
// guest of a shared channel: who can read the channel is already restricted there, each press is stored and can be undone,
// and a person who is called at night but is missing in a list does more harm than one press too many. It is not safe for
// concurrent use.
type allowList struct {
	ids     []string // users (U…, W…) and user groups (S…)
	api     *slack.Client
	now     func() time.Time
	members map[string]*members // by user group; bounded by ids
	home    *slack.AuthTestResponse
}

// members are the members of a user group.
type members struct {
	ids []string
	at  time.Time // of the answer, or of the last attempt after it
}

func newAllowList(ids []string, api *slack.Client) *allowList {
	return &allowList{ids: ids, api: api, now: time.Now, members: map[string]*members{}}
}

// allows reports whether the user of p may act on alerts. An error means that this is unknown.
func (l *allowList) allows(ctx context.Context, p *press) (bool, error) {
	if len(l.ids) == 0 {
		return l.local(ctx, p)
	}
	if slices.Contains(l.ids, p.user.ID) {
		return true, nil
	}
	var unknown error
	for _, id := range l.ids {
		if !isGroup(id) {
			continue
		}
		ids, err := l.lookUp(ctx, id)
		if err != nil {
			unknown = err // another group may have the user
		}
		if slices.Contains(ids, p.user.ID) {
			return true, nil
		}
	}
	return false, unknown
}

// local reports whether the user of p belongs to the app's workspace, or to its organization. Only what Slack says of the user
// counts: the workspace and the organization of the press are those of the app, also if a guest presses.
func (l *allowList) local(ctx context.Context, p *press) (bool, error) {
	if l.home == nil {
		home, err := l.api.AuthTestContext(ctx)
		if err != nil {
			return false, classify("auth.test", err).err
		}
		l.home = home
	}
	return p.team != "" && (p.team == l.home.TeamID || p.team == l.home.EnterpriseID), nil
}

// lookUp returns the members of a user group. If Slack does not answer, it returns the last known members.
func (l *allowList) lookUp(ctx context.Context, group string) ([]string, error) {
	m := l.members[group]
	if m != nil && l.now().Sub(m.at) < membersTTL {
		return m.ids, nil
	}
	ids, err := l.api.GetUserGroupMembersContext(ctx, group)
	switch {
	case err == nil:
		m = &members{ids: ids, at: l.now()}
		l.members[group] = m
	case m == nil:
		return nil, fmt.Errorf("look up the members of %s: %w", group, classify("usergroups.users.list", err).err)
	default:
		m.at = l.now().Add(time.Minute - membersTTL) // the next attempt is in a minute
	}
	return m.ids, nil
}

// String returns who is allowed, as mrkdwn.
func (l *allowList) String() string {
	if len(l.ids) == 0 {
		return "members of this workspace"
	}
	var names []string
	for _, id := range l.ids {
		if isGroup(id) {
			names = append(names, "<!subteam^"+id+">")
		} else {
			names = append(names, "<@"+id+">")
		}
	}
	return strings.Join(names, ", ")
}

func isGroup(id string) bool { return strings.HasPrefix(id, "S") }
