package sinks

import (
	"fmt"
	"time"
)

// A BatcherConfig says when a batch is written, and how a failed write is repeated.
type BatcherConfig struct {
	MaxRows      int           `yaml:"max_rows"`      // a batch with as many rows is written at once
	MaxBytes     int           `yaml:"max_bytes"`     // so is one of this size, estimated
	Interval     time.Duration `yaml:"interval"`      // and one whose first row or commit is this old
	RetryMin     time.Duration `yaml:"retry_min"`     // wait before the second try; doubles with each
	RetryMax     time.Duration `yaml:"retry_max"`     // longest wait between two tries
	DrainTimeout time.Duration `yaml:"drain_timeout"` // for what is in hand when Run is told to end
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

// Validate reports the first value that cannot work.
func (c BatcherConfig) Validate() error {
	for _, v := range []struct {
		name string
		n    int64
	}{
		{"max_rows", int64(c.MaxRows)},
		{"max_bytes", int64(c.MaxBytes)},
		{"interval", int64(c.Interval)},
		{"retry_min", int64(c.RetryMin)},
		{"retry_max", int64(c.RetryMax)},
		{"drain_timeout", int64(c.DrainTimeout)},
	} {
		if v.n <= 0 {
			return fmt.Errorf("%s: %d is not above 0", v.name, v.n)
		}
	}
	if c.RetryMax < c.RetryMin {
		return fmt.Errorf("retry_max: %v is below retry_min (%v)", c.RetryMax, c.RetryMin)
	}
	return nil
}
