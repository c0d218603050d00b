package main

import (
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
)

// A check of nothing, or of input that cannot be judged, does not succeed, and names the file in every format.
func TestNothingToCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	const user = `{"role":"user","content":"q"}`
	write := func(name, text string) { filetest.Write(t, name, text) }
	write("empty.jsonl", "")
	write("blank.json", "\n \n")
	write("dir/notes.txt", "{}")
	write("format.json", `{"format":"klingon","messages":[`+user+`]}`)
	write("embeddings.json", `{"url":"https://api.openai.com/v1/embeddings","request":{"input":"q"}}`)
	write("none.json", `{"model":"gpt-5","messages":[]}`)
	write("nobody.json", `{"url":"https://api.openai.com/v1/chat/completions","request":null}`)
	write("many.json", `{"model":"gpt-5","messages":[`+strings.Repeat(user+",", 1<<16)+user+`]}`)
	write("cut.json", `{"model":"gpt-5","messages":[`+user)
	write("har.har", `{"log":{"entries":[]}}`)
	write("bad.json", `[`+user+`,{"role":"tool","tool_call_id":"call_1","content":"ok"}]`)
	write("good/a.json", `[`+user+`]`)
	write("good/deep/b.ndjson", `{"model":"gpt-5","messages":[`+user+"]}\n")

	f := func(code int, want string, args ...string) {
		t.Helper()
		if stdout, stderr, got := runCommand(t, "", args...); got != code || !strings.Contains(stdout+stderr, want) {
			t.Errorf("llmtap %s: exit code %d, want %d, with %q in\n%.1000s%.1000s", strings.Join(args, " "), got, code, want, stdout, stderr)
		}
	}
	formats := map[string]string{ // the part of an output that names the file
		"text": "FILE", "json": `"source":"FILE`, "jsonl": `"source":"FILE`, "github": "::error file=FILE,", "sarif": `"uri": "FILE"`,
	}
	for file, why := range map[string]string{
		"empty.jsonl": "no records", "blank.json": "no records", "dir": "no .json, .jsonl, .ndjson, .har files", "format.json": "unknown format",
		"embeddings.json": "no rules for this API", "none.json": "the request has no messages", "nobody.json": "the record has no request body",
		"-": "no records", "har.har": "no records",
	} {
		for format, named := range formats {
			f(command.ExitNothing, strings.ReplaceAll(named, "FILE", file), "lint", "--format", format, file)
			f(command.ExitNothing, why, "lint", "--format", format, "good", file)
			f(command.ExitFailed, why, "lint", "--format", format, file, "bad.json")
			f(command.ExitBadInput, why, "lint", "--format", format, file, "bad.json", "cut.json")
		}
	}
	f(command.ExitNothing, `"not_judged":"too many messages`, "lint", "--format", "jsonl", "many.json")
	f(command.ExitOK, "2 histories checked, 0 would be rejected, 0 not judged, 0 unreadable", "lint", "good")
	f(command.ExitBadInput, "unexpected end of JSON", "lint", "cut.json")
	f(command.ExitBadInput, "missing argument FILE", "lint")

	f(command.ExitNothing, "the input is empty", "explain", "empty.jsonl")
	f(command.ExitNothing, `"error":"the input is empty"`, "explain", "--format", "jsonl", "-")
	f(command.ExitBadInput, "missing argument", "explain")
	f(command.ExitBadInput, "missing argument", "import")

	write("norules.yaml", "groups: []\n")
	write("nogroups.test.yaml", "rule_files: [rules.yaml]\ntests: []\n")
	write("rules.yaml", "groups: [{name: g, rules: [{alert: A, expr: llmtap_calls_total > 1}]}]\n")
	f(command.ExitNothing, "norules.yaml: no alert rules", "alerts", "check", "norules.yaml")
	f(command.ExitNothing, "no alert rules", "alerts", "check", "empty.jsonl")
	f(command.ExitFailed, "the file has no tests", "alerts", "test", "nogroups.test.yaml")
	f(command.ExitNothing, "no alert rules in norules.yaml", "alerts", "backtest", "norules.yaml")
	f(command.ExitBadInput, "missing argument FILE", "alerts", "test")

	f(command.ExitBadInput, "unknown flag --nosuch", "query", "causes", "--nosuch", "1")
	f(command.ExitBadInput, "did you mean --service?", "query", "causes", "--servce", "1")
	f(command.ExitBadInput, "no query", "query", "cause_s")
}
