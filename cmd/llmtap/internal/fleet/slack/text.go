package slack

import (
	"encoding/json"
	"html"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The checked and rendered parts of Block Kit.
type (
	block struct {
		Type     string          `json:"type"`
		Text     json.RawMessage `json:"text"` // a text object, or a string in a markdown block
		Fields   []textObject    `json:"fields"`
		Elements []element       `json:"elements"`
		Title    json.RawMessage `json:"title"`        // of a container, as ChildBlocks
		Children json.RawMessage `json:"child_blocks"` // blocks
	}
	textObject struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	element struct {
		Type     string          `json:"type"`
		Text     json.RawMessage `json:"text"` // a string, or a button's text object
		URL      string          `json:"url"`
		Elements []element       `json:"elements"` // set in rich text

		// Set in buttons and menus.
		ActionID    string          `json:"action_id"`
		Value       string          `json:"value"`
		Style       string          `json:"style"`
		Placeholder json.RawMessage `json:"placeholder"`
		Options     []option        `json:"options"`
		Confirm     *confirmation   `json:"confirm"`
	}
	option struct {
		Text  json.RawMessage `json:"text"`
		Value string          `json:"value"`
	}
	confirmation struct {
		Title json.RawMessage `json:"title"`
		Text  json.RawMessage `json:"text"`
	}
	attachment struct {
		Blocks   json.RawMessage `json:"blocks"`
		Title    string          `json:"title"`
		Text     string          `json:"text"`
		Fallback string          `json:"fallback"`
	}
)

// checkBlocks rejects unknown types, missing texts, and texts and lists over Slack's limits.
func checkBlocks(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	var blocks []block
	if json.Unmarshal(raw, &blocks) != nil {
		return refusal("invalid_blocks_format")
	}
	ok := len(blocks) <= 50
	for _, b := range blocks {
		switch text := textOf(b.Text); b.Type {
		case "header":
			ok = ok && within(text, 150)
		case "section":
			ok = ok && (within(text, 3000) || text == "" && len(b.Fields) > 0) && len(b.Fields) <= 10
			for _, f := range b.Fields {
				ok = ok && within(f.Text, 2000)
			}
		case "markdown":
			ok = ok && within(text, 12000)
		case "context":
			ok = ok && len(b.Elements) > 0 && len(b.Elements) <= 10
		case "actions":
			ok = ok && len(b.Elements) > 0 && len(b.Elements) <= 25
			for _, e := range b.Elements {
				ok = ok && (e.Type != "button" || within(textOf(e.Text), 75))
			}
		case "container":
			ok = ok && within(textOf(b.Title), 150) && len(b.inner()) > 0 && len(b.inner()) <= 10 && checkBlocks(b.Children) == nil
		case "divider", "rich_text", "image":
		default:
			ok = false
		}
	}
	if !ok {
		return refusal("invalid_blocks")
	}
	return nil
}

// inner returns the blocks in a container.
func (b *block) inner() (list []block) {
	_ = json.Unmarshal(b.Children, &list) // none if it is invalid
	return list
}

func within(s string, limit int) bool { return s != "" && utf8.RuneCountInString(s) <= limit }

// textOf returns the text of a string or a text object.
func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var o textObject
	if json.Unmarshal(raw, &o) == nil {
		return o.Text
	}
	return ""
}

// Text renders m for a terminal as the channel displays it: its blocks, else its text, and attachments marked by a bar.
func Text(m Message) string {
	var b strings.Builder
	writeBlocks(&b, m.Blocks)
	if b.Len() == 0 && m.Text != "" {
		b.WriteString(mrkdwn(m.Text) + "\n")
	}
	var attachments []attachment
	if json.Unmarshal(m.Attachments, &attachments) == nil {
		for _, a := range attachments {
			var inner strings.Builder
			writeBlocks(&inner, a.Blocks)
			if inner.Len() == 0 {
				inner.WriteString(mrkdwn(strings.TrimSpace(a.Title+"\n"+a.Text)) + "\n")
			}
			for line := range strings.Lines(inner.String()) {
				b.WriteString("┃ " + line)
			}
		}
	}
	return b.String()
}

func writeBlocks(b *strings.Builder, raw json.RawMessage) {
	var blocks []block
	if json.Unmarshal(raw, &blocks) != nil {
		return
	}
	for i, bl := range blocks {
		if i > 0 && bl.Type != "context" && bl.Type != "divider" {
			b.WriteString("\n")
		}
		switch bl.Type {
		case "header":
			title := emoji(textOf(bl.Text))
			b.WriteString(title + "\n" + strings.Repeat("═", utf8.RuneCountInString(title)) + "\n")
		case "divider":
			b.WriteString(strings.Repeat("─", 60) + "\n")
		case "actions":
			for j, e := range bl.Elements {
				if j > 0 {
					b.WriteString("  ")
				}
				if e.Type == "static_select" {
					b.WriteString("[ " + emoji(textOf(e.Placeholder)) + " ▾ ]")
					continue
				}
				b.WriteString("[ " + emoji(textOf(e.Text)) + " ]")
			}
			b.WriteString("\n")
		case "context":
			var parts []string
			for _, e := range bl.Elements {
				parts = append(parts, mrkdwn(textOf(e.Text)))
			}
			b.WriteString(strings.Join(parts, "  ") + "\n")
		case "rich_text":
			for _, e := range bl.Elements {
				b.WriteString(rich(e) + "\n")
			}
		case "container":
			b.WriteString("▸ " + emoji(textOf(bl.Title)) + "\n")
			writeBlocks(b, bl.Children)
		default:
			if text := textOf(bl.Text); text != "" {
				b.WriteString(mrkdwn(text) + "\n")
			}
			writeFields(b, bl.Fields)
		}
	}
}

