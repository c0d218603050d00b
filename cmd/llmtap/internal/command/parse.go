package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/nearest"
)

func newFlagSet() *flag.FlagSet {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // Parse returns errors, and Help prints the usage
	fs.Usage = func() {}
	return fs
}

// Parse reads the environment, then the command line, which takes precedence. Flags and arguments may be in any order.
// Parse stores the arguments in c.Args and checks their number against Command.Args. Errors suggest a correction.
func (c *Call) Parse() error {
	if c.completing {
		return errCompleting
	}
	hint := "; see llmtap " + c.Command.Name + " --help"
	if err := config.ReadEnv(c.Flags, c.Getenv); err != nil {
		return BadInput(err)
	}
	all := newFlagSet()
	for _, fs := range []*flag.FlagSet{c.Parameters, c.Flags} {
		fs.VisitAll(func(f *flag.Flag) { all.Var(f.Value, f.Name, f.Usage) })
	}
	if name := missingValue(all, c.Args); name != "" {
		return BadInputf("flag --%s has no value%s", name, hint)
	}
	var args []string
	for rest := c.Args; ; rest = all.Args()[1:] {
		if err := all.Parse(rest); errors.Is(err, flag.ErrHelp) {
			c.Help()
			return err
		} else if err != nil {
			text, suggestion := flagError(all, err)
			return BadInputf("%s%s", text, cmp.Or(suggestion, hint))
		}
		if parsed := len(rest) - all.NArg(); all.NArg() == 0 || parsed > 0 && rest[parsed-1] == "--" {
			args = append(args, all.Args()...)
			break
		}
		args = append(args, all.Arg(0))
	}
	c.Args = args
	want := strings.Fields(strings.TrimPrefix(c.Command.Args, "-- "))
	for i, name := range want {
		if i == len(args) && name[0] != '[' {
			return BadInputf("missing argument %s%s", strings.Trim(name, "."), hint)
		}
	}
	if len(args) > len(want) && !strings.HasSuffix(c.Command.Args, "...") {
		return BadInputf("unexpected argument %q%s", args[len(want)], cmp.Or(meant(all, args[len(want)]), hint))
	}
	return nil
}

// missingValue returns the first flag in args whose value is the name of another flag, as in "--service --failed".
func missingValue(all *flag.FlagSet, args []string) string {
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		f := lookup(all, args[i])
		if f == nil || IsBool(f) {
			continue
		}
		if i++; i < len(args) && strings.HasPrefix(args[i], "--") && lookup(all, strings.SplitN(args[i], "=", 2)[0]) != nil {
			return f.Name
		}
	}
	return ""
}

// lookup returns the flag that arg names, without a value, or nil.
func lookup(all *flag.FlagSet, arg string) *flag.Flag {
	if !strings.HasPrefix(arg, "-") {
		return nil
	}
	return all.Lookup(strings.TrimPrefix(arg[1:], "-"))
}

// IsBool reports whether f needs no value.
func IsBool(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// flagError returns an error of package flag in the words of this package, and a suggestion if the flag is unknown.
func flagError(all *flag.FlagSet, err error) (text, suggestion string) {
	text = err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return "unknown flag --" + name, didYouMean("--", name, flagNames(all))
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return fmt.Sprintf("flag --%s has no value", name), ""
	}
	if value, rest, ok := strings.Cut(text, " for flag -"); ok {
		return value + " for --" + rest, ""
	}
	return strings.Replace(text, " for -", " for --", 1), ""
}

// meant returns the correction of an unexpected argument: a configuration file without --config, or a flag without its
// dashes.
func meant(all *flag.FlagSet, arg string) string {
	ext := strings.ToLower(filepath.Ext(arg))
	name, value, hasValue := strings.Cut(arg, "=")
	switch f := all.Lookup(name); {
	case all.Lookup("config") != nil && (ext == ".yaml" || ext == ".yml"):
		return "; did you mean --config " + arg + "?"
	case f != nil && hasValue:
		return fmt.Sprintf("; did you mean --%s=%s?", name, value)
	case f != nil:
		return "; did you mean --" + name + "?"
	case arg == "true" || arg == "false":
		return "; a boolean flag takes its value after =, as in --flag=" + arg
	}
	return ""
}

func flagNames(all *flag.FlagSet) (names []string) {
	all.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

// didYouMean returns a suggestion for an unknown name, with prefix before the similar name, or "".
func didYouMean(prefix, name string, names []string) string {
	if near := nearest.Name(name, names); near != "" {
		return fmt.Sprintf("; did you mean %s%s?", prefix, near)
	}
	return ""
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
	usage := "`format`: output format: " + strings.Join(values, ", ")
	if slices.Contains(values, CSV) {
		usage += "; csv has texts as they are, except on a terminal"
	}
	c.Flags.Var(f, "format", usage)
	return &f.value
}

// Choice adds a flag with a fixed set of values to fs. The default may be another value.
func (c *Call) Choice(fs *flag.FlagSet, name, value, usage string, values ...string) *string {
	f := &choice{value: value, values: values}
	fs.Var(f, name, usage+": "+strings.Join(values, ", "))
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
