package user

import (
	"context"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestFlags(t *testing.T) {
	f := func(key, wantLabel, wantStderr string, args ...string) {
		t.Helper()
		var label string
		var stderr strings.Builder
		cmd := &command.Command{Name: "x", Run: func(_ context.Context, c *command.Call) error {
			Flags(c, "of this user", func(l string) { label = l })
			return c.Parse()
		}}
		call := &command.Call{Args: append([]string{"x"}, args...), Stderr: &stderr, Getenv: func(name string) string {
			if name == "LLMTAP_SHAPE_KEY" {
				return key
			}
			return ""
		}}
		must.Do(t, command.Run(t.Context(), &command.Command{Commands: []*command.Command{cmd}}, call))
		if label != wantLabel || !strings.Contains(stderr.String(), wantStderr) || wantStderr == "" && stderr.Len() > 0 {
			t.Errorf("%q: label %q, want %q; stderr: %s", args, label, wantLabel, stderr.String())
		}
	}
	f("key", "5b1c", "", "--user", "5b1c")
	f("key", "9e477c88a6434858", "", "--user-name", "ann@example.com")
	f("", "0eb072f6a63163ec", "LLMTAP_SHAPE_KEY is not set", "--user-name", "ann@example.com")
}
