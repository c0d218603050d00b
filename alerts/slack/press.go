package slack

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/alerts/wording"
)

const (
	// actTimeout bounds an action, because Slack shows the person an error after 3 s without an acknowledgement.
	actTimeout   = 2 * time.Second
	zoneTimeout  = time.Second
	replyTimeout = 3 * time.Second
	// maxHandled bounds the remembered presses.
	maxHandled = 256
)

// A press is one use of a button or menu by a person.
type press struct {
	id     [sha256.Size]byte // the same each time Slack delivers the press
	action string
	target target
	user   alerts.Actor
	team   string // id of the person's workspace or, in an organization with several, of the organization
	reply  string // URL for messages that only the person sees
}

// presses returns the presses of a callback. Interactions that are not about our buttons, such as a click on a link, are
// not among them.
func presses(cb *slack.InteractionCallback) []*press {
	if cb.Type != slack.InteractionTypeBlockActions {
		return nil
	}
	var out []*press
	for _, a := range cb.ActionCallback.BlockActions {
		action, ours := strings.CutPrefix(a.ActionID, actionPrefix)
		value := a.Value
		if a.SelectedOption.Value != "" {
			value = a.SelectedOption.Value
		}
		t, ok := parseTarget(value)
		if !ours || !ok || !slices.Contains(actions, action) || !userID.MatchString(cb.User.ID) {
			continue
		}
		p := &press{
			action: action, target: t, reply: cb.ResponseURL, team: cb.User.TeamID,
			id:   sha256.Sum256(fmt.Appendf(nil, "%s %s %s %s %s", cb.User.ID, a.ActionTs, cb.Container.MessageTs, a.ActionID, value)),
			user: alerts.Actor{ID: cb.User.ID, Name: wording.OneLine(cb.User.Name, 50), Via: "slack"},
		}
		out = append(out, p)
	}
	return out
}

// A presser executes presses. It is not safe for concurrent use.
type presser struct {
	controls alerts.Controls
	problems alerts.Problems // nil: nobody can decide about them
	allowed  *allowList
	api      *slack.Client
	client   *http.Client
	access   alerts.Access
	groupBy  []string
	log      *slog.Logger
	m        *metrics
	now      func() time.Time
	handled  [][sha256.Size]byte // presses that need no further action, oldest first
}

// handle executes a press. It returns false if Slack must tell the person that it did not work, because the reply that says
// so, or that shows the query, did not arrive.
func (h *presser) handle(ctx context.Context, p *press) bool {
	if slices.Contains(h.handled, p.id) {
		return true // Slack delivers again what was acknowledged too late
	}
	result, text, err := h.act(ctx, p)
	if err != nil {
		h.log.Warn("press of a button in slack not executed", "action", p.action, "user", p.user.ID, "group", p.target.group, "error", err)
	}
	if text != "" {
		ctx, cancel := context.WithTimeout(ctx, replyTimeout)
		defer cancel()
		msg := &slack.WebhookMessage{Text: text, ResponseType: slack.ResponseTypeEphemeral}
		if replied := slack.PostWebhookCustomHTTPContext(ctx, p.reply, h.client, msg); replied != nil {
			h.log.Warn("reply to a press of a button in slack not sent", "action", p.action, "user", p.user.ID, "error", hideURL(replied))
			if result != "done" || p.action == showQuery {
				h.m.presses.WithLabelValues(p.action, "failed").Inc()
				return false
			}
		}
	}
	h.m.presses.WithLabelValues(p.action, result).Inc()
	if result != "failed" {
		if len(h.handled) == maxHandled {
			h.handled = slices.Delete(h.handled, 0, 1)
		}
		h.handled = append(h.handled, p.id)
	}
	return true
}

// act executes a press. The text, if any, is for the person.
func (h *presser) act(ctx context.Context, p *press) (result, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	const again = " Press again. The log of llmtap has the reason."
	g, open, err := h.controls.Group(ctx, p.target.group)
	if err != nil {
		return "failed", ":warning: llmtap cannot read its alerts, so nothing has changed." + again, fmt.Errorf("read the group: %w", err)
	}
	group := g.Key
	if !open {
		group = p.target.group
	}
	if p.action != showQuery { // which shows what the message is about, and changes nothing
		ok, err := h.allowed.allows(ctx, p)
		if err != nil {
			return "failed", ":warning: llmtap cannot find out who may do this, so nothing has changed." + again, fmt.Errorf("check slack.allowed: %w", err)
		}
		if !ok {
			return "refused", ":no_entry: Not allowed. " + h.allowed.String() + " may do this (`slack.allowed`). Nothing has changed.",
				h.controls.Refuse(ctx, p.action, group, "not in slack.allowed", p.user)
		}
	}
	if !open || !g.Firing() || g.Since().UnixNano() != p.target.incident {
		return "ended", "This incident has ended, so nothing has changed.",
			h.controls.Refuse(ctx, p.action, group, "the incident has ended", p.user)
	}
	if text, err = h.change(ctx, p, g); err != nil {
		return "failed", ":warning: llmtap could not store this." + again, err
	}
	return "done", text, nil
}

