package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
)

// The help of every command fits into 80 columns.
func TestHelpWidth(t *testing.T) {
	var check func(c *command.Command)
	check = func(c *command.Command) {
		args := append(strings.Fields(c.Name), "--help")
		var out strings.Builder
		if err := run(t.Context(), args, nil, &out, &out, func(string) string { return "" }); command.Report(err, &out) != command.ExitOK {
			t.Errorf("%q: %v", args, err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%q: line of %d columns: %s", args, n, line)
			}
		}
		for _, sub := range c.Commands {
			if !sub.Hidden {
				check(sub)
			}
		}
	}
	check(llmtap)
}
