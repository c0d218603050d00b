package thread

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
)

const (
	maxSubject  = 120
	maxText     = 1500 // of a fix or a description, so that a message has at most 28 kB, which Teams accepts
	maxSeverity = 20
	maxCauses   = 3
	maxOthers   = 3
	maxIssueURL = 2000 // in bytes
)

// A Message is one message of an incident.
type Message struct {
	ID      string // the same for every attempt to send it: 32 hex digits
	First   string // ID of the first message of the incident
	Last    string // ID of the message before this one; "" if there is none
	Subject string // the same for all messages of the incident
	// Reference names the first message, with its time; "" in the first.
	Reference string // for media that do not show threads

	Severity string // of the worst alert
	Firing   bool
	Title    string // with an icon, such as "🔴 CRITICAL checkout-agent/planner: 43 of 98 calls failed (44%)"
	Since    Line
	News     []Line // what has changed since the message before
	Facts    []Fact // why, whose change, proof, fix and so on
	Links    []Link // that of the page of llmtap first
	Host     string // on which the commands run; "" if it is any
	Commands []string
}

// A Fact is a named part of a message.
type Fact struct {
	Name  string
	Lines []Line
}

// A Link is a web page.
type Link struct{ Text, URL string }

// A Line is text in parts with different fonts.
type Line []Span

// A Span is a part of a Line. It is not escaped.
type Span struct {
	Text       string
	Bold, Mono bool
}

// String returns the text of l.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Marks of fonts in a text. They cannot be part of untrusted text, because wording.OneLine removes control characters.
const (
	bold  = "\x01"
	mono  = "\x02"
	plain = "\x03"
)

var mark = &wording.Markup{
	Escape: same, Quote: same,
	Bold: func(s string) string { return bold + s + plain },
	Mono: func(s string) string { return mono + s + plain },
	Date: utc("2006-01-02 15:04:05 UTC"), Minute: utc("2006-01-02 15:04 UTC"), Clock: utc("15:04:05 UTC"),
	Link: func(_, text string) string { return text },
}

func same(s string) string { return s }

func utc(layout string) func(time.Time) string {
	return func(t time.Time) string { return t.UTC().Format(layout) }
}

// icons are the icons of wording as characters.
var icons = strings.NewReplacer(":red_circle:", "🔴", ":large_orange_circle:", "🟠", ":large_blue_circle:", "🔵", ":large_green_circle:", "🟢", ":white_circle:", "⚪",
	":hourglass:", "⏳", ":bell:", "🔔", ":no_bell:", "🔕", ":eyes:", "👀", ":link:", "🔗", ":warning:", "⚠️", ":rotating_light:", "🚨", ":white_check_mark:", "✅", ":bust_in_silhouette:", "👤")

// lines returns marked texts as lines.
func lines(texts []string) (out []Line) {
	for _, text := range texts {
		for one := range strings.SplitSeq(icons.Replace(text), "\n") {
			out = append(out, line(one))
		}
	}
	return out
}

func line(text string) (out Line) {
	for part := range strings.SplitSeq(text, plain) {
		before, marked, kind := part, "", ""
		if i := strings.IndexAny(part, bold+mono); i >= 0 {
			before, kind, marked = part[:i], part[i:i+1], part[i+1:]
		}
		if before != "" {
			out = append(out, Span{Text: before})
		}
		if marked != "" {
			out = append(out, Span{Text: marked, Bold: kind == bold, Mono: kind == mono})
		}
	}
	return out
}

