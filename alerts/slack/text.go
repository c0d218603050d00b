package slack

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/llmtap/llmtap/alerts/wording"
)

// Limits in characters, and of blocks. The limits of headers, sections, contexts and blocks are Slack's own.
const (
	maxHeader  = 150
	maxSection = 3000
	maxContext = 2000
	maxBlocks  = 50
	maxName    = 80
	// maxSeverity bounds a severity, which a rule may take from a label.
	maxSeverity = 20
	maxText     = 300
)

var mrkdwn = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// escape makes text safe in mrkdwn by disabling mentions, links and control sequences.
func escape(text string) string { return mrkdwn.Replace(text) }

// oneLine collapses whitespace, removes characters that hide or reorder others, and truncates text to n characters. Of a text
// of several MB, it reads little more.
func oneLine(text string, n int) string {
	text = wording.Truncate(text, 4*n+1000)
	text = strings.Join(strings.Fields(text), " ")
	return wording.Truncate(strings.Map(visible, text), n)
}

// visible returns r, or -1 for control characters, spaces without a width and marks of the direction of text. Joiners
// stay: emoji and some scripts need them.
func visible(r rune) rune {
	if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u200b' || r == '\u2060' || r == '\ufeff' {
		return -1
	}
	return r
}

// plain makes untrusted text safe in mrkdwn: one line of at most n characters before escaping.
func plain(text string, n int) string {
	return escape(strings.ReplaceAll(oneLine(text, n), "`", "'"))
}

// code formats an untrusted name or id as code.
func code(name string) string { return shortCode(name, maxName) }

// shortCode is code with at most n characters.
func shortCode(name string, n int) string {
	if s := plain(name, n); s != "" {
		return "`" + s + "`"
	}
	return "(none)"
}

// date formats t in the reader's time zone, or in UTC in clients that do not support dates.
func date(t time.Time) string {
	return fmt.Sprintf("<!date^%d^{date_short_pretty} {time_secs}|%s>", t.Unix(), t.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// minute formats t like date, but without seconds.
func minute(t time.Time) string {
	return fmt.Sprintf("<!date^%d^{date_short_pretty} {time}|%s>", t.Unix(), t.UTC().Format("2006-01-02 15:04 UTC"))
}

// clock formats t like date, but without the day.
func clock(t time.Time) string {
	return fmt.Sprintf("<!date^%d^{time_secs}|%s>", t.Unix(), t.UTC().Format("15:04:05 UTC"))
}
