package slack

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/alerts/wording"
)

// The actions of buttons and menus. Messages that were sent earlier contain them, so they never change.
const (
	actionPrefix = "llmtap_"

	acknowledge   = "acknowledge"
	unacknowledge = "unacknowledge"
	addSilence    = "silence"
	unsilence     = "unsilence"
	showQuery     = "show_query"
)

// actions are all actions, for metrics.
var actions = []string{acknowledge, unacknowledge, addSilence, unsilence, showQuery, assignMe, fixed, reopen, accept}

// maxExpr is the maximum length of an expression in a reply, in characters. A reply shows at most maxAlerts of them, and Slack
// accepts 40,000 characters.
const maxExpr = 2000

// untilTomorrow is the choice of a silence that ends tomorrow at 9:00 where the person is.
const untilTomorrow = "tomorrow"

// silences are the choices of the menu: a duration or untilTomorrow.
var silences = []struct{ value, label string }{
	{"1h", "for 1 hour"}, {"4h", "for 4 hours"}, {untilTomorrow, "until tomorrow 9:00"},
}

// A target is the value of a button: the incident that it acts on, and the choice of a menu. With the incident in it, a
// press on the message of an earlier incident of the group does not act on the current one.
type target struct {
	group    string // GroupID
	incident int64  // Group.Since in Unix nanoseconds
	choice   string
}

func targetOf(g alerts.Group) target {
	return target{group: alerts.GroupID(g.Key), incident: g.Since().UnixNano()}
}

func (t target) String() string {
	s := t.group + "." + strconv.FormatInt(t.incident, 10)
	if t.choice != "" {
		s += "." + t.choice
	}
	return s
}

var targetValue = regexp.MustCompile(`^([0-9a-f]{16})\.(-?[0-9]{1,19})(?:\.([a-z0-9]+))?$`)

// parseTarget parses the value of a button.
func parseTarget(s string) (target, bool) {
	m := targetValue.FindStringSubmatch(s)
	if m == nil {
		return target{}, false
	}
	at, err := strconv.ParseInt(m[2], 10, 64)
	return target{group: m[1], incident: at, choice: m[3]}, err == nil
}

// controls adds the buttons of a firing group. A resolved group has none: there is nothing left to do.
func (m *message) controls(g alerts.Group, groupBy []string) {
	if !g.Firing() {
		return
	}
	t := targetOf(g)
	button := func(action, label string) *slack.ButtonBlockElement {
		return slack.NewButtonBlockElement(actionPrefix+action, t.String(), slack.NewTextBlockObject(slack.PlainTextType, label, false, false))
	}
	var row []slack.BlockElement
	if g.Ack == nil {
		row = append(row, button(acknowledge, "Acknowledge").WithStyle(slack.StylePrimary))
	} else {
		row = append(row, button(unacknowledge, "Unacknowledge"))
	}
	if active := silencesOf(g); len(active) > 0 {
		b := button(unsilence, "Unsilence")
		if broader := broaderThan(g.Matchers(groupBy), active); len(broader) > 0 {
			// The press also ends the silence of other groups. The matchers come from people and agents.
			plain := func(text string) *slack.TextBlockObject {
				return slack.NewTextBlockObject(slack.PlainTextType, wording.Truncate(text, 300), false, false)
			}
			title, text, end, keep := "End this silence?", "It may cover other alerts, too: ", "End it", "Keep it"
			if n := len(broader); n > 1 {
				title, text, end, keep = fmt.Sprintf("End %d silences?", n), "They may cover other alerts, too: ", "End them", "Keep them"
			}
			b = b.WithConfirm(slack.NewConfirmationBlockObject(plain(title), plain(text+matchersText(broader)), plain(end), plain(keep)))
		}
		row = append(row, b)
	} else {
		var options []*slack.OptionBlockObject
		for _, s := range silences {
			t := t
			t.choice = s.value
			options = append(options, slack.NewOptionBlockObject(t.String(), slack.NewTextBlockObject(slack.PlainTextType, s.label, false, false), nil))
		}
		row = append(row, slack.NewOptionsSelectBlockElement(slack.OptTypeStatic,
			slack.NewTextBlockObject(slack.PlainTextType, "Silence", false, false), actionPrefix+addSilence, options...))
	}
	row = append(row, problemControls(g, button)...)
	row = append(row, button(showQuery, "Show the query"))
	// Without a block id Slack assigns one per edit, which resets the menu.
	m.blocks = append(m.blocks, slack.NewActionBlock("", row...))
}

