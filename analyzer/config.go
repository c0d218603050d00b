package analyzer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Config bounds what the analyzer remembers. Its times are stream time.
type Config struct {
	Partition  int    `yaml:"-"` // of the tallies
	Partitions int    `yaml:"-"` // with more than one, none sees all events of a process, so lost events are not counted
	Epoch      uint64 `yaml:"-"` // of the partition's lease

	ExchangeTimeout         time.Duration            `yaml:"exchange_timeout"`                    // a request without a response for this long failed: no_response
	SessionLookback         time.Duration            `yaml:"session_lookback"`                    // a conversation that is idle for this long is forgotten
	ToolReplyTimeout        time.Duration            `yaml:"tool_reply_timeout"`                  // a tool call whose conversation stops for this long is abandoned; at most SessionLookback
	ToolReplyTimeouts       map[string]time.Duration `yaml:"tool_reply_timeouts"`                 // by tool, for those that take longer or shorter
	SessionLookbackBytes    int64                    `yaml:"session_lookback_bytes" unit:"bytes"` // of the stream: a restart reads back no further for conversations and pending requests
	MaxStateBytes           int64                    `yaml:"max_state_bytes" unit:"bytes"`        // estimated memory of conversations; half as much for pending requests, a quarter each for parts and for memos of request bodies
	ConversationIdleTimeout time.Duration            `yaml:"conversation_idle_timeout"`           // a conversation that stops for this long after a refused call ended on that error
	MaxLabelValues          int                      `yaml:"max_label_values"`                    // distinct values of a tally label per hour, then "other"
}

// Default returns the configuration for one partition.
func Default() Config {
	return Config{
		ExchangeTimeout: 15 * time.Minute, SessionLookback: 30 * time.Minute, SessionLookbackBytes: 4 << 30, MaxStateBytes: 1 << 30,
		ToolReplyTimeout: 10 * time.Minute, ConversationIdleTimeout: 10 * time.Minute, MaxLabelValues: 200,
	}
}

// Validate returns an error that names every field out of bounds.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Partition >= 0, "partition: %d is below 0", c.Partition)
	check(c.ExchangeTimeout >= time.Second, "exchange_timeout: %v is below 1s", c.ExchangeTimeout)
	check(c.SessionLookback >= c.ExchangeTimeout, "session_lookback: %v is below exchange_timeout %v; a conversation must outlive its requests",
		c.SessionLookback, c.ExchangeTimeout)
	check(c.SessionLookbackBytes >= 1<<20, "session_lookback_bytes: %d is below 1 MiB", c.SessionLookbackBytes)
	check(c.MaxStateBytes >= 1<<20, "max_state_bytes: %d is below 1 MiB", c.MaxStateBytes)
	check(c.ToolReplyTimeout >= time.Second, "tool_reply_timeout: %v is below 1s", c.ToolReplyTimeout)
	for _, tool := range slices.Sorted(maps.Keys(c.ToolReplyTimeouts)) {
		d := c.ToolReplyTimeouts[tool]
		check(d >= time.Second, "tool_reply_timeouts: %v of %s is below 1s", d, tool)
		check(d <= c.SessionLookback, "tool_reply_timeouts: %v of %s is above session_lookback %v; a conversation must outlive its tool calls",
			d, tool, c.SessionLookback)
	}
	check(c.ConversationIdleTimeout >= time.Second, "conversation_idle_timeout: %v is below 1s", c.ConversationIdleTimeout)
	check(c.MaxLabelValues >= 1, "max_label_values: %d is below 1", c.MaxLabelValues)
	return errors.Join(errs...)
}
