package wording

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Lengths in characters of parts of a text.
const (
	maxHeadline = 150
	maxName     = 80
	// maxSeverity bounds a severity, which a rule may take from a label.
	maxSeverity = 20
	maxText     = 300
	// maxShares and maxVersions bound the number of lines about causes and about versions.
	maxShares   = 5
	maxVersions = 5
	maxMuted    = 5 // lines about silences and inhibitors
)

// A Markup is how a medium writes what is said about alerts. Its functions get one line of text.
type Markup struct {
	Escape              func(text string) string // makes untrusted text literal
	Bold, Mono          func(escaped string) string
	Quote               func(escaped string) string
	Date, Minute, Clock func(time.Time) string // day and seconds, day and minute, seconds
	Link                func(url, escaped string) string
	Mention             func(id string) string // who has this id in the medium, or ""; may be nil
}

// Plain returns untrusted text as one line of at most n characters before escaping.
func (m *Markup) Plain(text string, n int) string { return m.Escape(OneLine(text, n)) }

// Code returns an untrusted name or id of at most n characters as code.
func (m *Markup) Code(name string, n int) string {
	if s := m.Plain(name, n); s != "" {
		return m.Mono(s)
	}
	return "(none)"
}

func (m *Markup) code(name string) string { return m.Code(name, maxName) }

// Person returns the mention of a person, the name, or else the id, and otherwise "someone".
func (m *Markup) Person(id, name string) string {
	if m.Mention != nil {
		if who := m.Mention(id); who != "" {
			return who
		}
	}
	for _, s := range []string{name, id} {
		if s = m.Plain(s, maxName); s != "" {
			return s
		}
	}
	return "someone"
}

// OneLine collapses whitespace, removes characters that hide or reorder others, and truncates text to n characters. Of a text
// of several MB, it reads little more.
func OneLine(text string, n int) string {
	text = Truncate(text, 4*n+1000)
	text = strings.Join(strings.Fields(text), " ")
	return Truncate(strings.Map(visible, text), n)
}

// visible returns r, or -1 for control characters, spaces without a width and marks of the direction of text. Joiners
// stay: emoji and some scripts need them.
func visible(r rune) rune {
	if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u200b' || r == '\u2060' || r == '\ufeff' {
		return -1
	}
	return r
}

// message returns the position of a defect in a request as code.
func (m *Markup) message(i int) string { return m.Mono(fmt.Sprintf("messages[%d]", i)) }
