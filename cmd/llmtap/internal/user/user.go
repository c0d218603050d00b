// Package user adds the parameters that select a user to a command.
package user

import (
	"context"
	"fmt"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Flags adds --user and --user-name, which call set with user labels. A name has two: that of hooks with the key, and that of hooks
// without one, as on the pages. They are set when resolve is called after the flags are parsed, with a function that finds the key.
func Flags(c *command.Call, doc string, set func(label string)) (resolve func(ctx context.Context, key func(context.Context) (string, error)) error) {
	var names []string
	c.Parameters.Func("user", "`hash`: "+doc+": the hash that hooks publish, or the name if they are configured to keep names", func(v string) error {
		set(v)
		return nil
	})
	c.Parameters.Func("user-name", "`name`: "+doc+" by name; the hash is computed with the key of the hooks, from "+event.EnvShapeKey+", the file shape.key of the data directory, or nats.url", func(v string) error {
		names = append(names, v)
		return nil
	})
	return func(ctx context.Context, find func(context.Context) (string, error)) error {
		if len(names) == 0 {
			return nil
		}
		key, err := find(ctx)
		if err != nil {
			return err
		}
		for _, name := range names {
			without := event.HashUser(nil, name)
			set(without)
			if key != "" {
				set(event.HashUser([]byte(key), name))
			} else {
				fmt.Fprintf(c.Stderr, "llmtap: %s is not set, and there is no key in the data directory or at nats.url; without a key, the hash of %s is %s. If the hooks have a key, set the same one.\n", event.EnvShapeKey, name, without)
			}
		}
		return nil
	}
}
