package chdb

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// Database is the name of the database that Start creates and that the DSN contains.
const Database = "llmtap"

// Config configures the embedded ClickHouse.
type Config struct {
	Dir                  string                `yaml:"-"`                         // data directory; created if missing; only one process at a time can use it
	MemoryLimit          int64                 `yaml:"memory_limit" unit:"bytes"` // limit for the whole engine; statements that exceed it fail with code 241
	MaxConcurrentQueries int                   `yaml:"max_concurrent_queries"`    // further statements wait 10 s, then fail with code 202
	MinFreeDisk          int64                 `yaml:"-"`                         // bytes of the disk that inserts leave free, so that merges can free more; those that would not fail with code 243
	Port                 int                   `yaml:"port"`                      // of 127.0.0.1; 0: any that is free
	CacheDir             string                `yaml:"cache_dir"`                 // see LibraryConfig
	Logger               *slog.Logger          `yaml:"-"`                         // nil disables logging
	Progress             func(line string)     `yaml:"-"`                         // receives progress messages of a slow start; may be nil
	Registerer           prometheus.Registerer `yaml:"-"`                         // nil disables metrics
}

// Default returns the default configuration, without Dir.
func Default() Config {
	return Config{MemoryLimit: 1 << 30, MaxConcurrentQueries: 16}
}

// minMemory is the minimum MemoryLimit with which the engine can start and merge.
const minMemory = 256 << 20

// Validate returns an error for every invalid value, joined.
func (c Config) Validate() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("dir: is empty"))
	}
	if c.MemoryLimit < minMemory {
		errs = append(errs, fmt.Errorf("memory_limit: %d is below %d bytes", c.MemoryLimit, int64(minMemory)))
	}
	if c.Port < 0 || c.Port > 65535 {
		errs = append(errs, fmt.Errorf("port: %d is not between 0 and 65535", c.Port))
	}
	if c.MaxConcurrentQueries < 1 || c.MaxConcurrentQueries > 1000 {
		errs = append(errs, fmt.Errorf("max_concurrent_queries: %d is not between 1 and 1000", c.MaxConcurrentQueries))
	}
	return errors.Join(errs...)
}
