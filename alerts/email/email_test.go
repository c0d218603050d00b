package email

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/email/smtptest"
	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var mails = flag.String("mails", "", "write the HTML of the mails of an incident to this directory")

func config(s *smtptest.Server) Config {
	c := Default()
	c.To, c.From, c.Smarthost = "oncall@example.com, Zoë <zoe@example.com>", "llmtap <llmtap@example.com>", s.Addr
	c.AuthUsername, c.AuthPassword, c.TLSConfig = smtptest.User, smtptest.Password, certs.Client{CAFile: s.CAFile}
	return c
}

func open(t *testing.T, c Config, o alerts.NotifierOptions) alerts.Receiver {
	t.Helper()
	o.Access = alerts.Access{ExternalURL: "https://llmtap.example.com/", Host: "collector-1"}
	return must.Get(c.Receivers(o))(t)[0]
}

// An incident is a thread of four mails: it fires, is acknowledged, becomes critical and ends. Numbers and repetitions are none, and a
// restart repeats nothing.
func TestIncident(t *testing.T) {
	s := smtptest.Start(t, "PLAIN LOGIN", false)
	c, store := config(s), &alertstest.Store{}
	c.Headers = map[string]string{"Reply-To": "oncall@example.com", "X-Team": "Änderungen"}
	first := []string{"🟠 WARNING checkout-agent/planner: 412 of 1,030 calls failed (40%)", "👀 Acknowledged by Anna", "🔴 Now CRITICAL: 412 of 1,030 calls failed (40%)", "🟢 Resolved after 6 min"}
	var all strings.Builder
	for i, g := range alertstest.Steps() {
		r := open(t, c, alerts.NotifierOptions{Store: store})
		for range 2 {
			must.Do(t, r.Notify(t.Context(), g))
			g.Alerts = append([]alerts.Alert(nil), g.Alerts...)
			g.Alerts[0].Evidence.Failed++
		}
		list := s.Mails()
		must.Equal(t, len(list), i+1, "mails")
		m := list[i]
		must.Contain(t, m.Text, first[i])
		must.Contain(t, m.HTML, strings.Fields(first[i])[1])
		must.Equal(t, m.From+" "+strings.Join(m.To, " "), "llmtap@example.com oncall@example.com zoe@example.com", "envelope")
		must.Equal(t, m.Header.Get("Reply-To"), "oncall@example.com", "Reply-To")
		if strings.Contains(m.Text+m.HTML, "text of the user") {
			t.Errorf("the mail quotes a conversation:\n%s", m.Text)
		}
		subject, id := "[llmtap] checkout-agent/planner: assistant message saved without its tool_calls", list[0].Header.Get("Message-Id")
		if i > 0 {
			subject = "Re: " + subject
			must.Equal(t, m.Header.Get("In-Reply-To"), id, "In-Reply-To")
			must.Contain(t, m.Header.Get("References"), list[i-1].Header.Get("Message-Id"))
		}
		must.Equal(t, m.Subject, subject, "subject")
		must.Equal(t, m.Header.Get("X-Llmtap-Status")+" "+m.Header.Get("X-Llmtap-Severity"), []string{"firing warning", "firing warning", "firing critical", "resolved critical"}[i], "headers for filters")
		all.WriteString("==================== " + m.Subject + "\n" + m.Text)
		if *mails != "" {
			must.Do(t, os.WriteFile(filepath.Join(*mails, string(rune('1'+i))+".html"), []byte(m.HTML), 0o600))
		}
	}
	alertstest.Golden(t, "mails.txt", all.String())
}

