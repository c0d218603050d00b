package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/gate"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// runCommand runs llmtap with args and returns what a user sees.
func runCommand(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, complaint strings.Builder
	err := run(t.Context(), args, strings.NewReader(stdin), &out, &complaint, func(string) string { return "" })
	code = command.Report(err, &complaint)
	return out.String(), complaint.String(), code
}

// succeed is runCommand for a command that exits with 0. It returns the output.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := runCommand(t, "", args...)
	if code != command.ExitOK {
		t.Fatalf("llmtap %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// wantAll reports texts that an output lacks.
func wantAll(t *testing.T, name, output string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		must.Contain(t, output, want, name)
	}
}

// leaves returns the commands that are not groups.
func leaves(c *command.Command) (all []*command.Command) {
	for _, sub := range c.Commands {
		if sub.Run != nil && !sub.Hidden {
			all = append(all, sub)
		}
		all = append(all, leaves(sub)...)
	}
	return all
}

// Every command refuses a misspelt flag and a stray argument, wherever it stands, before it does anything.
func TestWrongArguments(t *testing.T) {
	required := map[string][]string{ // arguments that a command checks before the number of arguments
		"query": {"causes"}, "schema": {"print"},
	}
	for _, c := range leaves(llmtap) {
		f := func(want string, args ...string) {
			t.Helper()
			args = slices.Concat(strings.Fields(c.Name), required[c.Name], args)
			exit := command.ExitBadInput
			if c.Name == "gate" { // its exit codes are verdicts
				exit = gate.ExitNoVerdict
			}
			if stdout, stderr, code := runCommand(t, "", args...); code != exit || stdout != "" || !strings.HasPrefix(stderr, "llmtap: "+want) {
				t.Errorf("llmtap %s: exit code %d, %s%s, want %s", strings.Join(args, " "), code, stdout, stderr, want)
			}
		}
		f("unknown flag --nosuch; see llmtap "+c.Name+" --help\n", "--nosuch")
		if strings.HasSuffix(c.Args, "...") {
			continue
		}
		f("unknown flag --nosuch; see", "x", "--nosuch")
		if n := len(strings.Fields(c.Args)) - len(required[c.Name]); n > 0 {
			f(`unexpected argument "stray"; see`, append(slices.Repeat([]string{"x"}, n), "stray")...)
		} else {
			f(`unexpected argument "stray"; see`, "stray")
		}
	}
	_, stderr, code := runCommand(t, "", "up", "llmtap.yaml", "--data-dir", "/nonexistent")
	if want := "llmtap: unexpected argument \"llmtap.yaml\"; did you mean --config llmtap.yaml?\n"; stderr != want || code != command.ExitBadInput {
		t.Errorf("exit code %d, %q, want %q", code, stderr, want)
	}
	if _, stderr, _ := runCommand(t, "", "up", "--confg", "llmtap.yaml"); stderr != "llmtap: unknown flag --confg; did you mean --config?\n" {
		t.Error(stderr)
	}
}
