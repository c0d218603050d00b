package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// vocabulary is what people read on pages, in help texts and in notifications, and what they would have to guess instead. Names of tables,
// columns and paths keep their words.
//
//	call          a request to a model and its answer; "LLM call" where a tool call is meant as well
//	request       what is sent; answer or response: what comes back
//	tool call     what a model asks for; its result is the reply
//	notification  what people get in Slack or by another receiver
//	stage         service/stage, or only the service if its calls have no stage
var vocabulary = []struct{ say, not string }{
	{"call", `\bexchanges?\b`},
	{"without usage", `\bunreported\b`},
	{"notifications", `\bmessages to people\b`},
	{"the name without a slash", `\w/(\s|$)`},
}

var (
	markup    = regexp.MustCompile(`(?s)\{\{.*?\}\}|<(code|pre)\b.*?</(?:code|pre)>|<[^>]*>`)
	spelled   = regexp.MustCompile(`\{filter exchanges|%s/`)
	statement = regexp.MustCompile(`\b(SELECT|FROM|WHERE)\b`)
	literal   = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"`)
)

// Pages, help texts, notices and what commands print use the words of the list.
func TestWords(t *testing.T) {
	check := func(name, text string) {
		t.Helper()
		for _, w := range vocabulary {
			for _, found := range regexp.MustCompile("(?i)"+w.not).FindAllString(text, -1) {
				t.Errorf("%s: say %s, not %q", name, w.say, found)
			}
		}
	}
	for _, path := range must.Get(filepath.Glob("../../dashboards/web/templates/*.html"))(t) {
		check(path, markup.ReplaceAllString(string(must.Get(os.ReadFile(path))(t)), ""))
	}
	notices := must.Get(os.ReadFile("../../dashboards/web/alert_actions.go"))(t)
	_, list, _ := strings.Cut(string(notices), "var notices =")
	list, _, _ = strings.Cut(list, "\n}\n")
	if len(list) < 500 {
		t.Fatalf("the notices are not found: %q", list)
	}
	check("notices", strings.Join(literal.FindAllString(list, -1), "\n"))
	code := must.Get(filepath.Glob("*.go"))(t)
	code = append(code, must.Get(filepath.Glob("internal/*/*.go"))(t)...)
	for _, path := range code {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, text := range literal.FindAllString(string(must.Get(os.ReadFile(path))(t)), -1) {
			if text = spelled.ReplaceAllString(text, ""); strings.Contains(text, " ") && !statement.MatchString(text) {
				check(path, strings.TrimSuffix(text, `"`))
			}
		}
	}
	var help func(c *command.Command)
	help = func(c *command.Command) {
		check(c.Name, c.Short)
		for _, sub := range c.Commands {
			help(sub)
		}
	}
	help(llmtap)
	for _, name := range queries.Names() {
		q := must.Get(queries.Get(name))(t)
		check(name, q.Question)
		for _, p := range q.Parameters {
			check(name+" "+p.Name, p.Doc)
		}
	}
}
