package clickhouse

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// minRetention is the shortest time that rows are kept.
const minRetention = time.Hour

// retention is how long rows of table are kept; 0 leaves its TTL as it is. Bodies are never kept for longer than facts
// unless their table is named.
func (c Config) retention(table string) time.Duration {
	switch d, ok := c.Retentions[table]; {
	case ok:
		return d
	case table != "messages" || c.MessageRetention == 0:
		return c.Retention
	case c.Retention == 0:
		return c.MessageRetention
	default:
		return min(c.Retention, c.MessageRetention)
	}
}

// validateRetention reports every retention that cannot work.
func (c Config) validateRetention() error {
	var errs []error
	check := func(key string, d time.Duration) {
		if d != 0 && d < minRetention {
			errs = append(errs, fmt.Errorf("%s: %v is below 1h; 0 keeps rows for ever", key, d))
		}
	}
	check("retention", c.Retention)
	check("message_retention", c.MessageRetention)
	for _, t := range slices.Sorted(maps.Keys(c.Retentions)) {
		if !slices.Contains(tableNames, t) {
			errs = append(errs, fmt.Errorf("retentions.%s: is no table; there are %s", t, strings.Join(tableNames, ", ")))
			continue
		}
		check("retentions."+t, c.Retentions[t])
	}
	return errors.Join(errs...)
}
