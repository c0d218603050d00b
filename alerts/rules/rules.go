// Package rules contains the shipped alert rules, and loads, checks and evaluates rule files.
//
//	*.yaml, or configured files ─┬─Source.Load─> Rule ─Eval, at each step─> Instance: pending or firing
//	                             └─Source.Lint─> LintError, with its line
//
// Each shipped file covers one subject and begins with a comment whose first sentence states when its rules fire. Each
// file has a promtool unit test in testdata, and a test case in pipeline_test.go or in cmd/llmtap/health_test.go.
//
// # Why not Prometheus's own rule manager
//
// Prometheus's package rules imports its notifier, and with it Alertmanager's API models. llmtap needs only the state
// machine of alerts, which Rule.Eval implements.
package rules

import (
	"embed"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// FS contains the shipped rule files.
//
//go:embed *.yaml
var FS embed.FS

var (
	alertName = regexp.MustCompile(`(?m)^ +- alert: (\S+)`)
	severity  = regexp.MustCompile(`(?m)^ +severity: (\S+)`)
)

// Table returns the shipped rules as a Markdown table, sorted by name.
func Table() (string, error) {
	files, err := fs.Glob(FS, "*.yaml")
	if err != nil {
		return "", err
	}
	var rows []string
	for _, f := range files {
		text, err := FS.ReadFile(f)
		if err != nil {
			return "", err
		}
		var severities []string
		for _, m := range severity.FindAllSubmatch(text, -1) {
			if s := string(m[1]); !slices.Contains(severities, s) {
				severities = append(severities, s)
			}
		}
		name := "" // a file without an alert has a row with an empty name
		if m := alertName.FindSubmatch(text); m != nil {
			name = string(m[1])
		}
		rows = append(rows, "| `"+name+"` | "+strings.Join(severities, ", ")+" | "+firstSentence(string(text))+" |\n")
	}
	slices.Sort(rows)
	return "| alert | severity | fires when |\n|---|---|---|\n" + strings.Join(rows, ""), nil
}

// firstSentence returns the first sentence of the comment at the start of text.
func firstSentence(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		words = append(words, strings.Fields(comment)...)
	}
	for i, w := range words {
		if strings.HasSuffix(w, ".") {
			return strings.Join(words[:i+1], " ")
		}
	}
	return ""
}
