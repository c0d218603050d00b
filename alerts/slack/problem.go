package slack

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
)

// The actions on the problem of a group. Like the others, they never change.
const (
	assignMe = "assign"
	fixed    = "fixed"
	reopen   = "reopen"
	accept   = "accept"
)

// everyVersion is the choice of a fix in all versions.
const everyVersion = "all"

// maxVersion is the length of a version in a menu, in characters; Slack accepts 75 for an option.
const maxVersion = 50

// problemControls returns the buttons on the problem of g; none if it has no problem.
func problemControls(g alerts.Group, button func(action, label string) *slack.ButtonBlockElement) []slack.BlockElement {
	if g.Problem() == "" {
		return nil
	}
	row := []slack.BlockElement{button(assignMe, "Assign to me")}
	if worst := g.Worst(); worst.Unusual() != "" {
		plain := func(text string) *slack.TextBlockObject {
			return slack.NewTextBlockObject(slack.PlainTextType, text, false, false)
		}
		row = append(row, button(accept, "New normal").WithConfirm(slack.NewConfirmationBlockObject(plain("Is this the new normal?"),
			plain("What was measured since the problem began is usual from now on. This cannot be undone."), plain("New normal"), plain("Cancel"))))
	}
	if g.Known != nil && g.Known.Resolved != nil {
		return append(row, button(reopen, "Not fixed"))
	}
	option := func(choice, label string) *slack.OptionBlockObject {
		t := targetOf(g)
		t.choice = choice
		return slack.NewOptionBlockObject(t.String(), slack.NewTextBlockObject(slack.PlainTextType, label, false, false), nil)
	}
	var options []*slack.OptionBlockObject
	if v := newestVersion(g); v != "" {
		options = append(options, option(versionChoice(v), "in "+wording.OneLine(v, maxVersion)+", the newest"))
	}
	options = append(options, option(everyVersion, "in every version"))
	return append(row, slack.NewOptionsSelectBlockElement(slack.OptTypeStatic,
		slack.NewTextBlockObject(slack.PlainTextType, "Fixed…", false, false), actionPrefix+fixed, options...))
}

// newestVersion returns the version of g with the latest first call, also if it has no failures; "" if there is none.
func newestVersion(g alerts.Group) (newest string) {
	var first time.Time
	for _, v := range versions(g) {
		if v.Version != "" && (newest == "" || v.FirstSeen.After(first)) {
			newest, first = v.Version, v.FirstSeen
		}
	}
	return newest
}

// versions returns the versions of all alerts of g.
func versions(g alerts.Group) (list []alerts.RunningVersion) {
	for i := range g.Alerts {
		ev := &g.Alerts[i].Evidence
		for _, v := range ev.Versions {
			list = append(list, alerts.RunningVersion{Version: v.Version, FirstSeen: v.FirstSeen})
		}
		list = append(list, ev.Running...)
	}
	return list
}

// versionChoice returns the choice of a version, which may contain anything.
func versionChoice(v string) string {
	sum := sha256.Sum256([]byte(v))
	return fmt.Sprintf("v%x", sum[:6])
}

// chosenVersion returns the version of a choice; false if g no longer has it.
func chosenVersion(g alerts.Group, choice string) (string, bool) {
	if choice == everyVersion {
		return "", true
	}
	for _, v := range versions(g) {
		if versionChoice(v.Version) == choice {
			return v.Version, true
		}
	}
	return "", false
}

// decide executes a press on the problem of g.
func (h *presser) decide(ctx context.Context, p *press, g alerts.Group) (text string, err error) {
	if h.problems == nil {
		return "", errors.New("problems are not available")
	}
	id := alerts.GroupID(g.Key)
	d := alerts.ProblemDecision{Note: "from Slack"}
	switch p.action {
	case assignMe:
		d.Action, d.Assignee = alerts.ActionAssign, p.user.ID
	case reopen:
		d.Action = alerts.ActionReopen
	case accept:
		d.Action = alerts.ActionAccept
	case fixed:
		version, ok := chosenVersion(g, p.target.choice)
		if !ok {
			return "This version makes no calls any more, so nothing has changed. Use `llmtap problems resolve " + id + " --fixed-in VERSION`.", nil
		}
		d.Action, d.Version = alerts.ActionResolve, version
	}
	_, err = h.problems.Decide(ctx, id, d, p.user)
	if errors.Is(err, alerts.ErrNoProblem) {
		return "llmtap does not know this problem yet, so nothing has changed. Press again in a few seconds.", nil
	}
	return "", err
}
