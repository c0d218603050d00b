package msteams

import (
	"strings"

	"github.com/llmtap/llmtap/alerts/thread"
)

// A post is the body of a request. Alertmanager sends the same form.
type post struct {
	Type        string       `json:"type"`
	Attachments []attachment `json:"attachments"`
}

type attachment struct {
	ContentType string  `json:"contentType"`
	ContentURL  *string `json:"contentUrl"` // null
	Content     card    `json:"content"`
}

// A card is an Adaptive Card, see https://adaptivecards.io/explorer (2026-11). Teams shows up to version 1.5 on computers, and 1.2 on phones.
type card struct {
	Schema  string    `json:"$schema"`
	Type    string    `json:"type"`
	Version string    `json:"version"`
	Body    []element `json:"body"`
	Actions []action  `json:"actions,omitempty"`
	MSTeams width     `json:"msteams"`
}

type width struct {
	Width string `json:"width"`
}

// An element is a RichTextBlock: unlike those of a TextBlock, its texts are no Markdown, so no label becomes a link.
type element struct {
	Type      string `json:"type"`
	Inlines   []run  `json:"inlines"`
	Separator bool   `json:"separator,omitempty"`
	Spacing   string `json:"spacing,omitempty"`
}

type run struct {
	Type     string  `json:"type"`
	Text     string  `json:"text"`
	Weight   string  `json:"weight,omitempty"`
	Size     string  `json:"size,omitempty"`
	FontType string  `json:"fontType,omitempty"`
	Subtle   bool    `json:"isSubtle,omitempty"`
	Color    string  `json:"color,omitempty"`
	Select   *action `json:"selectAction,omitempty"`
}

type action struct {
	Type  string `json:"type"`
	Title string `json:"title,omitempty"`
	URL   string `json:"url"`
}

// newPost returns the post of m: the title, which is a link to llmtap's page, since when, what has changed, why, whose change, proof and fix.
func newPost(m *thread.Message) post {
	title := run{Type: "TextRun", Text: m.Title, Weight: "bolder", Size: "medium", Color: color(m)}
	c := card{Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard", Version: "1.2", MSTeams: width{"Full"}}
	for i, l := range m.Links {
		c.Actions = append(c.Actions, action{"Action.OpenUrl", l.Text, l.URL})
		if i == 0 {
			title.Select = &action{Type: "Action.OpenUrl", URL: l.URL}
		}
	}
	add := func(spacing string, runs ...run) {
		c.Body = append(c.Body, element{Type: "RichTextBlock", Inlines: runs, Spacing: spacing})
	}
	add("", title)
	for _, l := range m.News {
		add("", runs(l)...)
	}
	add("small", subtle(m.Since)...)
	if m.Reference != "" {
		add("small", subtle(thread.Line{{Text: "About: " + m.Reference}})...)
	}
	for _, f := range m.Facts {
		for i, l := range f.Lines {
			if i == 0 {
				add("small", append([]run{{Type: "TextRun", Text: f.Name + ": ", Weight: "bolder"}}, runs(l)...)...)
				continue
			}
			add("none", runs(l)...)
		}
	}
	if len(m.Commands) > 0 {
		if m.Host != "" {
			add("small", runs(thread.Line{{Text: "On "}, {Text: m.Host, Mono: true}, {Text: ":"}})...)
		}
		add("small", runs(thread.Line{{Text: strings.Join(m.Commands, "\n"), Mono: true}})...)
	}
	return post{Type: "message", Attachments: []attachment{{ContentType: "application/vnd.microsoft.card.adaptive", Content: c}}}
}

func runs(l thread.Line) (out []run) {
	for _, s := range l {
		r := run{Type: "TextRun", Text: s.Text}
		if s.Bold {
			r.Weight = "bolder"
		}
		if s.Mono {
			r.FontType = "monospace"
		}
		out = append(out, r)
	}
	return out
}

func subtle(l thread.Line) []run {
	out := runs(l)
	for i := range out {
		out[i].Subtle, out[i].Size = true, "small"
	}
	return out
}

// color returns the color of the title. Alertmanager uses the same.
func color(m *thread.Message) string {
	switch {
	case !m.Firing:
		return "good"
	case m.Severity == "critical", m.Severity == "page":
		return "attention"
	case m.Severity == "info":
		return "accent"
	}
	return "warning"
}
