package clickhouse

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config configures the connection to ClickHouse and the retention of rows.
type Config struct {
	// DSN is clickhouse://, http:// or https://user:password@host:port,host:port/database?option=value. The first host
	// that answers is used. Options are those of clickhouse-go, and ca_file, cert_file and key_file for TLS (https, or
	// secure=true with clickhouse); any other option is a ClickHouse setting. Ports have defaults. A missing database is
	// created.
	DSN string `yaml:"dsn" secret:"url"`
	// PasswordFile is a file with the password; it overrides the password of the DSN.
	PasswordFile string `yaml:"password_file"`
	// AllowSkipVerify permits skip_verify=true in the DSN, which lets a man in the middle read and change rows.
	AllowSkipVerify bool `yaml:"allow_skip_verify"`
	// Cluster is the name of a cluster, or '{cluster}': tables are created on all its servers. Empty: on one server.
	Cluster string `yaml:"cluster"`
	// WriteTimeout bounds one insert; an insert that takes longer is retried. 0 means no bound.
	WriteTimeout time.Duration `yaml:"write_timeout"`
	// Retention deletes older rows, by a TTL on every table. 0 keeps the existing TTL of the tables, if any.
	Retention time.Duration `yaml:"retention"`
	// MessagesRetention is the retention of the messages table with the message bodies, if shorter than Retention; 0 means
	// Retention. Messages still in use are written again every 12 h and kept; less than a day loses parts of conversations.
	MessagesRetention time.Duration `yaml:"messages_retention"`
	// TableRetention is the retention by table; it overrides the other two.
	TableRetention map[string]time.Duration `yaml:"table_retention"`
}

// Default returns the defaults; the DSN has none.
func Default() Config { return Config{WriteTimeout: time.Minute} }

// Validate reports every invalid value. It reveals no secret and opens no file.
func (c Config) Validate() error {
	var errs []error
	if _, err := c.parseDSN(); err != nil {
		errs = append(errs, fmt.Errorf("dsn: %w", err))
	}
	if strings.ContainsAny(c.Cluster, "\r\n\t ") {
		errs = append(errs, fmt.Errorf("cluster: %q is not the name of a cluster; SELECT cluster FROM system.clusters lists them", c.Cluster))
	}
	if c.WriteTimeout < 0 {
		errs = append(errs, fmt.Errorf("write_timeout: %v is below 0", c.WriteTimeout))
	}
	if err := c.validateRetention(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
