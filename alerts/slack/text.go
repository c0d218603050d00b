package slack

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Slack's limits, in characters, with room for what is put around.
const (
	maxHeader  = 150
	maxSection = 3000
	maxName    = 80
	maxSummary = 300
	maxQuote   = 300
)

var mrkdwn = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// escape makes text safe in mrkdwn: no mention, link or control sequence can be written with it.
func escape(text string) string { return mrkdwn.Replace(text) }

// oneLine folds white space and cuts text to n characters.
func oneLine(text string, n int) string {
	return cut(strings.Join(strings.Fields(strings.ToValidUTF8(text, "\ufffd")), " "), n)
}

// cut shortens text to n characters, the last of them an ellipsis.
func cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	r := []rune(text)
	return string(r[:n-1]) + "…"
}

// plain is a text of others within mrkdwn.
func plain(text string, n int) string {
	return escape(strings.ReplaceAll(oneLine(text, n), "`", "'"))
}

// code is a name or id of others as code.
func code(name string) string {
	if s := plain(name, maxName); s != "" {
		return "`" + s + "`"
	}
	return "(none)"
}

// number is n with thousands separated: 1,030.
func number(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// percent is part of whole as people say it. Only all is 100 %, and only nothing is 0 %.
func percent(part, whole uint64) string {
	if whole == 0 {
		return "0 %"
	}
	p := math.Round(100 * float64(part) / float64(whole))
	switch {
	case part > 0 && p < 1:
		return "<1 %"
	case part < whole && p > 99:
		return ">99 %"
	}
	return fmt.Sprintf("%.0f %%", p)
}

// duration is d in the two largest units that matter.
func duration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 24*time.Hour:
		if m := int(d.Minutes()) % 60; m > 0 {
			return fmt.Sprintf("%d h %d min", int(d.Hours()), m)
		}
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// date is t in the reader's time zone, or in UTC where that cannot be.
func date(t time.Time) string {
	return fmt.Sprintf("<!date^%d^{date_short_pretty} {time_secs}|%s>", t.Unix(), t.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// clock is date without the day.
func clock(t time.Time) string {
	return fmt.Sprintf("<!date^%d^{time_secs}|%s>", t.Unix(), t.UTC().Format("15:04:05 UTC"))
}

// shell quotes an argument of a command that is there to be copied.
func shell(arg string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:/@-", r)
	}
	if arg != "" && strings.IndexFunc(arg, func(r rune) bool { return !safe(r) }) < 0 {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
