package analyzer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer/price"
)

// Config limits the state of the analyzer. All durations are in stream time.
type Config struct {
	Partition  int    `yaml:"-"` // partition number in tallies
	Partitions int    `yaml:"-"` // lost events are counted only with one partition: with more, none sees all events of a process
	Epoch      uint64 `yaml:"-"` // epoch of the partition's lease

	Prices price.Table `yaml:"-"` // what tokens cost; another table changes later tallies only

	ExchangeTimeout         time.Duration            `yaml:"exchange_timeout"`                    // a request without a response for this long has failed (no_response)
	SessionLookback         time.Duration            `yaml:"session_lookback"`                    // a conversation idle for this long is dropped
	ToolReplyTimeout        time.Duration            `yaml:"tool_reply_timeout"`                  // a tool call is abandoned if its conversation is idle for this long; at most SessionLookback
	ToolReplyTimeouts       map[string]time.Duration `yaml:"tool_reply_timeouts"`                 // ToolReplyTimeout of individual tools, by name
	SessionLookbackBytes    int64                    `yaml:"session_lookback_bytes" unit:"bytes"` // bytes of the stream that a restart replays, at most, for conversations and pending requests
	MaxStateBytes           int64                    `yaml:"max_state_bytes" unit:"bytes"`        // estimated memory of conversations; pending requests may use half as much in addition, body parts and memos a quarter each
	ConversationIdleTimeout time.Duration            `yaml:"conversation_idle_timeout"`           // a conversation idle for this long after a refused call has ended on that error
	MaxLabelValues          int                      `yaml:"max_label_values"`                    // distinct values of a tally label per hour; further values become "other"
}

// Default returns the default configuration of a single partition.
func Default() Config {
	return Config{
		ExchangeTimeout: 15 * time.Minute, SessionLookback: 30 * time.Minute, SessionLookbackBytes: 4 << 30, MaxStateBytes: 1 << 30,
		ToolReplyTimeout: 10 * time.Minute, ConversationIdleTimeout: 10 * time.Minute, MaxLabelValues: 200, Prices: price.Default(),
	}
}

// Validate returns an error that names every invalid field, or nil.
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
