package jetstream

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/secret"
)

// duplicateWindow is how long JetStream remembers the message ids of events to drop duplicates. An id is about 115 bytes in
// three objects of the server's heap: with two minutes and 8,000 events/s, collecting garbage took half of the CPU. The
// analyzer ignores repeated events for much longer.
const duplicateWindow = 10 * time.Second

// Config configures the connection to NATS and the limits of the event stream.
type Config struct {
	URL string `yaml:"url" secret:"url"` // one or more servers, separated by commas

	// At most one login method: user and password, token, credentials or nkey.
	User         string `yaml:"user"`
	Password     string `yaml:"password" secret:"all"`
	PasswordFile string `yaml:"password_file"`
	Token        string `yaml:"token" secret:"all"`
	TokenFile    string `yaml:"token_file"`
	CredsFile    string `yaml:"creds_file"` // NATS credentials: a JWT and its seed
	NKeyFile     string `yaml:"nkey_file"`  // an nkey seed

	CAFile   string `yaml:"ca_file"` // CA of the servers' certificates; default: the system's CAs
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"` // private key of the client certificate

	Server nats.InProcessConnProvider `yaml:"-"` // a server in this process, to which connections need no TLS; nil: none
	Pinned string                     `yaml:"-"` // certificate file of a server on this machine, see certs.Client

	MaxAge   time.Duration `yaml:"max_age"`                // maximum age of an event in the stream
	MaxBytes int64         `yaml:"max_bytes" unit:"bytes"` // maximum size of the event stream; 0: no limit
	Replicas int           `yaml:"replicas"`               // replicas of new streams and buckets
	Compress bool          `yaml:"compress"`               // the servers compress the event stream on disk with S2

	// KeepStored keeps events in the stream until MaxAge. Otherwise analyzers remove them once they are stored and no longer
	// needed for a restart, see PurgeStored.
	KeepStored bool `yaml:"keep_stored"`
}

// Default returns the configuration for a NATS server on this machine.
func Default() Config {
	return Config{URL: nats.DefaultURL, MaxAge: 24 * time.Hour, Replicas: 1}
}

// Validate returns an error that lists every invalid setting.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for s := range strings.SplitSeq(c.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(s))
		check(err == nil && u.Host != "", "url: %q is not a URL such as nats://host:4222", redactURL(s))
	}
	logins := 0
	for _, set := range []bool{c.User != "", c.Token != "", c.TokenFile != "", c.CredsFile != "", c.NKeyFile != ""} {
		if set {
			logins++
		}
	}
	check(logins <= 1, "user, token, token_file, creds_file, nkey_file: more than one is set; keep one")
	check(c.User != "" || c.Password == "" && c.PasswordFile == "", "password: is set without user")
	check(c.Password == "" || c.PasswordFile == "", "password, password_file: both are set; keep one")
	check((c.CertFile == "") == (c.KeyFile == ""), "cert_file, key_file: one is set without the other")
	check(c.MaxAge >= duplicateWindow, "max_age: %v is below %v, JetStream's duplicate window", c.MaxAge, duplicateWindow)
	check(c.MaxBytes >= 0, "max_bytes: %d is negative", c.MaxBytes)
	check(c.Replicas >= 1 && c.Replicas <= 5, "replicas: %d is not between 1 and 5", c.Replicas)
	return errors.Join(errs...)
}

// redactURL masks the password or token in each URL of s.
func redactURL(s string) string {
	urls := strings.Split(s, ",")
	for i := range urls {
		u, err := url.Parse(strings.TrimSpace(urls[i]))
		if err != nil {
			return "(unreadable)"
		}
		if _, password := u.User.Password(); u.User != nil && !password {
			u.User = url.User("xxxxx") // NATS treats a user without a password as a token
		}
		urls[i] = u.Redacted()
	}
	return strings.Join(urls, ",")
}

// inboxPrefix is the prefix of the subjects to which NATS delivers what llmtap reads. Hooks may subscribe to those that begin with
// _INBOX, the default of NATS, where they would see it.
const inboxPrefix = "_LLMTAP_INBOX"

// ClientOptions returns the login and TLS options of the configuration.
func (c *Config) ClientOptions() ([]nats.Option, error) {
	var o []nats.Option
	switch {
	case c.User != "":
		password, err := secret.Read(c.Password, "password_file", c.PasswordFile)
		if err != nil {
			return nil, err
		}
		o = append(o, nats.UserInfo(c.User, password))
	case c.Token != "" || c.TokenFile != "":
		token, err := secret.Read(c.Token, "token_file", c.TokenFile)
		if err != nil {
			return nil, err
		}
		o = append(o, nats.Token(token))
	case c.CredsFile != "":
		o = append(o, nats.UserCredentials(c.CredsFile))
	case c.NKeyFile != "":
		key, err := nats.NkeyOptionFromSeed(c.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("read nkey_file: %w", err)
		}
		o = append(o, key)
	}
	if c.Server != nil {
		return append(o, nats.InProcessServer(c.Server)), nil
	}
	if c.Pinned != "" {
		pinned, err := certs.Client{}.Config(c.Pinned)
		if err != nil {
			return nil, err
		}
		o = append(o, nats.Secure(pinned))
	}
	if c.CAFile != "" {
		o = append(o, nats.RootCAs(c.CAFile))
	}
	if c.CertFile != "" {
		o = append(o, nats.ClientCert(c.CertFile, c.KeyFile))
	}
	return o, nil
}
