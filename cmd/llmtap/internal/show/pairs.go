package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

const (
	maxID      = 64 // maximum characters of an id or a name
	shortReply = 60 // maximum characters of a reply beside its call
)

// pairs returns the calls with their replies, and the messages between them.
func (v *view) pairs(c *Comparison) (lines []Line) {
	mark := func(mark byte, text string) { lines = append(lines, Line{Mark: mark, Text: text}) }
	for i := range c.Calls {
		p := &c.Calls[i]
		id := strings.TrimPrefix((&records.Part{Kind: records.Call, ID: p.ToolCallID, Name: p.ToolName}).Title(), "calls ")
		if !p.Called && !p.Sent && len(p.Replies) > 0 {
			whom := "a call without an id"
			if who := cmp.Or(p.ToolCallID, p.ToolName); who != "" {
				whom = terminal.Clip(who, shownLabel) + ", which no call of this request has"
			}
			mark('+', fmt.Sprintf("message %d answers %s%s", p.Replies[0], whom, v.reply(c, p, 0)))
			continue
		}
		switch {
		case p.Called && !p.Sent:
			mark('-', id+" is not in the request")
		case len(p.Replies) == 0:
			mark('-', id+" has no reply")
		}
		for j, at := range p.Replies {
			sign := byte(' ')
			if j > 0 || at == c.fault {
				sign = '+'
			}
			mark(sign, fmt.Sprintf("%s is answered by message %d%s", id, at, v.reply(c, p, j)))
		}
	}
	for _, i := range c.Between {
		m, where := &c.request[i], "follows"
		if slices.ContainsFunc(c.Calls, func(p Pair) bool { return len(p.Replies) > 0 && slices.Max(p.Replies) > i }) {
			where = "is between calls and replies"
		}
		mark('+', fmt.Sprintf("message %d (%s) %s: %s", i, terminal.Clip(m.Role, maxID), where, v.short(m.Said(), shortReply)))
	}
	return lines
}

// reply returns the text of reply j of p, cut around its difference from the first reply.
func (v *view) reply(c *Comparison, p *Pair, j int) string {
	texts := make([]string, 0, len(p.Replies))
	seen := map[int]int{}
	for _, at := range p.Replies {
		n := seen[at]
		seen[at]++
		text := ""
		for _, r := range c.request[at].Replies() {
			if r.ID != p.ToolCallID || r.ID == "" && r.Name != p.ToolName && r.Name != "" {
				continue
			}
			if n == 0 {
				text = plain(&r)
				break
			}
			n--
		}
		texts = append(texts, terminal.Line(text))
	}
	text, at := texts[j], 0
	if j > 0 && texts[0] == text {
		return ": the same reply"
	}
	if len(texts) > 1 {
		at = firstDifference(texts[0], texts[1])
	}
	switch {
	case text == "":
		return ""
	case v.full:
		return ": " + text
	case at > 0:
		return ": " + terminal.Around(text, at, shortReply)
	}
	return ": " + terminal.Middle(text, shortReply)
}
