package jetstream

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/ingest/secret"
)

// duplicateWindow is how long JetStream knows a message id: publishing again within it stores nothing twice.
const duplicateWindow = 2 * time.Minute

// Config says which NATS to use and what the stream of events may keep.
type Config struct {
	URL string `yaml:"url" secret:"url"` // one or more servers, separated by commas

	// At most one way to log in: user and password, token, or a file.
	User         string `yaml:"user"`
	Password     string `yaml:"password" secret:"all"`
	PasswordFile string `yaml:"password_file"`
	Token        string `yaml:"token" secret:"all"`
	TokenFile    string `yaml:"token_file"`
	CredsFile    string `yaml:"creds_file"` // NATS credentials: a JWT and its seed
	NKeyFile     string `yaml:"nkey_file"`  // an nkey seed

	CAFile   string `yaml:"ca_file"` // of the servers' certificates; empty: the system's
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"` // of the client certificate

	MaxAge   time.Duration `yaml:"max_age"`                // of an event in the stream
	MaxBytes int64         `yaml:"max_bytes" unit:"bytes"` // of the stream; 0: no limit but the disk's
	Replicas int           `yaml:"replicas"`               // of streams and buckets when they are created; later changes are the operator's
}

// Default returns the configuration for a NATS on this machine.
func Default() Config {
	return Config{URL: nats.DefaultURL, MaxAge: 24 * time.Hour, Replicas: 1}
}

// Validate reports every setting that cannot work.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for s := range strings.SplitSeq(c.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(s))
		check(err == nil && u.Host != "", "url: %q is not like nats://host:4222", redactURL(s))
	}
	ways := 0
	for _, set := range []bool{c.User != "", c.Token != "", c.TokenFile != "", c.CredsFile != "", c.NKeyFile != ""} {
		if set {
			ways++
		}
	}
	check(ways <= 1, "user, token, token_file, creds_file, nkey_file: more than one is set; choose one way to log in")
	check(c.User != "" || c.Password == "" && c.PasswordFile == "", "password: is set without user")
	check(c.Password == "" || c.PasswordFile == "", "password, password_file: both are set; keep one")
	check((c.CertFile == "") == (c.KeyFile == ""), "cert_file, key_file: one is set without the other")
	check(c.MaxAge >= duplicateWindow, "max_age: %v is below %v, the time in which JetStream recognises duplicates", c.MaxAge, duplicateWindow)
	check(c.MaxBytes >= 0, "max_bytes: %d is negative", c.MaxBytes)
	check(c.Replicas >= 1 && c.Replicas <= 5, "replicas: %d is not between 1 and 5", c.Replicas)
	return errors.Join(errs...)
}

// redactURL hides a password or a token in each URL of s.
func redactURL(s string) string {
	urls := strings.Split(s, ",")
	for i := range urls {
		u, err := url.Parse(strings.TrimSpace(urls[i]))
		if err != nil {
			return "(unreadable)"
		}
		if _, password := u.User.Password(); u.User != nil && !password {
			u.User = url.User("xxxxx") // NATS takes a lone name as a token
		}
		urls[i] = u.Redacted()
	}
	return strings.Join(urls, ",")
}

// ClientOptions returns how to log in and whom to trust, for every client of these servers.
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
	if c.CAFile != "" {
		o = append(o, nats.RootCAs(c.CAFile))
	}
	if c.CertFile != "" {
		o = append(o, nats.ClientCert(c.CertFile, c.KeyFile))
	}
	return o, nil
}
