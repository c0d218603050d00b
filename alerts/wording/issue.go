package wording

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/llmtap/llmtap/alerts"
)

// Places of a template for the URL of a new issue.
const (
	issueTitle = "{title}"
	issueBody  = "{body}"
)

// maxIssueURL is the longest URL that servers accept, in bytes.
const maxIssueURL = 8000

const (
	maxIssueTitle    = 120 // in characters
	maxIssueTemplate = 500 // in bytes; leaves room for title and body in a message, too
)

// CheckIssueURL returns an error if template is not an http or https URL in which {title} is a parameter.
func CheckIssueURL(template string) error {
	u, err := url.Parse(template)
	switch {
	case err != nil:
		return errors.New("is not a URL") // err contains the URL
	case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return errors.New("is not an http or https URL")
	case u.User != nil:
		return errors.New("contains a user name or password, which everyone who reads a message would see")
	case len(template) > maxIssueTemplate:
		return fmt.Errorf("is longer than %d bytes", maxIssueTemplate)
	case !strings.Contains(u.RawQuery, issueTitle):
		return errors.New("has no {title} after its question mark")
	}
	before, _, _ := strings.Cut(template, "?")
	if strings.Contains(before, issueBody) || strings.Contains(before, issueTitle) || strings.Contains(u.Fragment, "{") {
		return errors.New("has {title} or {body} outside of its parameters")
	}
	return nil
}

// IssueURL returns the URL that opens the form of a new issue with a title and a body in Markdown, from a template that
// CheckIssueURL accepts; "" without a template. It has at most limit bytes: the end of the body is omitted if necessary. The
// limit of a link on a page is MaxIssueURL.
func IssueURL(template, title, body string, limit int) string {
	if template == "" {
		return ""
	}
	fill := func(title, body string) string {
		return strings.NewReplacer(issueTitle, encode(title), issueBody, encode(body)).Replace(template)
	}
	// shorten returns the result with the longest beginning of text that fits.
	shorten := func(text string, with func(string) string) string {
		if out := with(text); len(out) <= limit {
			return out
		}
		n := sort.Search(utf8.RuneCountInString(text), func(n int) bool { return len(with(Truncate(text, n+1))) > limit })
		if n == 0 {
			return with("")
		}
		return with(Truncate(text, n))
	}
	title = Truncate(title, maxIssueTitle)
	if without := fill(title, ""); len(without) > limit {
		return shorten(title, func(t string) string { return fill(t, "") })
	}
	return shorten(body, func(b string) string { return fill(title, b) })
}

// encode percent-encodes a parameter. Not all trackers read a plus sign as a space.
func encode(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}

// Issue returns title and body of an issue about a, an alert of g, in Markdown. Neither contains content of conversations.
func Issue(access alerts.Access, g *alerts.Group, a *alerts.Alert) (title, body string) {
	ev := &a.Evidence
	title = Subject(a) + ": " + Counts(a)
	var b strings.Builder
	item := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "- **%s:** %s\n", name, text)
		}
	}
	if len(ev.Shares) > 0 {
		lead := ev.Lead()
		title = Subject(a) + ": " + Failure(lead)
		item("What", markdown(Counts(a)))
		item("Why", markdown(Failure(lead))+" ("+Kind(ev, lead)+" "+mono(cmp.Or(lead.ID(), "unknown"))+")")
		item("Fix", markdown(lead.Fix))
	} else {
		item("What", markdown(Counts(a)))
		item("Next", markdown(a.Annotations["runbook"]))
	}
	item("Details", AlertURL(access.ExternalURL, g, a))
	item("Since", a.StartsAt.UTC().Format("2006-01-02 15:04 UTC"))
	if x := ev.Example; x != nil {
		proof := mono(cmp.Or(x.Conversation, x.Exchange))
		if x.Message >= 0 && x.Rule != "" {
			proof += fmt.Sprintf(", `messages[%d]`, rule %s", x.Message, mono(x.Rule))
		}
		if u := ConversationURL(access.ExternalURL, x.Conversation); u != "" {
			proof += ", " + u
		}
		item("Example", proof)
	}
	if list := Commands(access, a); len(list) > 0 {
		fmt.Fprintf(&b, "\n```sh\n%s\n```\n", strings.Join(list, "\n"))
	}
	return oneLine(title), b.String()
}

// oneLine returns text without line breaks and characters that hide or reorder others.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Bidi_Control, r) || r == '\u200b' || r == '\u2060' || r == '\ufeff':
			return -1
		}
		return r
	}, text)
}

// markdownSpecial are the characters that form links, images, mentions, HTML and emphasis in Markdown.
const markdownSpecial = "\\`*_[]<>@#!|~"

// markdown escapes text, so that a label is neither a link nor a mention.
func markdown(text string) string {
	var b strings.Builder
	for _, r := range oneLine(Truncate(text, 500)) {
		if strings.ContainsRune(markdownSpecial, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// mono returns text as code in Markdown, on one line.
func mono(text string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '`' || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, Truncate(text, MaxID))
	return "`" + clean + "`"
}
