package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
)

// The help of every command fits into 80 columns.
func TestHelpWidth(t *testing.T) {
	var check func(group *command.Command, words ...string)
	check = func(group *command.Command, words ...string) {
		for _, c := range group.Commands {
			if c.Hidden {
				continue
			}
			args := append(slices.Clip(words), c.Name[strings.LastIndexByte(c.Name, ' ')+1:])
			var out strings.Builder
			if err := run(t.Context(), append(args, "--help"), nil, &out, &out, func(string) string { return "" }); command.Report(err, &out) != command.ExitOK {
				t.Errorf("%q --help: %v", args, err)
			}
			for line := range strings.Lines(out.String()) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
					t.Errorf("%q --help: line of %d columns: %s", args, n, line)
				}
			}
			check(c, args...)
		}
	}
	check(llmtap)
}
