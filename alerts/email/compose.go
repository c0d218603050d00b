package email

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts/thread"
)

//go:embed mail.html
var page string

var htmlMail = template.Must(template.New("mail").Funcs(template.FuncMap{"color": color}).Parse(page))

// color returns the color of the line beside the title.
func color(m *thread.Message) string {
	switch {
	case !m.Firing:
		return "#1a7f37"
	case m.Severity == "critical", m.Severity == "page":
		return "#c62828"
	case m.Severity == "info":
		return "#1f6feb"
	}
	return "#b35900"
}

// compose returns the mail of m, sent at now.
func (n *Notifier) compose(m *thread.Message, now time.Time) ([]byte, error) {
	var out bytes.Buffer
	head := func(name, value string) { fmt.Fprintf(&out, "%s: %s\r\n", name, value) }
	id := func(id string) string { return "<llmtap." + id + "@" + n.domain() + ">" }
	subject, status := "[llmtap] "+m.Subject, "resolved"
	if m.ID != m.First {
		subject = "Re: " + subject
	}
	if m.Firing {
		status = "firing"
	}
	head("From", n.from.String())
	head("To", list(n.to))
	head("Subject", encoded(subject))
	head("Date", now.Format(time.RFC1123Z))
	head("Message-ID", id(m.ID))
	if m.ID != m.First {
		head("In-Reply-To", id(m.First))
		references := id(m.First)
		if m.Last != "" && m.Last != m.First {
			references += "\r\n " + id(m.Last)
		}
		head("References", references)
	}
	head("Auto-Submitted", "auto-generated") // so that no vacation notice answers
	head("X-Llmtap-Status", status)
	head("X-Llmtap-Severity", encoded(m.Severity))
	for _, name := range slices.Sorted(maps.Keys(n.headers)) {
		head(name, encoded(n.headers[name]))
	}
	parts := multipart.NewWriter(&out)
	head("MIME-Version", "1.0")
	head("Content-Type", `multipart/alternative; boundary="`+parts.Boundary()+`"`)
	out.WriteString("\r\n")
	var html strings.Builder
	if err := htmlMail.Execute(&html, m); err != nil {
		return nil, fmt.Errorf("render HTML: %w", err)
	}
	for _, part := range []struct{ kind, text string }{{"text/plain", text(m)}, {"text/html", html.String()}} { // the best one last
		w, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {part.kind + "; charset=utf-8"}, "Content-Transfer-Encoding": {"quoted-printable"}})
		if err != nil {
			return nil, err
		}
		q := quotedprintable.NewWriter(w)
		if _, err := io.WriteString(q, part.text); err != nil {
			return nil, err
		}
		if err := q.Close(); err != nil {
			return nil, err
		}
	}
	if err := parts.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// encoded returns a value of a header in ASCII, in lines that every server accepts.
func encoded(value string) string {
	return strings.ReplaceAll(mime.QEncoding.Encode("utf-8", value), "?= =?", "?=\r\n =?")
}

func list(addresses []*mail.Address) string {
	var out []string
	for _, a := range addresses {
		out = append(out, a.String())
	}
	return strings.Join(out, ",\r\n ")
}

// text returns m for readers without HTML.
func text(m *thread.Message) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("%s", m.Title)
	if len(m.Links) > 0 {
		say("%s: %s", m.Links[0].Text, m.Links[0].URL)
	}
	for _, l := range m.News {
		say("%s", l)
	}
	say("\n%s", m.Since)
	for _, f := range m.Facts {
		say("\n%s:", f.Name)
		for _, l := range f.Lines {
			say("  %s", l)
		}
	}
	if len(m.Links) > 1 {
		say("")
		for _, l := range m.Links[1:] {
			say("%s: %s", l.Text, l.URL)
		}
	}
	if len(m.Commands) > 0 {
		say("")
		if m.Host != "" {
			say("On %s:", m.Host)
		}
		for _, c := range m.Commands {
			say("  %s", c)
		}
	}
	return b.String()
}
