/*
Package command runs the subcommands of a program.

	arguments ─> Run: the Command of this name ─> its Run: declares Flags, Parameters, Format ─> Call.Parse ─> the work
	                                                                                              │
	                                                 environment, flags, number of arguments ─────┘

All commands share the layout of their help, the values of --format, the checks of their arguments and the exit codes.
*/
package command

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

// A Command is one subcommand, or a group of subcommands.
type Command struct {
	Name     string // including the name of the group, such as "alerts check"
	Args     string // positional arguments in the usage line, such as "ID", "[NAME]", "[FILE]..." or, after the flags, "-- COMMAND..."
	Short    string // one line in the imperative
	Long     string // paragraphs, which are wrapped, and indented lines, which are not
	Examples string // command lines, indented by two spaces
	Run      func(ctx context.Context, c *Call) error
	Commands []*Command // subcommands of a group; a group has no Run
	Default  string     // last word of the subcommand that runs if none is named; "": the help of the group
	Hidden   bool       // omitted from the list of commands

	Values func() []string // values of the arguments, for completion; nil: names of files, or none
}

// Exit codes. Programs that call llmtap rely on them.
const (
	ExitOK       = 0
	ExitFailed   = 1 // the command failed, or lint found a history that would be rejected
	ExitBadInput = 2 // wrong flags or arguments, or unreadable input
	ExitNothing  = 3 // there was nothing to check, or lint could not judge all of its input
)

// An ExitError is an error with an exit code.
type ExitError struct {
	Code int
	Err  error // nil if the command has already reported the error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// BadInput returns err with the code ExitBadInput.
func BadInput(err error) error { return &ExitError{ExitBadInput, err} }

// BadInputf returns a formatted error with the code ExitBadInput.
func BadInputf(format string, args ...any) error { return BadInput(fmt.Errorf(format, args...)) }

// Outcome returns the error of a command that checked records: the numbers of those that were unreadable, that failed the check, and
// that were not checked.
func Outcome(unreadable, failed, unchecked int) error {
	switch {
	case unreadable > 0:
		return &ExitError{Code: ExitBadInput}
	case failed > 0:
		return &ExitError{Code: ExitFailed}
	case unchecked > 0:
		return &ExitError{Code: ExitNothing}
	}
	return nil
}

// Report prints err, unless the command has already reported it, and returns the exit code.
func Report(err error, stderr io.Writer) int {
	code := ExitFailed
	exit, isExit := errors.AsType[*ExitError](err)
	_, isConfig := errors.AsType[*config.InvalidError](err)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return ExitOK
	case isExit && exit.Err == nil:
		return exit.Code
	case isExit:
		code = exit.Code
	case isConfig:
		code = ExitBadInput
	}
	fmt.Fprintf(stderr, "llmtap: %s\n", terminal.Escape(err.Error()))
	return code
}

// A Call is one invocation of a command. A command uses no global state, so that tests can run it in-process.
type Call struct {
	Command Command // copy of the running command; Run may change its help
	Args    []string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Getenv  func(string) string

	// Flags define how and where a command works. They are also read from environment variables (LLMTAP_<FLAG>). Parameters
	// define what data a command works on. They are read from the command line only, because an environment variable must
	// not hide rows or select data to delete.
	Flags, Parameters *flag.FlagSet

	completing bool // only declare the flags
}

// Run runs the command of group that is named in c.Args.
func Run(ctx context.Context, group *Command, c *Call) error {
	c.Command = *group
	if group.runsDefault(c.Args) {
		c.Args = append([]string{group.Default}, c.Args...)
	}
	if len(c.Args) == 0 {
		group.usage(c.Stderr, c.Getenv)
		return &ExitError{Code: ExitBadInput}
	}
	name, args := c.Args[0], c.Args[1:]
	switch {
	case name == "help" || isHelp(name):
		if len(args) == 0 {
			group.usage(c.Stdout, c.Getenv)
			return nil
		}
		name, args = args[0], append(slices.Clone(args[1:]), "--help")
	case name == "--version":
		name = "version"
	case name == completeCommand:
		c.Args = args
		return complete(ctx, group, c)
	}
	i := slices.IndexFunc(group.Commands, func(c *Command) bool { return lastWord(c.Name) == name })
	if i < 0 {
		see := "; see llmtap " + strings.TrimSpace(group.Name+" --help")
		if strings.HasPrefix(name, "-") {
			return BadInputf("unknown flag %s; flags follow the command%s", name, see)
		}
		var names []string
		for _, sub := range group.Commands {
			if !sub.Hidden {
				names = append(names, lastWord(sub.Name))
			}
		}
		return BadInputf("unknown command %q%s", name, cmp.Or(didYouMean("", name, names), see))
	}
	cmd := group.Commands[i]
	if c.Args = args; cmd.Run == nil {
		return Run(ctx, cmd, c)
	}
	c.Command, c.Flags, c.Parameters = *cmd, newFlagSet(), newFlagSet()
	return cmd.Run(ctx, c)
}

