// Package rules holds the alert rules that llmtap ships: Prometheus rule files over the metrics of analyzer.Count and the
// gauges of package alerts. Each file is one subject; it begins with a comment, whose first sentence says when it fires.
// Each has a unit test of promtool in testdata, and a case in pipeline_test.go or in cmd/llmtap/health_test.go.
package rules

import (
	"embed"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// FS holds the shipped rule files.
//
//go:embed *.yaml
var FS embed.FS

var (
	alertOf    = regexp.MustCompile(`(?m)^ +- alert: (\S+)`)
	severityOf = regexp.MustCompile(`(?m)^ +severity: (\S+)`)
)

// Table renders the shipped rules as a Markdown table, in the order of their names.
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
		for _, m := range severityOf.FindAllSubmatch(text, -1) {
			if s := string(m[1]); !slices.Contains(severities, s) {
				severities = append(severities, s)
			}
		}
		name := "" // a file without an alert shows in the table
		if m := alertOf.FindSubmatch(text); m != nil {
			name = string(m[1])
		}
		rows = append(rows, "| `"+name+"` | "+strings.Join(severities, ", ")+" | "+firstSentence(string(text))+" |\n")
	}
	slices.Sort(rows)
	return "| alert | severity | fires when |\n|---|---|---|\n" + strings.Join(rows, ""), nil
}

// firstSentence is that of the comment that text begins with.
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