// writeFields writes the fields of a section in two columns, as Slack does; a field with several lines gets its own row.
func writeFields(b *strings.Builder, fields []textObject) {
	const column = 36
	for i := 0; i < len(fields); i += 2 {
		left := strings.Split(mrkdwn(fields[i].Text), "\n")
		var right []string
		if i+1 < len(fields) {
			right = strings.Split(mrkdwn(fields[i+1].Text), "\n")
		}
		for j := range max(len(left), len(right)) {
			var l, r string
			if j < len(left) {
				l = left[j]
			}
			if j < len(right) {
				r = right[j]
			}
			pad := max(2, column-utf8.RuneCountInString(l))
			b.WriteString(strings.TrimRight(l+strings.Repeat(" ", pad)+r, " ") + "\n")
		}
	}
}

// rich renders rich text.
func rich(e element) string {
	s := emoji(textOf(e.Text))
	if s == "" {
		s = e.URL
	}
	for _, inner := range e.Elements {
		s += rich(inner)
	}
	return s
}

var (
	linkPattern  = regexp.MustCompile(`<([^<>|]+)(?:\|([^<>]*))?>`)
	emojiPattern = regexp.MustCompile(`:[a-z0-9_+-]+:`)
	// markPatterns match *bold*, _italic_ and ~struck~ at word boundaries, but not the underscores in a name.
	markPatterns = []*regexp.Regexp{
		regexp.MustCompile("(^|[\\s(])\\*([^*\\s](?:[^*\n]*[^*\\s])?)\\*($|[\\s.,:;!?)])"),
		regexp.MustCompile("(^|[\\s(])_([^_\\s](?:[^_\n]*[^_\\s])?)_($|[\\s.,:;!?)])"),
		regexp.MustCompile("(^|[\\s(])~([^~\\s](?:[^~\n]*[^~\\s])?)~($|[\\s.,:;!?)])"),
	}
)

// mrkdwn renders Slack's markup as plain text: links become "label (address)", and outside code, marks for bold and italic
// are removed.
func mrkdwn(s string) string {
	parts := strings.Split(s, "```")
	for i := range parts {
		if i%2 == 1 && i < len(parts)-1 {
			parts[i] = html.UnescapeString(strings.Trim(parts[i], "\n"))
			parts[i] = "    " + strings.ReplaceAll(parts[i], "\n", "\n    ")
			continue
		}
		parts[i] = linkPattern.ReplaceAllStringFunc(parts[i], link)
		for _, p := range markPatterns {
			// Twice, because adjacent matches share a space.
			parts[i] = p.ReplaceAllString(p.ReplaceAllString(parts[i], "$1$2$3"), "$1$2$3")
		}
		parts[i] = html.UnescapeString(emoji(parts[i]))
	}
	return strings.Join(parts, "")
}

func link(s string) string {
	m := linkPattern.FindStringSubmatch(s)
	target, label := m[1], m[2]
	switch {
	case strings.HasPrefix(target, "!"): // <!here>, <!date^…|fallback>
		if label != "" {
			return label
		}
		return "@" + target[1:]
	case label == "" || label == target:
		return target
	}
	return label + " (" + target + ")"
}

var emojis = map[string]string{
	":rotating_light:": "🚨", ":red_circle:": "🔴", ":large_orange_circle:": "🟠", ":large_yellow_circle:": "🟡",
	":large_green_circle:": "🟢", ":white_check_mark:": "✅", ":warning:": "⚠️", ":x:": "❌", ":fire:": "🔥", ":bulb:": "💡",
	":eyes:": "👀", ":mute:": "🔇", ":no_entry:": "⛔", ":link:": "🔗", ":hourglass:": "⏳", ":large_blue_circle:": "🔵", ":mag:": "🔍", ":bell:": "🔔", ":no_bell:": "🔕", ":information_source:": "ℹ️",
	":white_circle:": "⚪", ":bust_in_silhouette:": "👤",
}

// emoji replaces the names of the emojis used in alerts.
func emoji(s string) string {
	return emojiPattern.ReplaceAllStringFunc(s, func(name string) string {
		if e, ok := emojis[name]; ok {
			return e
		}
		return name
	})
}