// Each way to begin TLS and to authenticate works, and nothing is sent if one of them fails.
func TestSession(t *testing.T) {
	f := func(auth string, implicit bool, change func(*Config), want string) {
		t.Helper()
		s := smtptest.Start(t, auth, implicit)
		c := config(s)
		change(&c)
		r := open(t, c, alerts.NotifierOptions{})
		r.Notifier.(*Notifier).server.implicit = implicit
		r.Notifier.(*Notifier).server.startTLS = c.RequireTLS && !implicit
		_, checked := r.Check(t.Context())
		err := r.Notify(t.Context(), alertstest.Incident())
		if want == "" {
			must.Do(t, errors.Join(err, checked))
			must.Equal(t, len(s.Mails()), 1, "mails")
			return
		}
		for _, err := range []error{err, checked} {
			must.Fail(t, err, want)
			for _, secret := range append(newServer(c, c.AuthPassword, r.Notifier.(*Notifier).server.tls).secrets(), c.AuthPassword) {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error contains the password: %v", err)
				}
			}
		}
		if retry, ok := errors.AsType[*alerts.RetryError](err); !ok || retry.After != mendInterval {
			t.Errorf("%v is not tried again each minute", err)
		}
		must.Equal(t, len(s.Mails()), 0, "mails")
	}
	none := func(*Config) {}
	f("PLAIN LOGIN", false, none, "")
	f("LOGIN", false, none, "")
	f("PLAIN", true, none, "")
	f("", false, func(c *Config) { c.AuthUsername, c.AuthPassword = "", "" }, "")
	wrong := func(c *Config) { c.AuthPassword = "another password, which is a secret" }
	f("PLAIN", false, wrong, "authenticate: 535 5.7.8 wrong user or password: (removed)")
	f("LOGIN", false, wrong, "authenticate: 535 5.7.8 wrong user or password")
	f("CRAM-MD5", false, none, "the server offers neither PLAIN nor LOGIN")
	f("PLAIN", false, func(c *Config) { c.TLSConfig = certs.Client{} }, "begin TLS: tls: failed to verify certificate")
	f("", false, func(c *Config) { c.RequireTLS = false }, "the server offers neither PLAIN nor LOGIN")
}

func TestFaults(t *testing.T) {
	f := func(verb, answer, want string, after time.Duration, final bool) {
		t.Helper()
		s := smtptest.Start(t, "PLAIN", false)
		r := open(t, config(s), alerts.NotifierOptions{})
		s.Answer(func(v, _ string) string {
			if v == verb {
				return answer
			}
			return ""
		})
		err := r.Notify(t.Context(), alertstest.Incident())
		must.Fail(t, err, want)
		retry, ok := errors.AsType[*alerts.RetryError](err)
		if ok == final || ok && (retry.After != after || retry.Doubt) {
			t.Errorf("%s: %+v", err, retry)
		}
		must.Equal(t, len(s.Mails()), 0, "mails")
		s.Answer(nil)
		must.Do(t, r.Notify(t.Context(), alertstest.Incident()))
		must.Equal(t, len(s.Mails()), 1, "mails afterwards")
	}
	f("MAIL", "421 4.7.0 too many messages, try again later", "421 4.7.0 too many messages", 0, false)
	f("MAIL", "553 5.7.1 not your address", "name sender llmtap@example.com: 553 5.7.1", mendInterval, false)
	f("RCPT", "450 4.2.0 greylisted", "name recipient oncall@example.com: 450 4.2.0 greylisted", 0, false)
	f("RCPT", "550 5.1.1 no such user", "550 5.1.1 no such user", mendInterval, false)
	f("DATA", "452 4.3.1 disk full", "begin mail: 452 4.3.1 disk full", 0, false)
	f(".", "451 4.3.0 busy", "send mail: 451 4.3.0 busy", 0, false)
	f(".", "554 5.7.1 spam", "send mail: 554 5.7.1 spam", 0, true)
}

