// Package user adds the parameters that select a user to a command.
package user

import (
	"fmt"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Flags adds --user and --user-name, which call set with the user label.
func Flags(c *command.Call, doc string, set func(label string)) {
	c.Parameters.Func("user", "`hash`: "+doc+": the hash that hooks publish, or the name if they are configured to keep names", func(v string) error {
		set(v)
		return nil
	})
	c.Parameters.Func("user-name", "`name`: "+doc+" by name; the hash is computed with "+event.EnvShapeKey+", the key of the hooks", func(v string) error {
		key := c.Getenv(event.EnvShapeKey)
		label := event.HashUser([]byte(key), v)
		if key == "" {
			fmt.Fprintf(c.Stderr, "llmtap: %s is not set; without a key, the hash of %s is %s. If the hooks have a key, set the same one; llmtap up makes one in the file shape.key of its data directory.\n", event.EnvShapeKey, v, label)
		}
		set(label)
		return nil
	})
}
