package command

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

func newFlagSet() *flag.FlagSet {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // Parse returns errors, and Help prints the usage
	fs.Usage = func() {}
	return fs
}

// Parse reads the environment, then the command line, which takes precedence. Flags and arguments may be in any order.
// Parse stores the arguments in c.Args and checks their number against Command.Args.
func (c *Call) Parse() error {
	hint := "; see llmtap " + c.Command.Name + " --help"
	if err := config.ReadEnv(c.Flags, c.Getenv); err != nil {
		return BadInput(err)
	}
	all := newFlagSet()
	for _, fs := range []*flag.FlagSet{c.Parameters, c.Flags} {
		fs.VisitAll(func(f *flag.Flag) { all.Var(f.Value, f.Name, f.Usage) })
	}
	var args []string
	for rest := c.Args; ; rest = all.Args()[1:] {
		if err := all.Parse(rest); errors.Is(err, flag.ErrHelp) {
			c.Help()
			return err
		} else if err != nil {
			return BadInputf("%w%s", err, hint)
		}
		if parsed := len(rest) - all.NArg(); all.NArg() == 0 || parsed > 0 && rest[parsed-1] == "--" {
			args = append(args, all.Args()...)
			break
		}
		args = append(args, all.Arg(0))
	}
	c.Args = args
	want := strings.Fields(c.Command.Args)
	for i, name := range want {
		if i == len(args) && name[0] != '[' {
			return BadInputf("missing argument %s%s", strings.Trim(name, "."), hint)
		}
	}
	if len(args) > len(want) && !strings.HasSuffix(c.Command.Args, "...") {
		return BadInputf("unexpected argument %q%s", args[len(want)], hint)
	}
	return nil
}

// ParseConfig adds the configuration flags of keys (of all keys if none are given), parses the command line and loads the
// configuration.
func (c *Call) ParseConfig(keys ...string) (*config.Effective, error) {
	flags := config.AddFlags(c.Flags, c.Getenv, keys...)
	if err := c.Parse(); err != nil {
		return nil, err
	}
	return flags.Load()
}

// The values of --format that several commands share.
const (
	Text  = "text"  // text for people
	JSON  = "json"  // one JSON document
	JSONL = "jsonl" // one JSON object per line
	CSV   = "csv"   // a header line, then one line per row
)

// Style adds the flags --utc and --color. It returns the style of text on standard output, which is complete after Parse.
func (c *Call) Style() *terminal.Style {
	s := terminal.NewStyle(c.Stdout, c.Getenv)
	c.Flags.BoolFunc("utc", "print times in UTC, and read times without a zone as UTC", func(v string) error {
		utc, err := strconv.ParseBool(v)
		if s.Zone = time.Local; utc {
			s.Zone = time.UTC
		}
		return err
	})
	auto := s.Color
	c.Flags.Var(&choice{value: "auto", values: []string{"auto", "always", "never"}, set: func(v string) {
		s.Color = v == "always" || v == "auto" && auto
	}}, "color", "`when` to use colors: auto, always, never")
	return s
}

// Format adds the flag --format. The first value is the default.
func (c *Call) Format(values ...string) *string {
	f := &choice{value: values[0], values: values}
	c.Flags.Var(f, "format", "`format`: output format: "+strings.Join(values, ", "))
	return &f.value
}

// A choice is the value of a flag that has a fixed set of values.
type choice struct {
	value  string
	values []string
	set    func(value string) // nil: the value is only stored
}

func (f *choice) String() string { return f.value }

func (f *choice) Set(v string) error {
	if !slices.Contains(f.values, v) {
		return fmt.Errorf("must be one of %s", strings.Join(f.values, ", "))
	}
	if f.value = v; f.set != nil {
		f.set(v)
	}
	return nil
}

// WriteJSON writes v as one indented JSON document.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
