package email

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/thread"
	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/secret"
)

// Config is the configuration of e-mail. The names of its keys are those of Alertmanager's email_configs.
type Config struct {
	To        string `yaml:"to"` // addresses, separated by commas
	From      string `yaml:"from"`
	Smarthost string `yaml:"smarthost"` // host:port; on port 465, the connection begins with TLS
	Hello     string `yaml:"hello"`     // "": the name of the host

	AuthUsername     string `yaml:"auth_username"` // "": no authentication
	AuthPassword     string `yaml:"auth_password" secret:"all"`
	AuthPasswordFile string `yaml:"auth_password_file"`

	RequireTLS bool              `yaml:"require_tls"` // use STARTTLS, except on port 465
	TLSConfig  certs.Client      `yaml:"tls_config"`
	Headers    map[string]string `yaml:"headers"` // further headers, such as Reply-To
}

var _ alerts.NotifierConfig = Config{}

// Default returns the default configuration, which sends nothing.
func Default() Config { return Config{RequireTLS: true} }

// SetDefaults sets the defaults of an entry of a list.
func (c *Config) SetDefaults() { *c = Default() }

// reserved are the headers that a mail has anyway.
var reserved = []string{
	"From", "To", "Subject", "Date", "Message-Id", "In-Reply-To", "References", "Mime-Version", "Content-Type", "Content-Transfer-Encoding",
	"Auto-Submitted", "X-Llmtap-Severity", "X-Llmtap-Status",
}

// Validate implements alerts.NotifierConfig.
func (c Config) Validate() error {
	if c.To == "" {
		if c.From+c.Smarthost+c.AuthUsername+c.AuthPassword+c.AuthPasswordFile != "" {
			return errors.New("to: is empty; set it to the addresses of the recipients")
		}
		return nil
	}
	var errs []error
	if _, err := mail.ParseAddressList(c.To); err != nil {
		errs = append(errs, fmt.Errorf("to: is not a list of addresses, such as 'oncall@example.com, Anna <anna@example.com>': %w", err))
	}
	if _, err := mail.ParseAddress(c.From); err != nil {
		errs = append(errs, fmt.Errorf("from: is not an address, such as llmtap@example.com: %w", err))
	}
	if host, port, err := net.SplitHostPort(c.Smarthost); err != nil || host == "" || port == "" {
		errs = append(errs, errors.New("smarthost: is not host:port, such as smtp.example.com:587"))
	}
	if c.AuthPassword != "" && c.AuthPasswordFile != "" {
		errs = append(errs, errors.New("auth_password, auth_password_file: both are set; keep one"))
	}
	if (c.AuthUsername == "") != (c.AuthPassword+c.AuthPasswordFile == "") {
		errs = append(errs, errors.New("auth_username, auth_password, auth_password_file: the user is set without a password, or the other way around"))
	}
	if err := c.TLSConfig.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("tls_config: %w", err))
	}
	if strings.ContainsAny(c.Hello, " \r\n") {
		errs = append(errs, errors.New("hello: is not a host name"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		switch key := textproto.CanonicalMIMEHeaderKey(name); {
		case slices.Contains(reserved, key):
			errs = append(errs, fmt.Errorf("headers: %s is set by llmtap", key))
		case !token(name), strings.ContainsAny(c.Headers[name], "\r\n"):
			errs = append(errs, fmt.Errorf("headers: %q is not a header of one line", name))
		}
	}
	return errors.Join(errs...)
}

// token reports whether name is the name of a header.
func token(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' })
}

// Receivers implements alerts.NotifierConfig.
func (c Config) Receivers(o alerts.NotifierOptions) ([]alerts.Receiver, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.To == "" {
		return nil, nil
	}
	password, err := secret.Read(c.AuthPassword, "auth_password_file", c.AuthPasswordFile)
	if err != nil {
		return nil, err
	}
	tlsConfig, err := c.TLSConfig.Config("")
	if err != nil {
		return nil, fmt.Errorf("tls_config: %w", err)
	}
	o.SetDefaults()
	n := newNotifier(c, password, tlsConfig, o.Logger)
	n.threads = thread.New("email", c.Smarthost+" "+c.To, o)
	check := func(ctx context.Context) (string, error) {
		if err := n.server.check(ctx); err != nil {
			return "", fmt.Errorf("%w; correct email.smarthost or its user and password, or look for a firewall in between", err)
		}
		return "the server accepts mails; llmtap alerts test-notify sends a test alert", nil
	}
	return []alerts.Receiver{{Notifier: n, Destination: n.destination(), Check: check}}, nil
}

func newNotifier(c Config, password string, tlsConfig *tls.Config, logger *slog.Logger) *Notifier {
	to, _ := mail.ParseAddressList(c.To)
	from, _ := mail.ParseAddress(c.From)
	return &Notifier{from: from, to: to, headers: c.Headers, server: newServer(c, password, tlsConfig), log: logger}
}
