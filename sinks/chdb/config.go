package chdb

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// Database is the database that Start creates and DSN names.
const Database = "llmtap"

// Config says how to run the embedded ClickHouse.
type Config struct {
	Dir           string                `yaml:"-"`                         // holds the data; created, and used by one process at a time
	MemoryLimit   int64                 `yaml:"memory_limit" unit:"bytes"` // bytes for the whole engine; above it statements fail with code 241
	MaxConcurrent int                   `yaml:"max_concurrent"`            // statements at once; more wait 10 s, then fail with code 202
	CacheDir      string                `yaml:"cache_dir"`                 // of the library, see LibraryConfig
	Logger        *slog.Logger          `yaml:"-"`                         // nil: nothing is logged
	Progress      func(line string)     `yaml:"-"`                         // told what a long start is doing; nil: nobody
	Registerer    prometheus.Registerer `yaml:"-"`                         // nil: metrics are not registered
}

// Default is the configuration for one machine, without Dir.
func Default() Config {
	return Config{MemoryLimit: 2 << 30, MaxConcurrent: 16}
}

// minMemory is the least that the engine starts and merges with.
const minMemory = 256 << 20

// Validate says what is wrong with c.
func (c Config) Validate() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("dir: is empty"))
	}
	if c.MemoryLimit < minMemory {
		errs = append(errs, fmt.Errorf("memory_limit: %d is below %d bytes", c.MemoryLimit, int64(minMemory)))
	}
	if c.MaxConcurrent < 1 || c.MaxConcurrent > 1000 {
		errs = append(errs, fmt.Errorf("max_concurrent: %d is not between 1 and 1000", c.MaxConcurrent))
	}
	return errors.Join(errs...)
}

func (c Config) withoutNil() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return c
}
