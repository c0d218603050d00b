package otlp

import (
	"fmt"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Config configures what is kept of the spans and log records that arrive.
type Config struct {
	// Capture is "shape" (messages without their texts), "full" (messages with their texts) or "none" (no messages).
	// Tokens, models, finish reasons and errors are kept in every mode.
	Capture string
	// KeepUser publishes the user without hashing it.
	KeepUser bool
	// Key is the key of the hashes in shapes and of users; nil: users are hashed without a key, and texts with a random
	// one.
	Key []byte
}

// defaultConfig returns a configuration that keeps no texts.
func defaultConfig() Config { return Config{Capture: event.CaptureShape} }

// Validate returns an error if c is invalid.
func (c *Config) Validate() error {
	switch c.Capture {
	case event.CaptureShape, event.CaptureFull, event.CaptureNone:
		return nil
	}
	return fmt.Errorf("capture: %q is not one of shape, full, none", c.Capture)
}