// change executes a press on the open group g. The text says what the message does not show.
func (h *presser) change(ctx context.Context, p *press, g alerts.Group) (text string, err error) {
	switch p.action {
	case acknowledge:
		if g.Ack != nil && g.Ack.By != p.user.ID {
			text = "Already acknowledged by " + markup.Person(g.Ack.By, g.Ack.ByName) + "."
		}
		return text, h.controls.Acknowledge(ctx, alerts.Ack{Group: g.Key, Incident: g.Since(), By: p.user.ID, ByName: p.user.Name, At: h.now()}, p.user.Via)
	case unacknowledge:
		return "", h.controls.Unacknowledge(ctx, g.Key, g.Since(), p.user)
	case addSilence:
		return h.silence(ctx, p, g)
	case unsilence:
		return h.unsilence(ctx, p, g)
	case assignMe, fixed, reopen, accept:
		return h.decide(ctx, p, g)
	}
	if err := h.controls.Record(ctx, p.action, g.Key, "", p.user); err != nil {
		h.log.Warn("press of a button in slack not stored", "action", p.action, "user", p.user.ID, "group", p.target.group, "error", err)
	}
	return queryText(g, h.access, h.controls.Expr), nil
}

// silence adds a silence for the alerts of g. Its id is derived from the press, so a press that two processes receive adds
// one silence.
func (h *presser) silence(ctx context.Context, p *press, g alerts.Group) (text string, err error) {
	now := h.now()
	zone := time.UTC
	if p.target.choice == untilTomorrow {
		if zone, err = h.zone(ctx, p.user.ID); err != nil {
			h.log.Warn("time zone of a slack user unknown; a silence ends at 9:00 UTC", "user", p.user.ID, "error", err)
			zone, text = time.UTC, "Your time zone is unknown to llmtap, so the silence ends at 9:00 UTC. It needs the scope users:read."
		}
	}
	end, ok := silenceEnd(p.target.choice, now, zone)
	if !ok {
		return "", fmt.Errorf("unknown choice %q", p.target.choice)
	}
	author := p.user.Name
	if author == "" {
		author = p.user.ID
	}
	matchers := g.Matchers(h.groupBy)
	if matchers == nil {
		return "", errors.New("a label of the alert is too long for a silence")
	}
	_, err = h.controls.AddSilence(ctx, silence.Silence{
		ID:       fmt.Sprintf("%x-%x-%x-%x-%x", p.id[:4], p.id[4:6], p.id[6:8], p.id[8:10], p.id[10:16]),
		Matchers: matchers, StartsAt: now, EndsAt: end, UpdatedAt: now, CreatedBy: author, Comment: silenceComment(p.target.choice),
	}, g.Key, p.user)
	return text, err
}

// unsilence ends the silences of the firing alerts of g: all that cover no other group, and the others that the message names. A person has
// not agreed to the end of those that it does not name.
func (h *presser) unsilence(ctx context.Context, p *press, g alerts.Group) (text string, err error) {
	now, named, own := h.now(), silencesOf(g), g.Matchers(h.groupBy).String()
	text = "No silence covers this alert any more."
	var left []*silence.Silence
	for _, s := range h.controls.Silences() {
		if !s.Active(now) || !slices.ContainsFunc(g.Alerts, func(a alerts.Alert) bool { return a.State == alerts.Firing && s.Matches(a.Name, a.Matchable()) }) {
			continue
		}
		if s.Matchers.String() != own && !slices.ContainsFunc(named, func(o *silence.Silence) bool { return o.ID == s.ID }) {
			left = append(left, &s)
			continue
		}
		if err := h.controls.ExpireSilence(ctx, s.ID, p.user); err != nil && !errors.Is(err, alerts.ErrNoSilence) {
			return "", err
		}
		text = ""
	}
	if len(left) > 0 {
		text = "Still silenced by " + markup.Code(matchersText(left), maxText) + ". The message will offer to end that, too."
	}
	return text, nil
}

// zone returns the time zone of a user.
func (h *presser) zone(ctx context.Context, user string) (*time.Location, error) {
	ctx, cancel := context.WithTimeout(ctx, zoneTimeout)
	defer cancel()
	u, err := h.api.GetUserInfoContext(ctx, user)
	if err != nil {
		return nil, classify("users.info", err).err
	}
	if zone, err := time.LoadLocation(u.TZ); err == nil && u.TZ != "" {
		return zone, nil
	}
	return time.FixedZone(u.TZLabel, u.TZOffset), nil
}
