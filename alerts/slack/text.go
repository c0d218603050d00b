package slack

import (
	"fmt"
	"strings"
	"time"

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

// markup is that of Slack, mrkdwn.
var markup = &wording.Markup{
	Escape: func(text string) string { return escape(strings.ReplaceAll(text, "`", "'")) },
	Bold:   func(text string) string { return "*" + text + "*" },
	Mono:   func(text string) string { return "`" + text + "`" },
	Quote:  func(text string) string { return "> " + text },
	Date:   date, Minute: minute, Clock: clock, Mention: mention,
	Link: func(url, text string) string { return "<" + escape(url) + "|" + text + ">" },
}

// plain makes untrusted text safe in mrkdwn: one line of at most n characters before escaping.
func plain(text string, n int) string { return markup.Plain(text, n) }

// code formats an untrusted name or id as code.
func code(name string) string { return markup.Code(name, maxName) }

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
