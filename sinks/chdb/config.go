package chdb

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// Database is the database that Start creates and DSN names.
const Database = "llmtap"

// Config configures the embedded ClickHouse.
type Config struct {
	Dir                  string                `yaml:"-"`                         // data directory; created if missing, used by one process at a time
	MemoryLimit          int64                 `yaml:"memory_limit" unit:"bytes"` // of the whole engine; statements above it fail with code 241
	MaxConcurrentQueries int                   `yaml:"max_concurrent_queries"`    // further statements wait 10 s, then fail with code 202
	CacheDir             string                `yaml:"cache_dir"`                 // see LibraryConfig
	Logger               *slog.Logger          `yaml:"-"`                         // nil disables logging
	Progress             func(line string)     `yaml:"-"`                         // receives progress messages of a slow start; may be nil
	Registerer           prometheus.Registerer `yaml:"-"`                         // nil disables metrics
}

// Default returns the configuration for one machine, without Dir.
func Default() Config {
	return Config{MemoryLimit: 2 << 30, MaxConcurrentQueries: 16}
}

// minMemory is the minimum memory with which the engine starts and merges.
const minMemory = 256 << 20

// Validate reports every invalid value.
func (c Config) Validate() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("dir: is empty"))
	}
	if c.MemoryLimit < minMemory {
		errs = append(errs, fmt.Errorf("memory_limit: %d is below %d bytes", c.MemoryLimit, int64(minMemory)))
	}
	if c.MaxConcurrentQueries < 1 || c.MaxConcurrentQueries > 1000 {
		errs = append(errs, fmt.Errorf("max_concurrent_queries: %d is not between 1 and 1000", c.MaxConcurrentQueries))
	}
	return errors.Join(errs...)
}
