package clickhouse

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config says where ClickHouse is.
type Config struct {
	// DSN is clickhouse://, http:// or https://user:password@host:port,host:port/database?option=value. Of several hosts
	// the first that answers is used. The options are those of clickhouse-go, and ca_file, cert_file and key_file for
	// TLS (https, or secure=true with clickhouse); what is no option is a ClickHouse setting. Ports default to
	// ClickHouse's. The database is created when it is missing.
	DSN string `yaml:"dsn" secret:"url"`
	// PasswordFile is a file that holds the password; it replaces the DSN's.
	PasswordFile string `yaml:"password_file"`
	// AllowSkipVerify permits skip_verify=true in the DSN: whoever is on the way can read and change rows.
	AllowSkipVerify bool `yaml:"allow_skip_verify"`
	// Cluster is the name of a cluster of the server, or '{cluster}': tables lie on all its servers. Empty: on one.
	Cluster string `yaml:"cluster"`
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
	if strings.ContainsAny(c.Cluster, "\r\n\t ") {
		errs = append(errs, fmt.Errorf("cluster: %q is no name of a cluster; SELECT cluster FROM system.clusters lists them", c.Cluster))
	}
	if c.WriteTimeout < 0 {
		errs = append(errs, fmt.Errorf("write_timeout: %v is below 0", c.WriteTimeout))
	}
	if err := c.validateRetention(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