// If the server rejects a recipient, the others get the mail, and the log names the one who does not.
func TestRejectedRecipient(t *testing.T) {
	s := smtptest.Start(t, "PLAIN", false)
	var log strings.Builder
	r := open(t, config(s), alerts.NotifierOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.Answer(func(verb, argument string) string {
		if verb == "RCPT" && strings.Contains(argument, "oncall") {
			return "550 5.1.1 no such user"
		}
		return ""
	})
	must.Do(t, r.Notify(t.Context(), alertstest.Incident()))
	must.Equal(t, strings.Join(s.Mails()[0].To, " "), "zoe@example.com", "recipients")
	must.Contain(t, log.String(), "name recipient oncall@example.com: 550 5.1.1 no such user")
}

// A server that hangs delays nothing for longer than the call, and a mail whose acceptance is in doubt is sent again with the same
// Message-ID.
func TestHanging(t *testing.T) {
	for _, verb := range []string{"EHLO", "MAIL", "."} {
		s := smtptest.Start(t, "PLAIN", false)
		r := open(t, config(s), alerts.NotifierOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		s.Answer(func(v, _ string) string {
			if v != verb {
				return ""
			}
			cancel()
			return "hang"
		})
		err := r.Notify(ctx, alertstest.Incident())
		retry, ok := errors.AsType[*alerts.RetryError](err)
		if !ok || !retry.Down || retry.After != 0 || retry.Doubt != (verb == ".") {
			t.Errorf("%s: %v %+v", verb, err, retry)
		}
		s.Answer(nil)
		must.Do(t, r.Notify(t.Context(), alertstest.Incident()))
		list := s.Mails()
		if verb != "." {
			must.Equal(t, len(list), 1, "mails")
			continue
		}
		must.Equal(t, len(list), 2, "mails")
		must.Equal(t, list[1].Header.Get("Message-Id"), list[0].Header.Get("Message-Id"), "Message-ID")
		must.Equal(t, list[1].Subject, list[0].Subject, "subject")
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	must.Do(t, l.Close())
	c := config(&smtptest.Server{Addr: l.Addr().String()})
	err := open(t, c, alerts.NotifierOptions{}).Notify(t.Context(), alertstest.Incident())
	if retry, ok := errors.AsType[*alerts.RetryError](err); !ok || !retry.Down || retry.Doubt {
		t.Errorf("nobody listens: %v", err)
	}
}

// No label becomes a header, a tag or a link.
func TestHostile(t *testing.T) {
	s := smtptest.Start(t, "", false)
	c := config(s)
	c.AuthUsername, c.AuthPassword = "", ""
	g := alertstest.Incident()
	a := &g.Alerts[0]
	a.Labels["service"] = "x\r\nBcc: all@example.com\r\n\r\n<script>alert(1)</script>"
	a.Labels["severity"] = "warning\r\nBcc: all@example.com" + strings.Repeat("x", 2000)
	a.Evidence.Example.Conversation = "\"><img src=x onerror=alert(1)>\x01b\x02"
	a.Evidence.Shares[0].Fix = strings.Repeat("<b>long ", 100_000)
	must.Do(t, open(t, c, alerts.NotifierOptions{}).Notify(t.Context(), g))
	m := s.Mails()[0]
	if m.Header.Get("Bcc") != "" || strings.Contains(m.HTML, "<script") || strings.Contains(m.HTML, "<img") || len(m.HTML) > 30_000 {
		t.Errorf("%v\n%.3000s", m.Header, m.HTML)
	}
}

func TestConfig(t *testing.T) {
	ok := Default()
	ok.To, ok.From, ok.Smarthost = "oncall@example.com", "llmtap@example.com", "smtp.example.com:465"
	f := func(want string, change func(*Config)) {
		t.Helper()
		c := ok
		change(&c)
		_, err := c.Receivers(alerts.NotifierOptions{})
		must.Fail(t, err, want)
	}
	f("to: is empty", func(c *Config) { c.To = "" })
	f("to: is not a list of addresses", func(c *Config) { c.To = "oncall" })
	f("from: is not an address", func(c *Config) { c.From = "" })
	f("smarthost: is not host:port", func(c *Config) { c.Smarthost = "smtp.example.com" })
	f("both are set", func(c *Config) { c.AuthUsername, c.AuthPassword, c.AuthPasswordFile = "u", "p", "f" })
	f("without a password", func(c *Config) { c.AuthUsername = "u" })
	f("read auth_password_file", func(c *Config) { c.AuthUsername, c.AuthPasswordFile = "u", "/does/not/exist" })
	f("read ca_file", func(c *Config) { c.TLSConfig.CAFile = "/does/not/exist" })
	f("hello: is not a host name", func(c *Config) { c.Hello = "a\r\nQUIT" })
	f("headers: Subject is set by llmtap", func(c *Config) { c.Headers = map[string]string{"subject": "x"} })
	f("is not a header of one line", func(c *Config) { c.Headers = map[string]string{"X-A": "b\r\nBcc: c"} })
	must.Equal(t, len(must.Get(Default().Receivers(alerts.NotifierOptions{}))(t)), 0, "receivers without a configuration")
	r := must.Get(ok.Receivers(alerts.NotifierOptions{}))(t)[0]
	must.Equal(t, r.Destination, "oncall@example.com", "destination")
	must.Equal(t, r.Notifier.(*Notifier).server.implicit, true, "TLS on port 465")
}
