package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// completeCommand is the hidden command that the completion scripts call: the name of the shell, then the words of the command
// line up to the cursor, without the name of the program.
const completeCommand = "_complete"

// Shells lists the shells with completion.
var Shells = []string{"bash", "zsh", "fish"}

// Each script prints the completions of Complete, or completes file names if there are none.
var scripts = map[string]string{
	"bash": `_llmtap() {
	local IFS=$'\n'
	COMPREPLY=($("$1" _complete bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _llmtap llmtap
`,
	"zsh": `#compdef llmtap
_llmtap() {
	local -a found
	found=("${(@f)$("${words[1]}" _complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ -n "${found[*]}" ]]; then _describe -V llmtap found; else _files; fi
}
if [[ "${funcstack[1]}" == _llmtap ]]; then _llmtap "$@"; else compdef _llmtap llmtap; fi
`,
	"fish": `function __llmtap_complete
	set -l words (commandline -opc)
	set -l found ($words[1] _complete fish $words[2..-1] (commandline -ct) 2>/dev/null)
	if test (count $found) -eq 0
		__fish_complete_path (commandline -ct)
	else
		printf '%s\n' $found
	end
end
complete -c llmtap -f -a '(__llmtap_complete)'
`,
}

// WriteScript writes the completion script of one of Shells.
func WriteScript(w io.Writer, shell string) error {
	script, ok := scripts[shell]
	if !ok {
		return BadInputf("no completion for %q; known: %s", shell, strings.Join(Shells, ", "))
	}
	_, err := io.WriteString(w, script)
	return err
}

// A candidate is one completion of a word.
type candidate struct{ word, doc string }

// errCompleting is returned by Parse instead of parsing: the flags are declared.
var errCompleting = errors.New("completing")

// complete writes the completions of the last word of c.Args, one per line.
func complete(ctx context.Context, root *Command, c *Call) error {
	if len(c.Args) < 2 {
		return nil
	}
	shell, words, last := c.Args[0], c.Args[1:len(c.Args)-1], c.Args[len(c.Args)-1]
	// bash makes a word of each =.
	if n := len(words); last == "=" && n > 0 {
		words, last = append(words[:n:n], last), ""
	}
	flagPrefix := ""
	switch n := len(words); {
	case n > 1 && words[n-1] == "=":
		words = words[:n-1]
	case strings.HasPrefix(last, "--") && strings.Contains(last, "="):
		name, value, _ := strings.Cut(last, "=")
		words, last, flagPrefix = append(words, name), value, name+"="
	}
	var b strings.Builder
	for _, x := range candidates(ctx, root, c, words, last) {
		x.word = flagPrefix + x.word
		switch {
		case !strings.HasPrefix(x.word, flagPrefix+last):
			continue
		case shell == "zsh":
			x.word = strings.ReplaceAll(x.word, ":", `\:`)
			fmt.Fprintf(&b, "%s:%s\n", x.word, x.doc)
		case shell == "fish":
			fmt.Fprintf(&b, "%s\t%s\n", x.word, x.doc)
		default:
			fmt.Fprintln(&b, x.word)
		}
	}
	_, err := io.WriteString(c.Stdout, b.String())
	return err
}

// candidates returns the words that may follow words. last is the beginning of the word.
func candidates(ctx context.Context, group *Command, c *Call, words []string, last string) (all []candidate) {
	for len(words) > 0 && words[0] == "help" {
		words = words[1:]
	}
	for group.Run == nil {
		if next := append(slices.Clone(words), last); strings.HasPrefix(next[0], "-") && group.runsDefault(next) {
			words = append([]string{group.Default}, words...)
		}
		if len(words) == 0 {
			for _, sub := range group.Commands {
				if !sub.Hidden {
					all = append(all, candidate{lastWord(sub.Name), sub.Short})
				}
			}
			return all
		}
		i := slices.IndexFunc(group.Commands, func(c *Command) bool { return lastWord(c.Name) == words[0] })
		if i < 0 {
			return nil
		}
		group, words = group.Commands[i], words[1:]
	}
	c.Command, c.Args, c.Flags, c.Parameters, c.completing = *group, words, newFlagSet(), newFlagSet(), true
	_ = group.Run(ctx, c) // declares the flags; the error is errCompleting, or in an argument
	previous := ""
	if len(words) > 0 {
		previous = words[len(words)-1]
	}
	for _, fs := range []*flag.FlagSet{c.Parameters, c.Flags} {
		if f := lookup(fs, previous); f != nil && !IsBool(f) {
			return valuesOf(f)
		}
	}
	if strings.HasPrefix(last, "-") {
		for _, fs := range []*flag.FlagSet{c.Parameters, c.Flags} {
			fs.VisitAll(func(f *flag.Flag) {
				arg, help := flag.UnquoteUsage(f)
				all = append(all, candidate{"--" + f.Name, strings.TrimPrefix(help, arg+": ")})
			})
		}
		return all
	}
	if group.Values != nil {
		for _, v := range group.Values() {
			all = append(all, candidate{v, ""})
		}
	}
	return all
}

// valuesOf returns the values of a flag, or none if they are not a fixed set.
func valuesOf(f *flag.Flag) (all []candidate) {
	if x, ok := f.Value.(*choice); ok {
		for _, v := range x.values {
			all = append(all, candidate{v, ""})
		}
	}
	return all
}