// newMessage returns the message about g, or nil if readers know all of it.
func newMessage(g *alerts.Group, r *record, access alerts.Access) *Message {
	current := g.Current()
	if len(current) == 0 {
		return nil
	}
	a := wording.Whole(*g, current)
	m := &Message{
		First: r.First, Last: r.Last, Subject: r.Subject, Reference: r.reference(), Severity: wording.OneLine(a.Severity(), maxSeverity), Firing: g.Firing(),
		Title: icons.Replace(wording.GroupHeadline(*g, current)), Since: line(mark.Since(a)),
	}
	var news []string
	if r.Count > 0 {
		news = mark.StatusNews(*g, r.Told)
		if !g.Muted() {
			news = append(news, mark.News(*g, r.Sent)...)
		}
		if len(news) == 0 && g.Repeat {
			news = mark.Reminder(*g)
		}
		if len(news) == 0 {
			return nil
		}
		m.News = lines(news)
	}
	m.facts(g, current, a, news)
	m.links(g, access)
	if r.Count == 0 {
		m.Commands, m.Host = wording.Commands(access, &a), access.Host
	}
	return m
}

func (m *Message) add(name string, texts ...string) {
	texts = slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	if len(texts) > 0 {
		m.Facts = append(m.Facts, Fact{name, lines(texts)})
	}
}

// facts adds what is known of a, the main alert of g, and not in news.
func (m *Message) facts(g *alerts.Group, current []alerts.Alert, a alerts.Alert, news []string) {
	ev := &a.Evidence
	causes := mark.Causes(*ev, true)
	if n := len(causes) - maxCauses; n > 0 {
		causes = append(causes[:maxCauses], fmt.Sprintf("%d more", n))
	}
	if len(causes) == 0 {
		causes = []string{mark.Plain(a.Annotations["description"], maxText)}
	}
	m.add("Why", causes...)
	if change := mark.WhoseChange(*ev, a.StartsAt, true); ev.Failed > 0 && len(change) > 0 {
		m.add("Change", change[0])
	}
	if m.Reference == "" { // else the first message has it
		m.add("Where", mark.Plain(ev.Differs, maxText))
	}
	if x := ev.Example; x != nil && m.Reference == "" {
		m.add("Proof", mark.Proof(x)...)
	}
	title := "Fix"
	if len(ev.Shares) == 0 || ev.Shares[0].Fix == "" {
		title = "Next"
	}
	if a.State == alerts.Resolved {
		title += " unless done"
	}
	m.add(title, mark.Plain(wording.Fix(a), maxText))
	if hidden := mark.Hidden(a.Hides); len(hidden) > 0 {
		m.add("Hides", append([]string{strings.TrimPrefix(hidden[0], "Hides ")}, hidden[1:]...)...)
	}
	var others []string
	first := wording.Main(current)
	for i, other := range current {
		if i != first {
			others = append(others, wording.Icon(other)+" "+mark.Plain(wording.Other(other), maxSubject))
		}
	}
	if n := len(others); n > maxOthers {
		others = append(others[:maxOthers-1], fmt.Sprintf("… and %d more alerts", n-maxOthers+1))
	}
	m.add("Also", others...)
	m.add("Status", slices.DeleteFunc(mark.Status(*g), func(s string) bool { return slices.Contains(news, s) })...)
	notes := []string{mark.Plain(a.Unavailable, maxText)}
	if a.FoundLate {
		notes = append(notes, "Found late: llmtap was behind by more than a minute.")
	}
	m.add("Note", notes...)
	if last := line(mark.LastFailure(a)); a.State == alerts.Firing && len(last) > 0 { // else it is news
		m.Since = append(append(m.Since, Span{Text: " · "}), last...)
	}
}

// links adds the page of llmtap, that of the conversation, and the form of a new issue.
func (m *Message) links(g *alerts.Group, access alerts.Access) {
	a := g.Worst()
	add := func(url, text string) {
		if url != "" {
			m.Links = append(m.Links, Link{text, url})
		}
	}
	text := "Open incident"
	if a.Problem != "" {
		text = "Open problem"
	}
	add(wording.AlertURL(access.ExternalURL, g, &a), text)
	if x := a.Evidence.Example; x != nil {
		add(wording.ConversationURL(access.ExternalURL, x.Conversation), "Open conversation")
	}
	if access.IssueURL != "" {
		title, body := wording.Issue(access, g, &a)
		add(wording.IssueURL(access.IssueURL, title, body, maxIssueURL), "New issue")
	}
}
