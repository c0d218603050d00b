package slack

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const (
	// maxAlerts is the maximum number of alerts with details in one message. Each has one line, a container and at most 6
	// blocks in it, and Slack allows 50.
	maxAlerts = 5
	// maxOthers is the number of lines about the other alerts of a group above the details.
	maxOthers = 3
	// maxFix bounds a fix and a description above the details, which contain longer ones in full.
	maxFix = 110
	// shortFix bounds a fix that shares the summary with something else. A headline above longHeadline needs three lines, and
	// times and labels above longSince, with the markup of the time, need two.
	shortFix     = 75
	longHeadline = 66
	longSince    = 105
)

// A message is the representation of a group in Slack: what a person reads in ten seconds on a phone, the buttons, and the
// details, which are collapsed.
type message struct {
	text    string // escaped text for notifications and for clients that do not show blocks
	blocks  []slack.Block
	details []slack.Block
}

// render returns the message of g.
func render(g alerts.Group, access alerts.Access) message {
	current := g.Current()
	var m message
	title := wording.GroupHeadline(g, current)
	m.text = notification(g, current, title)
	m.blocks = append(m.blocks, slack.NewHeaderBlock(slack.NewTextBlockObject(slack.PlainTextType, wording.Truncate(title, maxHeader), true, false)))
	m.summary(g, current)
	if links := links(g, access); links != "" {
		m.context(links)
	}
	for i, a := range current {
		if i == maxAlerts {
			break
		}
		name := "Details"
		switch {
		case len(current) == 1:
		case a.Problem != "":
			name += ": " + wording.OneLine(a.Name, maxName)
		default:
			name += ": " + wording.ShortSubject(a)
		}
		m.fold(name, details(a, access))
	}
	return m
}

// summary adds the main alert of g in a few lines: since when, why, whose change, proof and what to do; then the other
// alerts, one line each, and what people have decided.
func (m *message) summary(g alerts.Group, current []alerts.Alert) {
	if len(current) == 0 {
		return
	}
	first, a := wording.Main(current), wording.Whole(g, current)
	m.context(markup.Since(a))
	decided := markup.Status(g)
	if a.FoundLate {
		decided = append(decided, ":hourglass: Found late: llmtap was behind by more than a minute.")
	}
	short := len(current) > 1 || len(decided) > 0 || a.State == alerts.Resolved || utf8.RuneCountInString(wording.Headline(a)) > longHeadline
	crowded := len(current) > 1 && len(decided) > 1
	lines := answers(g, a, short, g.Muted() && a.State == alerts.Firing || len(current) > 2 || crowded)
	var others []string
	for i, a := range current {
		if i != first {
			sign := wording.Icon(a)
			if a.Problem != "" && a.State == alerts.Resolved && g.Firing() {
				sign = wording.EndedIcon
			}
			others = append(others, sign+" "+strings.ReplaceAll(plain(wording.Other(a), maxHeader), "*", "∗"))
		}
	}
	most := maxOthers
	if crowded {
		most = 1
	}
	if n := len(others); n > most {
		others = append(others[:most-1], fmt.Sprintf("… and %d more alerts", n-most+1))
	}
	lines = append(lines, others...)
	lines = append(lines, decided...)
	if len(lines) > 0 {
		m.section("", lines...)
	}
}

// answers returns the lines of the summary about the main alert of g. If they must be short, because ten lines also say something
// else, the proof and the end of the fix are only in the details; so are the end of the fix if they say where calls fail, and the proof
// if that is more than a line. So is the end of the fix of the prompt cache, whose headline is long. With noFix, the whole fix is.
func answers(g alerts.Group, a alerts.Alert, short, noFix bool) []string {
	ev := a.Evidence
	var lines []string
	add := func(title, text string) {
		if text != "" {
			lines = append(lines, "*"+title+":* "+text)
		}
	}
	switch causes := markup.Causes(ev, false); {
	case len(causes) == 0:
		add("Why", plain(a.Annotations["description"], maxFix))
	case ev.Failed > 1 && ev.Shares[0].Failed == ev.Failed:
		add("Why", plain("all: "+wording.Why(&ev, 0), maxText))
	case len(causes) > 1 && ev.Material(ev.Shares[1].Failed):
		more := "1 more cause"
		if n := len(causes) - 1; n > 1 {
			more = fmt.Sprintf("%d more causes", n)
		}
		add("Why", causes[0]+"; "+more)
	default:
		add("Why", causes[0])
	}
	if a.Hides != nil {
		lines = append(lines, strings.TrimSuffix(markup.Hidden(a.Hides)[0], ":")) // which are in the details
	}
	where, _, _ := strings.Cut(ev.Differs, ";") // the others are in the details
	if !short {
		add("Where", plain(where, maxText))
	}
	regressed := g.Known != nil && g.Known.Regressed != nil // the line about that names the version
	if change := markup.WhoseChange(ev, a.StartsAt, true); ev.Failed > 0 && len(change) > 0 && !regressed {
		add("Change", change[0])
	}
	if last := markup.LastFailure(a); a.State == alerts.Resolved && last != "" {
		lines = append(lines, last)
	} else if x := ev.Example; x != nil && !short && utf8.RuneCountInString(where) <= maxLine {
		add("Proof", markup.Brief(x))
	}
	if noFix {
		return lines
	}
	title, limit := "Fix", maxFix
	if short || where != "" || ev.CacheBroken() || utf8.RuneCountInString(markup.Since(a)) > longSince {
		limit = shortFix
	}
	if len(ev.Shares) == 0 || ev.Shares[0].Fix == "" {
		title = "Next"
	}
	if a.State == alerts.Resolved {
		title, limit = title+" unless done", limit-20
	}
	add(title, plain(wording.Fix(a), limit))
	return lines
}

