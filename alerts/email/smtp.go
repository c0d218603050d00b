package email

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/smtp"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/endpoint"
)

const (
	// sendTimeout is that of one mail. Servers may delay their greeting against spam.
	sendTimeout  = 20 * time.Second
	mendInterval = time.Minute // interval of attempts after an error that somebody must mend
	tlsPort      = "465"       // of connections that begin with TLS (RFC 8314)
)

// A server is the mail server that sends, with the account.
type server struct {
	addr, host, hello  string
	username, password string
	implicit, startTLS bool // how TLS begins
	tls                *tls.Config
}

func newServer(c Config, password string, tlsConfig *tls.Config) *server {
	host, port, _ := net.SplitHostPort(c.Smarthost)
	name, _ := os.Hostname()
	s := &server{
		addr: c.Smarthost, host: host, hello: cmp.Or(c.Hello, name, "localhost"), username: c.AuthUsername, password: password,
		implicit: port == tlsPort, tls: tlsConfig.Clone(),
	}
	s.startTLS = c.RequireTLS && !s.implicit
	s.tls.ServerName = host
	return s
}

// check connects and authenticates without sending anything.
func (s *server) check(ctx context.Context) error {
	c, done, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	return s.failed("end session", c.Quit())
}

// send sends a mail. It returns an error for each rejected recipient if the server accepts others; otherwise the error follows the
// contract of alerts.Notifier. If the server rejects a recipient only for now, nobody gets the mail now.
func (s *server) send(ctx context.Context, from string, to []string, mail []byte) (rejected []error, err error) {
	c, done, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := c.Mail(from); err != nil {
		return nil, s.mend("name sender "+from, err)
	}
	for _, address := range to {
		if err := c.Rcpt(address); err != nil {
			err = s.mend("name recipient "+address, err)
			if r, ok := errors.AsType[*alerts.RetryError](err); ok && r.After == 0 {
				return nil, err
			}
			rejected = append(rejected, err)
		}
	}
	if len(rejected) == len(to) {
		return nil, rejected[0]
	}
	w, err := c.Data()
	if err != nil {
		return nil, s.failed("begin mail", err)
	}
	if _, err := w.Write(mail); err != nil {
		return nil, s.failed("send mail", err)
	}
	if err := w.Close(); err != nil {
		err = s.failed("send mail", err)
		if r, ok := errors.AsType[*alerts.RetryError](err); ok {
			_, answered := errors.AsType[*rejection](err)
			r.Doubt = !answered
		}
		return nil, err
	}
	_ = c.Quit() // the mail is accepted
	return rejected, nil
}

// open returns a session after TLS and authentication. done ends it.
func (s *server) open(ctx context.Context) (c *smtp.Client, done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		cancel()
		return nil, nil, s.failed("connect", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	done = func() {
		stop()
		cancel()
		_ = conn.Close()
	}
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline) // of a connection that is open
	if c, err = s.session(ctx, conn); err != nil {
		done()
		return nil, nil, err
	}
	return c, done, nil
}

func (s *server) session(ctx context.Context, conn net.Conn) (*smtp.Client, error) {
	if s.implicit {
		t := tls.Client(conn, s.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, s.mend("begin TLS", err)
		}
		conn = t
	}
	c, err := smtp.NewClient(conn, s.host)
	if err != nil {
		return nil, s.failed("connect", err)
	}
	if err := c.Hello(s.hello); err != nil {
		return nil, s.failed("greet", err)
	}
	if s.startTLS {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return nil, s.mend("begin TLS", errors.New("the server does not offer STARTTLS; use another port, or set email.require_tls to false for a server in a trusted network"))
		}
		if err := c.StartTLS(s.tls); err != nil {
			return nil, s.mend("begin TLS", err)
		}
	}
	if s.username == "" {
		return c, nil
	}
	how, err := s.auth(c)
	if err == nil {
		err = c.Auth(how)
	}
	if err != nil {
		return nil, s.mend("authenticate", err)
	}
	return c, nil
}

// auth returns the first method that the server offers: PLAIN or LOGIN.
func (s *server) auth(c *smtp.Client) (smtp.Auth, error) {
	ok, offered := c.Extension("AUTH")
	methods := strings.Fields(strings.ToUpper(offered))
	switch {
	case ok && slices.Contains(methods, "PLAIN"):
		return smtp.PlainAuth("", s.username, s.password, s.host), nil
	case ok && slices.Contains(methods, "LOGIN"):
		return &login{PlainAuth: smtp.PlainAuth("", s.username, s.password, s.host), username: s.username, password: s.password}, nil
	}
	return nil, fmt.Errorf("the server offers neither PLAIN nor LOGIN, but %q", offered)
}

// login is the method LOGIN, which some servers offer only.
type login struct {
	PlainAuth          smtp.Auth
	username, password string
	asked              int
}

// Start implements smtp.Auth. Like PLAIN, it refuses to send a password without TLS, except to this host.
func (l *login) Start(server *smtp.ServerInfo) (string, []byte, error) {
	if _, _, err := l.PlainAuth.Start(server); err != nil {
		return "", nil, err
	}
	return "LOGIN", nil, nil
}

// Next implements smtp.Auth. The server asks for the user and then for the password, in words that differ.
func (l *login) Next(_ []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	l.asked++
	switch l.asked {
	case 1:
		return []byte(l.username), nil
	case 2:
		return []byte(l.password), nil
	}
	return nil, errors.New("the server asks for more than a user and a password")
}

// failed returns err, of what was attempted, so that it follows the contract of alerts.Notifier and has no secret: a *alerts.RetryError if
// there was no answer, or if it is 4xx. It returns nil for nil.
func (s *server) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	answer, answered := errors.AsType[*textproto.Error](err)
	if answered {
		text := endpoint.Redact(strings.Join(strings.Fields(strings.ToValidUTF8(answer.Msg, "\ufffd")), " "), s.secrets()...)
		err = &rejection{answer.Code, text[:min(len(text), 300)]}
	}
	err = fmt.Errorf("mail server %s: %s: %w", s.addr, what, err)
	if answered && answer.Code >= 500 {
		return err
	}
	return &alerts.RetryError{Down: !answered || answer.Code == 421, Err: err}
}

// mend is failed for errors that somebody must mend, if waiting does not.
func (s *server) mend(what string, err error) error {
	err = s.failed(what, err)
	answer, answered := errors.AsType[*rejection](err)
	_, network := errors.AsType[net.Error](err)
	if answered && answer.code < 500 || !answered && (network || errors.Is(err, io.EOF)) {
		return err
	}
	if r, ok := errors.AsType[*alerts.RetryError](err); ok {
		err = r.Err
	}
	return &alerts.RetryError{After: mendInterval, Down: true, Err: err}
}

// A rejection is an answer of the server.
type rejection struct {
	code int
	text string
}

func (r *rejection) Error() string { return fmt.Sprintf("%d %s", r.code, r.text) }

// secrets returns the password in the forms in which an answer may repeat it.
func (s *server) secrets() []string {
	b64 := base64.StdEncoding.EncodeToString
	return []string{b64([]byte("\x00" + s.username + "\x00" + s.password)), b64([]byte(s.password)), s.password}
}
