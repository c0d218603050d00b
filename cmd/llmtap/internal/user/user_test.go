package user

import (
	"context"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestFlags(t *testing.T) {
	f := func(key, wantLabels, wantStderr string, args ...string) {
		t.Helper()
		var labels []string
		var stderr strings.Builder
		cmd := &command.Command{Name: "x", Run: func(ctx context.Context, c *command.Call) error {
			resolve := Flags(c, "of this user", func(l string) { labels = append(labels, l) })
			if err := c.Parse(); err != nil {
				return err
			}
			return resolve(ctx, func(context.Context) (string, error) { return key, nil })
		}}
		call := &command.Call{Args: append([]string{"x"}, args...), Stderr: &stderr, Getenv: func(string) string { return "" }}
		must.Do(t, command.Run(t.Context(), &command.Command{Commands: []*command.Command{cmd}}, call))
		if got := strings.Join(labels, " "); got != wantLabels || !strings.Contains(stderr.String(), wantStderr) || wantStderr == "" && stderr.Len() > 0 {
			t.Errorf("%q: labels %q, want %q; stderr: %s", args, got, wantLabels, stderr.String())
		}
	}
	f("key", "5b1c", "", "--user", "5b1c")
	f("key", "0eb072f6a63163ec 9e477c88a6434858", "", "--user-name", "ann@example.com")
	f("", "0eb072f6a63163ec", "LLMTAP_SHAPE_KEY is not set", "--user-name", "ann@example.com")
}
