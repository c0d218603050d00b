package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	alertrules "github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

//go:generate go test -run ^TestReadme$ -args -update

// readmes are the README and the documents that it links to.
var readmes = []string{
	"README.md", "alerts/README.md", "analyzer/rules/README.md", "deploy/README.md", "deploy/CONNECT.md", "deploy/DATA.md", "deploy/INTEGRATIONS.md",
	"deploy/SERVERS.md", "deploy/coding-agents.md", "deploy/measurements.md", "deploy/examples/python/README.md",
	"ingest/proxy/README.md", "ingest/sdk/README.md", "ingest/sdk/python/README.md", "ingest/sdk/typescript/README.md", ".github/CONTRIBUTING.md", ".github/CHANGELOG.md",
}

// TestReadme checks the blocks between <!-- name: … --> and <!-- /name -->, which are generated from code. With -update it
// writes them.
func TestReadme(t *testing.T) {
	alertTable := must.Get(alertrules.Table())(t)
	hook := goExample(t, "deploy/examples/go/example_test.go")
	client, _, _ := strings.Cut(hook, "\n\n")
	for _, b := range []struct{ file, name, want string }{
		{"README.md", "hook", client + "\n```"},
		{"ingest/sdk/README.md", "hook", hook},
		{"ingest/sdk/README.md", "events", "```sh\n" + source(t, "cmd/llmtap/testdata/events.sh") + "```"},
		{"alerts/README.md", "alerts", alertTable},
		{"alerts/README.md", "signed", goFunc(t, "alerts/webhook/example_test.go", "signed")},
		{"analyzer/rules/README.md", "rules", rules.Table()},
		{"analyzer/rules/README.md", "signals", signals.Table()},
		{"analyzer/rules/README.md", "lint", goExample(t, "analyzer/rules/example_test.go")},
		{"analyzer/rules/README.md", "repair", goExample(t, "analyzer/repair/example_test.go")},
		{"analyzer/rules/README.md", "pytest", "```python\n" + source(t, "cmd/llmtap/testdata/test_history.py") + "```"},
	} {
		old := source(t, b.file)
		block := regexp.MustCompile(`(?s)(<!-- ` + b.name + `:[^>]*-->\n).*?(<!-- /` + b.name + ` -->)`)
		if !block.MatchString(old) {
			t.Fatalf("%s has no block %q", b.file, b.name)
		}
		text := block.ReplaceAllString(old, "${1}"+strings.ReplaceAll(strings.TrimSpace(b.want), "$", "$$")+"\n${2}")
		if text == old {
			continue
		}
		if !*update {
			t.Fatalf("%s is out of date; run go generate ./cmd/llmtap", b.file)
		}
		filetest.Write(t, filepath.Join("..", "..", b.file), text)
	}
}

func TestReadmeSize(t *testing.T) {
	if n := len(source(t, "README.md")); n > 10<<10 {
		t.Errorf("README.md has %d bytes, more than 10 KiB", n)
	}
}

func TestReadmeLinks(t *testing.T) {
	link := regexp.MustCompile(`(?m)\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)`)
	for _, file := range readmes {
		for _, m := range link.FindAllStringSubmatch(source(t, file), -1) {
			target, anchor, _ := strings.Cut(m[1]+m[2], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := file
			if target != "" {
				path = filepath.Join(filepath.Dir(file), target)
			}
			if _, err := os.Stat(filepath.Join("..", "..", path)); err != nil {
				t.Errorf("%s links to %s: %v", file, m[1]+m[2], err)
			} else if anchor != "" && !hasHeading(source(t, path), anchor) {
				t.Errorf("%s links to a missing heading: %s", file, m[1]+m[2])
			}
		}
	}
}

// hasHeading reports whether a heading of a document has the anchor.
func hasHeading(text, anchor string) bool {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		if strings.NewReplacer(" ", "-", ",", "", ":", "").Replace(strings.ToLower(m[1])) == anchor { // as GitHub does
			return true
		}
	}
	return false
}

// Every command in a shell block exists and has the flags that it is called with.
func TestReadmeCommands(t *testing.T) {
	helps := map[string]string{}
	help := func(args []string) string {
		key := strings.Join(args, " ")
		if _, ok := helps[key]; !ok {
			var out strings.Builder
			must.Is(t, run(t.Context(), slices.Concat(args, []string{"--help"}), nil, &out, &out, func(string) string { return "" }), flag.ErrHelp, "llmtap", key)
			helps[key] = out.String()
		}
		return helps[key]
	}
	for _, file := range readmes {
		for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(source(t, file), -1) {
			for _, m := range regexp.MustCompile(`(?m)(?:^|\| )(?:llmtap|go run \./cmd/llmtap) ([^|>#\n]*)`).FindAllStringSubmatch(block[1], -1) {
				words := strings.Fields(m[1])
				for _, group := range []*command.Command{problemsCommand, tokenCommand} {
					if len(words) == 1 && words[0] == group.Name {
						words = append(words, group.Default)
					}
				}
				args := words[:1]
				if slices.Contains([]string{"alerts", "problems", "token"}, words[0]) || words[0] == "query" && !strings.HasPrefix(words[1], "-") {
					args = words[:2]
				}
				if len(words) > 2 && words[1] == "silence" { // a group within a group
					args = words[:3]
				}
				text := help(args)
				for _, w := range words {
					if name, _, _ := strings.Cut(w, "="); strings.HasPrefix(name, "--") && !strings.Contains(text, name+" ") {
						t.Errorf("%s: llmtap %s has no flag %s", file, strings.Join(args, " "), name)
					}
				}
			}
		}
	}
}

func source(t *testing.T, path string) string {
	t.Helper()
	return string(filetest.Read(t, filepath.Join("..", "..", filepath.FromSlash(path))))
}

// goFunc returns a function of a file as a Markdown block.
func goFunc(t *testing.T, path, name string) string {
	t.Helper()
	_, text, ok := strings.Cut(source(t, path), "\nfunc "+name+"(")
	text, _, end := strings.Cut(text, "\n}\n")
	if !ok || !end {
		t.Fatalf("%s has no func %s", path, name)
	}
	return "```go\nfunc " + name + "(" + text + "\n}\n```"
}

// goExample returns the body of func Example of a file, which is compiled with its tests, as a Markdown block.
func goExample(t *testing.T, path string) string {
	t.Helper()
	_, body, ok := strings.Cut(source(t, path), "func Example() {\n")
	body, _, end := strings.Cut(body, "\n}\n")
	if !ok || !end {
		t.Fatalf("%s has no func Example", path)
	}
	body, _, _ = strings.Cut(body, "\n\t// Output:")
	return "```go\n" + strings.ReplaceAll("\n"+body, "\n\t", "\n")[1:] + "\n```"
}
