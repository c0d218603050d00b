package slack

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html"
	"html/template"
	"net/http"
	"regexp"
	"strings"
	"time"
)

//go:embed page.html
var pageSource string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"mrkdwn": htmlOf, "plain": func(raw json.RawMessage) string { return emoji(textOf(raw)) },
	"mark":  func(raw json.RawMessage) template.HTML { return htmlOf(textOf(raw)) },
	"rich":  func(e element) string { return rich(e) },
	"part":  func(m view, b block) any { return part{m, b} },
	"inner": func(b block) []block { return b.inner() },
	"clock": func(t time.Time) string { return t.Local().Format("15:04:05") },
}).Parse(pageSource))

// A view is a message on the page.
type view struct {
	Message
	Blocks []block
	HTML   template.HTML // of the text, if there are no blocks
	Thread []view
	Notes  []Note
}

// A part is one block of a message.
type part struct {
	Message view
	Block   block
}

// servePage serves the channels as a web page, on which buttons can be pressed.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
	type channel struct {
		Name     string
		Messages []view
	}
	var data struct {
		Channels []channel
		Failure  string
	}
	data.Failure = r.URL.Query().Get("failure")
	notes := s.Notes()
	threads := map[string][]view{}
	var top []view
	for _, m := range s.Messages() {
		v := view{Message: m, Blocks: m.blocks()}
		if len(v.Blocks) == 0 {
			v.HTML = htmlOf(m.Text)
		}
		for _, n := range notes {
			if n.Channel == m.Channel && n.TS == m.TS {
				v.Notes = append(v.Notes, n)
			}
		}
		if m.ThreadTS != "" {
			threads[m.Channel+m.ThreadTS] = append(threads[m.Channel+m.ThreadTS], v)
		} else {
			top = append(top, v)
		}
	}
	for i, name := range s.cfg.Channels {
		c := channel{Name: name}
		for _, v := range top {
			if v.Channel == channelID(i) {
				v.Thread = threads[v.Channel+v.TS]
				c.Messages = append(c.Messages, v)
			}
		}
		data.Channels = append(data.Channels, c)
	}
	var out bytes.Buffer
	if err := page.Execute(&out, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(out.Bytes()) // the browser has gone
}

// servePress presses a button for the page.
func (s *Server) servePress(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	back := "/"
	if err := s.Press(r.Context(), r.FormValue("channel"), r.FormValue("ts"), r.FormValue("action"), r.FormValue("option")); err != nil {
		back = "/?failure=" + template.URLQueryEscaper(err.Error())
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
}

// blocks returns the blocks of m, with those of its attachments.
func (m *Message) blocks() (list []block) {
	_ = json.Unmarshal(m.Blocks, &list) // checked when the message was posted
	var attachments []attachment
	_ = json.Unmarshal(m.Attachments, &attachments)
	for _, a := range attachments {
		var inner []block
		_ = json.Unmarshal(a.Blocks, &inner)
		list = append(list, inner...)
	}
	return list
}

var codePattern = regexp.MustCompile("```(?s:(.+?))```|`([^`\n]+)`")

// htmlOf renders Slack's markup as HTML.
func htmlOf(s string) template.HTML {
	var b strings.Builder
	for {
		at := codePattern.FindStringSubmatchIndex(s)
		if at == nil {
			break
		}
		b.WriteString(spans(s[:at[0]]))
		if at[2] >= 0 {
			b.WriteString("<pre>" + clean(strings.Trim(s[at[2]:at[3]], "\n")) + "</pre>")
		} else {
			b.WriteString("<code>" + clean(s[at[4]:at[5]]) + "</code>")
		}
		s = s[at[1]:]
		if at[2] >= 0 {
			s = strings.TrimPrefix(s, "\n")
		}
	}
	b.WriteString(spans(s))
	return template.HTML(b.String()) //nolint:gosec // all parts are escaped
}

// clean escapes text in which Slack's three characters are escaped.
func clean(s string) string { return html.EscapeString(html.UnescapeString(s)) }

// spans renders text without code.
func spans(s string) string {
	var b strings.Builder
	for {
		at := linkPattern.FindStringSubmatchIndex(s)
		if at == nil {
			break
		}
		b.WriteString(clean(s[:at[0]]))
		target := s[at[2]:at[3]]
		switch label := link(s[at[0]:at[1]]); {
		case strings.HasPrefix(target, "https://"), strings.HasPrefix(target, "http://"):
			if at[4] >= 0 {
				label = s[at[4]:at[5]]
			}
			b.WriteString(`<a href="` + clean(target) + `">` + clean(label) + "</a>")
		case strings.HasPrefix(target, "!date^"):
			b.WriteString(clean(label))
		case target == "@"+personID:
			b.WriteString(`<span class="mention">@you</span>`)
		default:
			b.WriteString(`<span class="mention">` + clean(label) + "</span>")
		}
		s = s[at[1]:]
	}
	b.WriteString(clean(s))
	out := emoji(b.String())
	for i, p := range markPatterns {
		tag := []string{"b", "i", "s"}[i]
		for range 2 { // adjacent matches share a space
			out = p.ReplaceAllString(out, "$1<"+tag+">$2</"+tag+">$3")
		}
	}
	return strings.ReplaceAll(out, "\n", "<br>")
}
