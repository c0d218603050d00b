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
	// that answers is used. The options are the options of clickhouse-go, and ca_file, cert_file and key_file for TLS
	// (https, or secure=true with clickhouse); any other option is a ClickHouse setting. Ports have defaults. A missing
	// database is created.
	DSN string `yaml:"dsn" secret:"url"`
	// PasswordFile is a file that contains the password; it overrides the password in the DSN.
	PasswordFile string `yaml:"password_file"`
	// AllowSkipVerify permits skip_verify=true in the DSN, which lets a man in the middle read and change rows.
	AllowSkipVerify bool `yaml:"allow_skip_verify"`
	// Cluster is the name of a cluster, or '{cluster}', on whose servers tables are created. If empty, they are created
	// on one server.
	Cluster string `yaml:"cluster"`
	// WriteTimeout is the time limit for one insert; an insert that takes longer is retried. 0 means no limit.
	WriteTimeout time.Duration `yaml:"write_timeout"`
	// Retention is the age at which rows are deleted, by a TTL on every table. 0 keeps the existing TTL of the tables,
	// if any.
	Retention time.Duration `yaml:"retention"`
	// MessagesRetention is the retention of the messages table, which contains the message bodies, if shorter than
	// Retention; 0 means Retention. Messages still in use are written again every 12 h and therefore stay. With a
	// retention of less than a day, parts of conversations are lost.
	MessagesRetention time.Duration `yaml:"messages_retention"`
	// TableRetention is the retention of single tables; it overrides Retention and MessagesRetention.
	TableRetention map[string]time.Duration `yaml:"table_retention"`
}

// Default returns the default configuration, without a DSN.
func Default() Config { return Config{WriteTimeout: time.Minute} }

// Validate returns an error for every invalid value, joined. It does not open files, and its error contains no secrets.
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