// silencesOf returns the silences of the firing alerts of g, each once.
func silencesOf(g alerts.Group) []*silence.Silence {
	var out []*silence.Silence
	for _, a := range g.Alerts {
		if s := a.Silence; s != nil && a.State == alerts.Firing && !slices.ContainsFunc(out, func(o *silence.Silence) bool { return o.ID == s.ID }) {
			out = append(out, s)
		}
	}
	return out
}

// broaderThan returns the silences with other matchers than those of the group.
func broaderThan(own silence.Matchers, list []*silence.Silence) (out []*silence.Silence) {
	for _, s := range list {
		if s.Matchers.String() != own.String() {
			out = append(out, s)
		}
	}
	return out
}

// matchersText returns the matchers of silences in one line, of about the same length each.
func matchersText(list []*silence.Silence) string {
	var out []string
	for _, s := range list[:min(len(list), maxAlerts)] {
		out = append(out, wording.OneLine(s.Matchers.String(), 240/min(len(list), maxAlerts)))
	}
	if n := len(list) - maxAlerts; n > 0 {
		out = append(out, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(out, "; ")
}

// silenceEnd returns the end of a silence that begins now.
func silenceEnd(choice string, now time.Time, zone *time.Location) (time.Time, bool) {
	if choice == untilTomorrow {
		return silence.Tomorrow(now.In(zone)), true
	}
	if !slices.ContainsFunc(silences, func(s struct{ value, label string }) bool { return s.value == choice }) {
		return time.Time{}, false
	}
	d, err := time.ParseDuration(choice)
	return now.Add(d), err == nil
}

// silenceComment returns the comment of a silence.
func silenceComment(choice string) string {
	for _, s := range silences {
		if s.value == choice {
			return s.label + ", from Slack"
		}
	}
	return "from Slack"
}

// queryText returns the rules of the firing alerts of g, and the commands that investigate them. Like the message, it contains
// names and labels, and no content of calls. expr returns the expression of the rule of an alert.
func queryText(g alerts.Group, access alerts.Access, expr func(*alerts.Alert) string) string {
	var parts []string
	for _, a := range g.Current() {
		if a.State != alerts.Firing {
			continue
		}
		rule, commands := expr(&a), wording.Commands(access, &a)
		if rule == "" && len(commands) == 0 || len(parts) == maxAlerts {
			continue
		}
		text := "*" + strings.ReplaceAll(plain(wording.ShortSubject(a), maxName), "*", "∗") + "*, rule " + code(a.Name)
		if len(a.Labels) > 0 {
			text += ", labels `" + plain(labelsText(a.Labels), maxText) + "`"
		}
		if rule != "" {
			text += "\n```" + escape(strings.ReplaceAll(wording.Truncate(rule, maxExpr), "```", "'''")) + "```"
		}
		if len(commands) > 0 {
			if access.Host != "" {
				text += "\nOn " + code(access.Host) + ":"
			}
			text += "\n```" + escape(strings.Join(commands, "\n")) + "```"
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "There is no query: the rule no longer exists, and the alert counts no calls or findings."
	}
	return strings.Join(parts, "\n")
}

// labelsText returns labels in the notation of PromQL.
func labelsText(kv map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(kv)) {
		list = append(list, name+"="+strconv.Quote(kv[name]))
	}
	return "{" + strings.Join(list, ", ") + "}"
}
