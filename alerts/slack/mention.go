package slack

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"
)

const (
	// handlesTTL is the time for which the handles of user groups are cached.
	handlesTTL = time.Hour
	// handlesRetry is the minimum time between two attempts to read them.
	handlesRetry = 5 * time.Minute
	// lookupTimeout bounds a request without which a message can be sent.
	lookupTimeout = 3 * time.Second
)

// addMention adds who is mentioned to the first post.
func (m *message) addMention(text string) {
	if text == "" {
		return
	}
	m.text = text + " " + m.text
	block := slack.NewSectionBlock(slack.NewTextBlockObject(slack.MarkdownType, text, false, true), nil, nil)
	m.blocks = slices.Insert(m.blocks, min(1, len(m.blocks)), slack.Block(block))
}

// mention returns the mrkdwn that mentions list. A handle that cannot be found remains text, because the alert matters more.
func (s *poster) mention(ctx context.Context, list []string) string {
	var out []string
	for _, m := range list {
		switch {
		case slices.Contains([]string{"@here", "@channel", "@everyone"}, m), m[0] == '!':
			out = append(out, "<!"+m[1:]+">")
		case m[0] == '@':
			out = append(out, s.group(ctx, m[1:]))
		case isGroup(m):
			out = append(out, "<!subteam^"+m+">")
		default:
			out = append(out, "<@"+m+">")
		}
	}
	return strings.Join(out, " ")
}

// group returns the mention of a user group.
func (s *poster) group(ctx context.Context, handle string) string {
	h := &s.handles
	if _, known := h.ids[handle]; (!known || time.Since(h.at) > handlesTTL) && time.Since(h.tried) > handlesRetry {
		if err := h.lookUp(ctx, s.api); err != nil {
			s.log.Warn("cannot look up the user groups of slack", "error", err)
		}
	}
	if id := h.ids[handle]; id != "" {
		return "<!subteam^" + id + ">"
	}
	s.log.Warn("a user group to mention is unknown; its handle is sent as text", "handle", "@"+handle)
	return escape("@" + handle)
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
