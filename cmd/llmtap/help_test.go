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
		narrow(t, strings.Join(args, " "), succeed(t, args...))
		for _, sub := range c.Commands {
			if !sub.Hidden {
				check(sub)
			}
		}
	}
	check(llmtap)
}

// narrow reports lines of a text that are wider than 80 columns.
func narrow(t *testing.T, name, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%s: line of %d columns: %s", name, n, line)
		}
	}
}
