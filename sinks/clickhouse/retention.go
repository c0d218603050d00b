package clickhouse

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// minRetention is the shortest retention.
const minRetention = time.Hour

// retention returns the retention of table; 0 keeps its TTL. Message bodies are not kept longer than other rows unless
// TableRetention says so.
func (c Config) retention(table string) time.Duration {
	switch d, ok := c.TableRetention[table]; {
	case ok:
		return d
	case table != "messages" || c.MessagesRetention == 0:
		return c.Retention
	case c.Retention == 0:
		return c.MessagesRetention
	default:
		return min(c.Retention, c.MessagesRetention)
	}
}

// validateRetention reports every invalid retention.
func (c Config) validateRetention() error {
	var errs []error
	check := func(key string, d time.Duration) {
		if d != 0 && d < minRetention {
			errs = append(errs, fmt.Errorf("%s: %v is below 1h; 0 keeps rows forever", key, d))
		}
	}
	check("retention", c.Retention)
	check("messages_retention", c.MessagesRetention)
	for _, t := range slices.Sorted(maps.Keys(c.TableRetention)) {
		if !slices.Contains(tableNames, t) {
			errs = append(errs, fmt.Errorf("table_retention.%s: not a table; the tables are %s", t, strings.Join(tableNames, ", ")))
			continue
		}
		check("table_retention."+t, c.TableRetention[t])
	}
	return errors.Join(errs...)
}