// details returns all that is known about an alert.
func details(a alerts.Alert, access alerts.Access) []slack.Block {
	ev := a.Evidence
	var out []slack.Block
	add := func(title string, lines ...string) { out = append(out, section(false, title, lines...)) }
	var facts []string
	if d := a.Annotations["description"]; d != "" && (len(ev.Shares) > 0 || utf8.RuneCountInString(d) > maxFix) {
		facts = append(facts, plain(d, maxText))
	}
	if a.Unavailable != "" {
		facts = append(facts, ":warning: "+plain(a.Unavailable, maxText))
	}
	if ev.Differs != "" {
		facts = append(facts, "*Where* "+plain(ev.Differs, maxText))
	}
	if last := markup.LastFailure(a); last != "" && a.State == alerts.Firing {
		facts = append(facts, last)
	}
	if ev.Window > 0 && ev.Calls > 0 {
		facts = append(facts, fmt.Sprintf("*Window* %s, %s", quantity.Span(ev.Window), quantity.Plural(ev.Calls, "call")))
	}
	if len(facts) > 0 {
		add("", facts...)
	}
	var reasons []string
	reasons = append(reasons, bullets(markup.Causes(ev, true))...)
	if reasons = append(reasons, markup.Hidden(a.Hides)...); len(reasons) > 0 {
		add("Why", reasons...)
	}
	if lines := markup.WhoseChange(ev, a.StartsAt, false); ev.Failed > 0 && len(lines) > 0 {
		add("Whose change", bullets(lines)...)
	}
	if x := ev.Example; x != nil {
		add("Proof", append(markup.Proof(x), markup.FurtherExamples(ev.More)...)...)
	} else if ev.Failed > 0 {
		add("Proof", "No example is available.")
	}
	if text := wording.Fix(a); text != "" {
		add("What to do", plain(text, maxSection/2))
	}
	if lines := commands(a, access); len(lines) > 0 {
		add("Investigate", lines...)
	}
	return out
}

// fold adds a container of details that is collapsed until someone opens it.
func (m *message) fold(title string, blocks []slack.Block) {
	if len(blocks) == 0 {
		return
	}
	c := slack.NewContainerBlock(blocks...).WithCollapsible(true, true)
	m.details = append(m.details, c.WithTitle(slack.NewTextBlockObject(slack.PlainTextType, wording.Truncate(title, maxHeader), false, false)))
}

// all returns the blocks of m.
func (m *message) all() []slack.Block { return slices.Concat(m.blocks, m.details) }

// unfolded returns the blocks of m without containers, for a Slack that rejects them.
func (m *message) unfolded() []slack.Block {
	out := slices.Clone(m.blocks)
	for _, b := range m.details {
		if c, ok := b.(*slack.ContainerBlock); ok {
			out = append(append(out, slack.NewDividerBlock()), c.ChildBlocks.BlockSet...)
		}
	}
	return out[:min(len(out), maxBlocks)]
}

// context adds a line in small print.
func (m *message) context(line string) {
	m.blocks = append(m.blocks, slack.NewContextBlock("", slack.NewTextBlockObject(slack.MarkdownType, line, false, true)))
}

// notification returns the text on a lock screen: what fails, why, and since which version.
func notification(g alerts.Group, current []alerts.Alert, title string) string {
	if len(current) == 0 {
		return escape(title)
	}
	a := current[wording.Main(current)]
	text := title
	if shares := a.Evidence.Shares; len(shares) > 0 {
		text += ": " + wording.Why(&a.Evidence, 0)
		if first := markup.FirstVersion(a.Evidence, a.StartsAt); first != "" {
			text += ", first seen in " + first
		}
	}
	if g.Muted() {
		text += " (muted)"
	}
	return plain(text, maxText)
}

// section returns one block of lines under a bold title. Lines beyond Slack's limit are omitted. If whole is true, clients
// never shorten it.
func section(whole bool, title string, lines ...string) slack.Block {
	text := ""
	if title != "" {
		text = "*" + title + "*"
	}
	for _, l := range lines {
		if utf8.RuneCountInString(text)+utf8.RuneCountInString(l) > maxSection-10 {
			text += "\n…"
			break
		}
		if text != "" {
			text += "\n"
		}
		text += l
	}
	return slack.NewSectionBlock(slack.NewTextBlockObject(slack.MarkdownType, text, false, true), nil, nil, slack.SectionBlockOptionExpand(whole))
}

// section adds one block of lines that clients never shorten.
func (m *message) section(title string, lines ...string) {
	m.blocks = append(m.blocks, section(true, title, lines...))
}

func bullets(lines []string) []string {
	for i := range lines {
		lines[i] = "• " + lines[i]
	}
	return lines
}
