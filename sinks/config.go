package sinks

import (
	"errors"
	"fmt"
	"time"
)

// BatcherConfig configures when a Batcher writes a batch and how it retries a failed write.
type BatcherConfig struct {
	MaxRows       int           `yaml:"max_rows"`               // a batch of this many rows is written immediately
	MaxBytes      int           `yaml:"max_bytes" unit:"bytes"` // a batch of this estimated size is written immediately
	FlushInterval time.Duration `yaml:"flush_interval"`         // maximum age of the first row or commit of a batch
	// LargeFlushInterval is the maximum age of a batch of at least an eighth of MaxBytes: under load, fewer and larger batches
	// cost ClickHouse less.
	LargeFlushInterval time.Duration `yaml:"large_flush_interval"`
	MinBackoff         time.Duration `yaml:"min_backoff"`   // wait before the first retry; doubles with each retry
	MaxBackoff         time.Duration `yaml:"max_backoff"`   // longest wait between retries
	DrainTimeout       time.Duration `yaml:"drain_timeout"` // time to write the remaining rows after the context of Run is done
}

const largeShare = 8 // see LargeFlushInterval

// DefaultBatcherConfig returns the default limits of a batch: 200,000 rows, 32 MiB, or 1 s, or 3 s under load.
func DefaultBatcherConfig() BatcherConfig {
	return BatcherConfig{
		MaxRows:            200_000,
		MaxBytes:           32 << 20,
		FlushInterval:      time.Second,
		LargeFlushInterval: 3 * time.Second,
		MinBackoff:         100 * time.Millisecond,
		MaxBackoff:         15 * time.Second,
		DrainTimeout:       10 * time.Second,
	}
}

// Validate returns an error for every invalid value, joined.
func (c BatcherConfig) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.MaxRows > 0, "max_rows: %d is not above 0", c.MaxRows)
	check(c.MaxBytes > 0, "max_bytes: %d is not above 0", c.MaxBytes)
	check(c.FlushInterval > 0, "flush_interval: %v is not above 0", c.FlushInterval)
	check(c.LargeFlushInterval >= c.FlushInterval, "large_flush_interval: %v is below flush_interval (%v)", c.LargeFlushInterval, c.FlushInterval)
	check(c.MinBackoff > 0, "min_backoff: %v is not above 0", c.MinBackoff)
	check(c.MaxBackoff > 0, "max_backoff: %v is not above 0", c.MaxBackoff)
	check(c.DrainTimeout > 0, "drain_timeout: %v is not above 0", c.DrainTimeout)
	check(c.MaxBackoff >= c.MinBackoff, "max_backoff: %v is below min_backoff (%v)", c.MaxBackoff, c.MinBackoff)
	return errors.Join(errs...)
}
