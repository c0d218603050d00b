package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/sinks"
)

const minRetention = time.Hour

// retention returns the retention of t; 0 means that its TTL is not changed. Unless TableRetention is set, message
// bodies are not kept longer than other rows.
func (c Config) retention(t *table) time.Duration {
	switch d, ok := c.TableRetention[t.Name()]; {
	case ok:
		return d
	case t.Table != sinks.Contents || c.MessagesRetention == 0:
		return c.Retention
	case c.Retention == 0:
		return c.MessagesRetention
	default:
		return min(c.Retention, c.MessagesRetention)
	}
}

// validateRetention returns an error for every invalid retention, joined.
func (c Config) validateRetention() error {
	var errs []error
	check := func(key string, d time.Duration) {
		if d != 0 && d < minRetention {
			errs = append(errs, fmt.Errorf("%s: %v is below 1h; 0 keeps rows forever", key, d))
		}
	}
	check("retention", c.Retention)
	check("messages_retention", c.MessagesRetention)
	for _, name := range slices.Sorted(maps.Keys(c.TableRetention)) {
		if tableNamed(name) == nil {
			var names []string
			for _, t := range tables {
				names = append(names, t.Name())
			}
			errs = append(errs, fmt.Errorf("table_retention.%s: not a table; the tables are %s", name, strings.Join(names, ", ")))
			continue
		}
		check("table_retention."+name, c.TableRetention[name])
	}
	return errors.Join(errs...)
}

// applyRetention changes the TTLs that differ from the configured retention. It does not change the TTL of a table
// without a configured retention.
func (s *Sink) applyRetention(ctx context.Context) error {
	for _, t := range tables {
		retention := s.cfg.retention(t)
		if retention == 0 {
			continue
		}
		ttl := fmt.Sprintf("toDateTime(%s) + toIntervalSecond(%d)", t.ageColumn, int64(retention/time.Second))
		var engine string
		if err := s.conn.QueryRow(ctx, "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = ?", s.topology.local(t.Name())).Scan(&engine); err != nil {
			return fmt.Errorf("read TTL of %s: %w", t.Name(), err)
		}
		if strings.Contains(engine, " TTL "+ttl+" ") || strings.HasSuffix(engine, " TTL "+ttl) {
			continue
		}
		if err := s.conn.Exec(ctx, "ALTER TABLE "+s.topology.alterTarget(t.Name())+" MODIFY TTL "+ttl); err != nil {
			return fmt.Errorf("set TTL of %s: %w", t.Name(), err)
		}
		s.logger.Info("retention set", "table", t.Name(), "retention", retention)
	}
	return nil
}
