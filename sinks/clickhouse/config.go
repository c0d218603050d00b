package clickhouse

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// Config says where ClickHouse is.
type Config struct {
	// DSN is clickhouse://, http:// or https://user:password@host:port/database?option=value, with the options of
	// clickhouse-go; what is no option is a ClickHouse setting. The database is created when it is missing.
	DSN string `yaml:"dsn" secret:"url"`
	// PasswordFile is a file that holds the password; it replaces the DSN's.
	PasswordFile string `yaml:"password_file"`
	// WriteTimeout bounds one insert; a write that takes longer is tried again. 0 means no bound.
	WriteTimeout time.Duration `yaml:"write_timeout"`
	// Retention deletes rows of this age, by a TTL on every table. 0 leaves the tables' TTL as it is: none, unless it
	// was set before.
	Retention time.Duration `yaml:"retention"`
	// MessageRetention is the same for what bodies hold, the table messages, where it is shorter; 0 is Retention. A
	// message that is still sent is written again every 12 h and stays; less than a day loses parts of conversations.
	MessageRetention time.Duration `yaml:"message_retention"`
	// Retentions are the same by table, before the others.
	Retentions map[string]time.Duration `yaml:"retentions"`
}

// Default returns the defaults; the DSN has none.
func Default() Config { return Config{WriteTimeout: time.Minute} }

// Validate reports every value that cannot work. It names no secret, and opens no file.
func (c Config) Validate() error {
	var errs []error
	if _, err := c.parseDSN(); err != nil {
		errs = append(errs, fmt.Errorf("dsn: %w", err))
	}
	if c.WriteTimeout < 0 {
		errs = append(errs, fmt.Errorf("write_timeout: %v is below 0", c.WriteTimeout))
	}
	if err := c.validateRetention(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// options reads the DSN and the password.
func (c Config) options() (*clickhouse.Options, error) {
	o, err := c.parseDSN()
	if err != nil || c.PasswordFile == "" {
		return o, err
	}
	b, err := os.ReadFile(c.PasswordFile)
	if err != nil {
		return nil, fmt.Errorf("read password_file: %w", err)
	}
	o.Auth.Password = strings.TrimSpace(string(b))
	return o, nil
}

func (c Config) parseDSN() (*clickhouse.Options, error) {
	if c.DSN == "" {
		return nil, errors.New("is empty; it looks like http://user:password@host:8123/llmtap or clickhouse://user:password@host:9000/llmtap")
	}
	o, err := clickhouse.ParseDSN(c.DSN)
	if err != nil {
		// An error of url.Parse quotes the whole DSN, password and all.
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return nil, fmt.Errorf("parse: %w", err)
	}
	switch scheme, _, _ := strings.Cut(c.DSN, "://"); scheme {
	case "clickhouse", "http", "https":
	default: // the client takes any other as the native protocol
		return nil, fmt.Errorf("scheme is %q, not clickhouse, http or https", scheme)
	}
	if o.MaxOpenConns == 0 {
		o.MaxOpenConns, o.MaxIdleConns = 8, 2
	}
	return o, nil
}
