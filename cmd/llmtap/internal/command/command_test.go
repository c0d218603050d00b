package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// call runs a command with the arguments ID and FILE..., and returns its output and the values it parsed.
func call(args string, env map[string]string) (stdout, stderr string, values []string, code int) {
	var out, complaint strings.Builder
	get := &Command{
		Name: "get", Args: "ID [FILE]...", Short: "Get something", Long: "A long text.\n\n  kept  as is", Examples: "  llmtap get x",
		Run: func(_ context.Context, c *Call) error {
			service := c.Parameters.String("service", "", "only of this `service`")
			url := c.Flags.String("queue-url", "nats://here", "queue `url` of "+strings.Repeat("a very long text ", 5))
			quiet := c.Flags.Bool("quiet", false, "print nothing")
			format := c.Format(Text, JSON)
			if err := c.Parse(); err != nil {
				return err
			}
			values = append([]string{*service, *url, *format}, c.Args...)
			if *quiet {
				return &ExitError{Code: ExitBadInput}
			}
			return nil
		},
	}
	fail := &Command{Name: "tool fail", Short: "Fail", Run: func(context.Context, *Call) error { return errors.New("no luck") }}
	root := &Command{Short: "A program", Commands: []*Command{
		get, {Name: "tool", Short: "A group", Commands: []*Command{fail}}, {Name: "secret", Short: "Not listed", Hidden: true, Run: fail.Run},
	}}
	err := Run(context.Background(), root, &Call{Args: strings.Fields(args), Stdout: &out, Stderr: &complaint, Getenv: func(k string) string { return env[k] }})
	code = Report(err, &complaint)
	return out.String(), complaint.String(), values, code
}

func TestParse(t *testing.T) {
	f := func(args string, env map[string]string, want ...string) {
		t.Helper()
		_, stderr, got, _ := call(args, env)
		must.Agree(t, cmp.Diff(want, got), args, stderr)
	}
	f("get x", nil, "", "nats://here", "text", "x")
	f("get --service s x --format json y -", nil, "s", "nats://here", "json", "x", "y", "-")
	f("get x --service=s -- --format -- y", nil, "s", "nats://here", "text", "x", "--format", "--", "y")
	f("get x", map[string]string{"LLMTAP_QUEUE_URL": "nats://there", "LLMTAP_SERVICE": "s"}, "", "nats://there", "text", "x")
	f("get x --queue-url nats://mine", map[string]string{"LLMTAP_QUEUE_URL": "nats://there"}, "", "nats://mine", "text", "x")
}

func TestErrors(t *testing.T) {
	f := func(args string, env map[string]string, code int, want string) {
		t.Helper()
		if _, stderr, _, got := call(args, env); got != code || stderr != want {
			t.Errorf("%q: exit code %d, %q, want %d, %q", args, got, stderr, code, want)
		}
	}
	f("gett", nil, ExitBadInput, "llmtap: unknown command \"gett\"; did you mean get?\n")
	f("other", nil, ExitBadInput, "llmtap: unknown command \"other\"; see llmtap --help\n")
	f("tool nosuch", nil, ExitBadInput, "llmtap: unknown command \"nosuch\"; see llmtap tool --help\n")
	f("get", nil, ExitBadInput, "llmtap: missing argument ID; see llmtap get --help\n")
	f("get x --nosuch", nil, ExitBadInput, "llmtap: unknown flag --nosuch; see llmtap get --help\n")
	f("get x --servise=y", nil, ExitBadInput, "llmtap: unknown flag --servise; did you mean --service?\n")
	f("get x --service", nil, ExitBadInput, "llmtap: flag --service has no value; see llmtap get --help\n")
	f("get x --service --quiet", nil, ExitBadInput, "llmtap: flag --service has no value; see llmtap get --help\n")
	f("get x --service --format=json", nil, ExitBadInput, "llmtap: flag --service has no value; see llmtap get --help\n")
	f("get x --quiet=maybe", nil, ExitBadInput, "llmtap: invalid boolean value \"maybe\" for --quiet: parse error; see llmtap get --help\n")
	f("--quiet get x", nil, ExitBadInput, "llmtap: unknown flag --quiet; flags follow the command; see llmtap --help\n")
	f("get x --format xml", nil, ExitBadInput, "llmtap: invalid value \"xml\" for --format: must be one of text, json; see llmtap get --help\n")
	f("get x", map[string]string{"LLMTAP_FORMAT": "xml"}, ExitBadInput, "llmtap: invalid value \"xml\" for LLMTAP_FORMAT: must be one of text, json\n")
	f("get x --quiet", nil, ExitBadInput, "")
	f("tool fail", nil, ExitFailed, "llmtap: no luck\n")
	f("get --help", nil, ExitOK, "")
}

func TestUnexpectedArgument(t *testing.T) {
	f := func(arg, want string) {
		t.Helper()
		c := &Call{Command: Command{Name: "one", Args: "[ID]"}, Args: []string{"x", arg, "--quiet"}, Getenv: func(string) string { return "" }, Flags: newFlagSet(), Parameters: newFlagSet()}
		c.Flags.String("config", "", "")
		c.Flags.Bool("quiet", false, "")
		want = fmt.Sprintf("unexpected argument %q%s", arg, want)
		must.Equal(t, fmt.Sprint(c.Parse()), want, "error")
	}
	f("y", "; see llmtap one --help")
	f("", "; see llmtap one --help")
	f("conf/llmtap.yaml", "; did you mean --config conf/llmtap.yaml?")
	f("config=a", "; did you mean --config=a?")
	f("quiet", "; did you mean --quiet?")
	f("false", "; a boolean flag takes its value after =, as in --flag=false")
}

func TestHelp(t *testing.T) {
	const group = "A program\n\nUsage: llmtap <command> [flags]\n\n  get   Get something\n  tool  A group\n\nHelp on a command: llmtap <command> --help\n"
	const get = `Get something

Usage: llmtap get ID [FILE]... [flags]

A long text.

  kept  as is

Parameters:
  --service service       only of this service

Flags (or LLMTAP_<FLAG> in the environment):
  --format format         output format: text, json (default text)
  --queue-url url         queue url of a very long text a very long text a very
                          long text a very long text a very long text (default
                          nats://here)
  --quiet                 print nothing

Examples:
  llmtap get x
`
	for args, want := range map[string]string{"help": group, "--help": group, "get --help": get, "help get": get, "get x -h": get} {
		if got, _, _, _ := call(args, nil); got != want {
			t.Errorf("%s (-want +got):\n%s", args, cmp.Diff(want, got))
		}
	}
}
