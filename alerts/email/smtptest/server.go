// Package smtptest is a mail server for tests: SMTP with STARTTLS, AUTH PLAIN and LOGIN, as strict about the order of commands and about
// lines as servers are.
package smtptest

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/llmtap/llmtap/ingest/certs/certstest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// User and Password are the account of a Server.
const (
	User     = "llmtap@example.com"
	Password = "the password of the account"
)

// A Mail is one that a Server has accepted.
type Mail struct {
	From       string
	To         []string
	Header     mail.Header
	Subject    string // decoded
	Text, HTML string
}

// A Server is a mail server on the loopback address.
type Server struct {
	Addr   string
	CAFile string // of its certificate

	auth     string // methods that it offers
	implicit bool
	tls      *tls.Config
	mu       sync.Mutex // guards the rest
	mails    []Mail
	answer   func(verb, argument string) string
}

// Start runs a Server, which offers the methods of authentication in auth, until the test ends. If implicit is true, connections begin with TLS.
func Start(t testing.TB, auth string, implicit bool) *Server {
	t.Helper()
	dir := t.TempDir()
	ca := certstest.NewCA(t, dir, "ca")
	cert, key := ca.Issue(t, dir, "server", "127.0.0.1")
	s := &Server{auth: auth, implicit: implicit, CAFile: filepath.Join(dir, "ca.pem")}
	s.tls = &tls.Config{Certificates: []tls.Certificate{must.Get(tls.LoadX509KeyPair(cert, key))(t)}, MinVersion: tls.VersionTLS12}
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	s.Addr = l.Addr().String()
	var all sync.WaitGroup
	ended := make(chan struct{})
	t.Cleanup(func() {
		close(ended)
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				over := make(chan struct{})
				go func() {
					select {
					case <-ended:
					case <-over:
					}
					_ = conn.Close()
				}()
				defer close(over)
				s.serve(conn)
			})
		}
	})
	return s
}

// Answer makes f answer commands, such as MAIL, and "." for the end of a mail. If it returns "", the command is executed; "hang" never answers.
func (s *Server) Answer(f func(verb, argument string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// Mails returns the accepted mails.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail(nil), s.mails...)
}

func (s *Server) fault(verb, argument string) string {
	s.mu.Lock()
	f := s.answer
	s.mu.Unlock()
	if f == nil {
		return ""
	}
	return f(verb, argument)
}

// A session is one connection.
type session struct {
	*Server
	conn            net.Conn
	r               *bufio.Reader
	secure, greeted bool
	known           bool // authenticated
	from            string
	to              []string
	hung            bool
}

func (s *Server) serve(conn net.Conn) {
	if s.implicit {
		conn = tls.Server(conn, s.tls)
	}
	c := &session{Server: s, conn: conn, r: bufio.NewReader(conn), secure: s.implicit}
	c.say("220 mail.example.com ESMTP")
	for !c.hung {
		line, err := c.r.ReadString('\n')
		if err != nil {
			return
		}
		verb, argument, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		verb = strings.ToUpper(verb)
		if answer := c.fault(verb, argument); answer != "" {
			c.say(answer)
			continue
		}
		if !strings.HasSuffix(line, "\r\n") || len(line) > 512 {
			c.say("500 5.5.2 line")
			continue
		}
		if verb == "QUIT" {
			c.say("221 2.0.0 bye")
			return
		}
		c.command(verb, argument)
	}
	_, _ = io.Copy(io.Discard, c.r) // until the client or the test ends the connection
}

func (c *session) say(answer string) {
	if answer == "hang" {
		c.hung = true
		return
	}
	_, _ = io.WriteString(c.conn, answer+"\r\n")
}

func (c *session) command(verb, argument string) {
	switch {
	case verb == "EHLO":
		c.greeted = true
		c.say("250-mail.example.com")
		if !c.secure {
			c.say("250-STARTTLS")
		} else if c.auth != "" {
			c.say("250-AUTH " + c.auth)
		}
		c.say("250 8BITMIME")
	case !c.greeted:
		c.say("503 5.5.1 EHLO first")
	case verb == "STARTTLS" && !c.secure:
		c.say("220 2.0.0 go ahead")
		c.conn = tls.Server(c.conn, c.tls)
		c.r, c.secure, c.greeted = bufio.NewReader(c.conn), true, false
	case verb == "AUTH" && c.secure:
		c.authenticate(argument)
	case c.auth != "" && !c.known:
		c.say("530 5.7.0 authentication required")
	case verb == "MAIL" && c.from == "":
		c.from = strings.Trim(strings.TrimPrefix(strings.Fields(argument)[0], "FROM:"), "<>")
		c.say("250 2.1.0 ok")
	case verb == "RCPT" && c.from != "":
		c.to = append(c.to, strings.Trim(strings.TrimPrefix(argument, "TO:"), "<>"))
		c.say("250 2.1.5 ok")
	case verb == "DATA" && len(c.to) > 0:
		c.data()
	default:
		c.say("503 5.5.1 bad sequence of commands")
	}
}

func (c *session) authenticate(argument string) {
	method, first, _ := strings.Cut(argument, " ")
	ask := func(question string) string {
		c.say("334 " + base64.StdEncoding.EncodeToString([]byte(question)))
		line, _ := c.r.ReadString('\n')
		return strings.TrimSpace(line)
	}
	decode := func(s string) string {
		b, _ := base64.StdEncoding.DecodeString(s)
		return string(b)
	}
	ok := false
	switch {
	case !strings.Contains(" "+c.auth+" ", " "+method+" "):
	case method == "PLAIN":
		ok = decode(first) == "\x00"+User+"\x00"+Password
	case method == "LOGIN":
		user := decode(ask("Username:"))
		ok = decode(ask("Password:")) == Password && user == User
	}
	if c.known = ok; ok {
		c.say("235 2.7.0 accepted")
		return
	}
	c.say("535 5.7.8 wrong user or password: " + first) // some servers repeat it
}

func (c *session) data() {
	c.say("354 go ahead")
	var b strings.Builder
	strict := true
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			return
		}
		if line == ".\r\n" {
			break
		}
		strict = strict && strings.HasSuffix(line, "\r\n") && len(line) <= 1000
		for _, r := range line {
			strict = strict && r < 0x80
		}
		b.WriteString(strings.TrimPrefix(line, "."))
	}
	from, to := c.from, c.to
	c.from, c.to = "", nil
	m, err := parse(b.String())
	answer := c.fault(".", "")
	switch {
	case !strict:
		answer = "550 5.6.0 line too long, not ASCII, or without CR"
	case err != nil:
		answer = "550 5.6.0 " + err.Error()
	case answer == "", answer == "hang":
		m.From, m.To = from, to
		c.mu.Lock()
		c.mails = append(c.mails, m)
		c.mu.Unlock()
		if answer == "" {
			answer = "250 2.0.0 queued"
		}
	}
	c.say(answer)
}

func parse(text string) (m Mail, err error) {
	msg, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return m, err
	}
	m.Header = msg.Header
	if m.Subject, err = new(mime.WordDecoder).DecodeHeader(msg.Header.Get("Subject")); err != nil {
		return m, err
	}
	_, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		return m, err
	}
	for parts := multipart.NewReader(msg.Body, params["boundary"]); ; {
		p, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return m, nil
		} else if err != nil {
			return m, err
		}
		b, err := io.ReadAll(quotedprintable.NewReader(p))
		if err != nil {
			return m, err
		}
		if kind, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type")); kind == "text/html" {
			m.HTML = string(b)
		} else {
			m.Text = string(b)
		}
	}
}
