package sinks

import (
	"errors"
	"fmt"
	"time"
)

// A BatcherConfig says when a batch is written, and how a failed write is repeated.
type BatcherConfig struct {
	MaxRows      int           `yaml:"max_rows"`               // a batch with as many rows is written at once
	MaxBytes     int           `yaml:"max_bytes" unit:"bytes"` // so is one of this size, estimated
	Interval     time.Duration `yaml:"interval"`               // and one whose first row or commit is this old
	RetryMin     time.Duration `yaml:"retry_min"`              // wait before the second try; doubles with each
	RetryMax     time.Duration `yaml:"retry_max"`              // longest wait between two tries
	DrainTimeout time.Duration `yaml:"drain_timeout"`          // for what is in hand when Run is told to end
}

// DefaultBatcherConfig returns batches of 10,000 rows, 16 MB or 1 s.
func DefaultBatcherConfig() BatcherConfig {
	return BatcherConfig{
		MaxRows:      10_000,
		MaxBytes:     16 << 20,
		Interval:     time.Second,
		RetryMin:     100 * time.Millisecond,
		RetryMax:     15 * time.Second,
		DrainTimeout: 10 * time.Second,
	}
}

// Validate reports every value that cannot work.
func (c BatcherConfig) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.MaxRows > 0, "max_rows: %d is not above 0", c.MaxRows)
	check(c.MaxBytes > 0, "max_bytes: %d is not above 0", c.MaxBytes)
	check(c.Interval > 0, "interval: %v is not above 0", c.Interval)
	check(c.RetryMin > 0, "retry_min: %v is not above 0", c.RetryMin)
	check(c.RetryMax > 0, "retry_max: %v is not above 0", c.RetryMax)
	check(c.DrainTimeout > 0, "drain_timeout: %v is not above 0", c.DrainTimeout)
	check(c.RetryMax >= c.RetryMin, "retry_max: %v is below retry_min (%v)", c.RetryMax, c.RetryMin)
	return errors.Join(errs...)
}
