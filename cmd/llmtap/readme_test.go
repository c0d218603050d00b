package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/rules"
)

//go:generate go test -run ^TestReadmeRules$ -args -update

const readmePath = "../../README.md"

var rulesBlock = regexp.MustCompile(`(?s)(<!-- rules:[^>]*-->\n).*?(<!-- /rules -->)`)

// The README's rule table is written from rules.All; with -update this test writes it.
func TestReadmeRules(t *testing.T) {
	old, err := os.ReadFile(filepath.FromSlash(readmePath))
	if err != nil {
		t.Fatal(err)
	}
	if !rulesBlock.Match(old) {
		t.Fatal("README.md has no rules block")
	}
	want := rulesBlock.ReplaceAllString(string(old), "${1}"+strings.ReplaceAll(strings.TrimSpace(rules.Table()), "$", "$$")+"\n${2}")
	if want == string(old) {
		return
	}
	if !*update {
		t.Fatal("README.md: the rule table is out of date; run go generate ./cmd/llmtap")
	}
	if err := os.WriteFile(readmePath, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
