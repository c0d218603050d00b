package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	alertrules "github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
)

//go:generate go test -run ^TestReadme$ -args -update

// README holds blocks that are written from the code, each between <!-- name: … --> and <!-- /name -->. With -update
// this test writes them.
func TestReadme(t *testing.T) {
	path := filepath.Join("..", "..", "README.md")
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(old)
	alertTable, err := alertrules.Table()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"alerts":  alertTable,
		"rules":   rules.Table(),
		"signals": analyzer.SignalTable(),
		"hook":    goExample(t, "deploy/examples/go/example_test.go"),
		"lint":    goExample(t, "analyzer/rules/example_test.go"),
		"signed":  goFunc(t, "alerts/webhook/example_test.go", "signed"),
		"pytest":  "```python\n" + source(t, "cmd/llmtap/testdata/test_history.py") + "```",
	} {
		block := regexp.MustCompile(`(?s)(<!-- ` + name + `:[^>]*-->\n).*?(<!-- /` + name + ` -->)`)
		if !block.MatchString(text) {
			t.Fatalf("README.md has no block %q", name)
		}
		text = block.ReplaceAllString(text, "${1}"+strings.ReplaceAll(strings.TrimSpace(want), "$", "$$")+"\n${2}")
	}
	if text == string(old) {
		return
	}
	if !*update {
		t.Fatal("README.md is out of date; run go generate ./cmd/llmtap")
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func source(t *testing.T, path string) string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(src)
}

// goFunc is a function of a file.
func goFunc(t *testing.T, path, name string) string {
	t.Helper()
	_, text, ok := strings.Cut(source(t, path), "\nfunc "+name+"(")
	text, _, end := strings.Cut(text, "\n}\n")
	if !ok || !end {
		t.Fatalf("%s has no func %s", path, name)
	}
	return "```go\nfunc " + name + "(" + text + "\n}\n```"
}

// goExample is the body of func Example of a file, which is compiled with its tests.
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