// runsDefault reports whether args, which follow the name of a group, name none of its subcommands, so that it runs its Default.
func (c *Command) runsDefault(args []string) bool {
	return c.Default != "" && (len(args) == 0 || strings.HasPrefix(args[0], "-") && !isHelp(args[0]))
}

// isHelp reports whether arg is a flag that asks for help.
func isHelp(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }

func lastWord(s string) string { return s[strings.LastIndexByte(s, ' ')+1:] }

// usage prints the commands of a group.
func (c *Command) usage(w io.Writer, getenv func(string) string) {
	h := newHelp(w, getenv)
	name := strings.TrimSpace("llmtap " + c.Name)
	fmt.Fprintf(w, "%s\n\n%s %s <command> [flags]\n\n", h.wrap(c.Short), h.Bold("Usage:"), name)
	width := 0
	for _, sub := range c.Commands {
		if !sub.Hidden {
			width = max(width, len(lastWord(sub.Name)))
		}
	}
	for _, sub := range c.Commands {
		if !sub.Hidden {
			first := fmt.Sprintf("  %-*s  ", width, lastWord(sub.Name))
			fmt.Fprintln(w, h.Wrap(first, sub.Short, strings.Repeat(" ", len(first))))
		}
	}
	if c.Long != "" {
		fmt.Fprintf(w, "\n%s\n", h.wrap(c.Long))
	}
	fmt.Fprintf(w, "\nHelp on a command: %s <command> --help\n", name)
}

const (
	helpWidth  = 80 // maximum
	flagColumn = 26 // column of the descriptions of flags
)

// help is the style of help texts.
type help struct{ *terminal.Style }

func newHelp(w io.Writer, getenv func(string) string) help {
	s := terminal.NewStyle(w, getenv)
	s.Width, s.Unbroken = min(s.Width, helpWidth), false
	return help{s}
}

// wrap breaks paragraphs into lines and leaves indented and empty lines unchanged.
func (h help) wrap(text string) string {
	var lines, paragraph []string
	for line := range strings.SplitSeq(text+"\n", "\n") {
		if line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			continue
		}
		if len(paragraph) > 0 {
			lines = append(lines, terminal.Wrap(strings.Join(paragraph, " "), h.Width, "")...)
			paragraph = nil
		}
		lines = append(lines, line)
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// Help prints the help of the command.
func (c *Call) Help() {
	w, cmd, h := c.Stdout, &c.Command, newHelp(c.Stdout, c.Getenv)
	usage := []string{cmd.Name, cmd.Args, "[flags]"}
	if strings.HasPrefix(cmd.Args, "-- ") {
		usage = []string{cmd.Name, "[flags]", cmd.Args}
	}
	fmt.Fprintf(w, "%s\n\n%s llmtap %s\n", h.wrap(cmd.Short), h.Bold("Usage:"), strings.Join(strings.Fields(strings.Join(usage, " ")), " "))
	if cmd.Long != "" {
		fmt.Fprintf(w, "\n%s\n", h.wrap(cmd.Long))
	}
	h.flags(w, "Parameters:", c.Parameters)
	h.flags(w, "Flags (or LLMTAP_<FLAG> in the environment):", c.Flags)
	if cmd.Examples != "" {
		fmt.Fprintf(w, "\n%s\n%s\n", h.Bold("Examples:"), strings.TrimRight(cmd.Examples, "\n"))
	}
}

func (h help) flags(w io.Writer, title string, fs *flag.FlagSet) {
	fs.VisitAll(func(f *flag.Flag) {
		if f.Usage == "" {
			return // a flag that is only accepted to explain why it is not supported
		}
		if title != "" {
			fmt.Fprintf(w, "\n%s\n", h.Bold(title))
			title = ""
		}
		arg, help := flag.UnquoteUsage(f)
		help = strings.TrimPrefix(help, arg+": ") // drop a leading "name: " with the name of the value
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0s" {
			help += " (default " + f.DefValue + ")"
		}
		name := strings.TrimRight("  --"+f.Name+" "+arg, " ")
		if len(name) > flagColumn-2 {
			fmt.Fprintln(w, name)
			name = ""
		}
		for _, line := range terminal.Wrap(help, h.Width-flagColumn, "") {
			fmt.Fprintf(w, "%-*s%s\n", flagColumn, name, line)
			name = ""
		}
	})
}
