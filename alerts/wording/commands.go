package wording

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/signals"
)

// queries maps the rules and signals of an alert to the query that lists their findings.
var queries = map[string]string{
	"missing_tool_reply":             "open_tool_calls",
	signals.ReplyNeverArrived:        "open_tool_calls",
	signals.MaskedFailure:            "masked_failures",
	signals.ConversationEndedOnError: "masked_failures",
	signals.RetryStorm:               "wasted_retries",
	signals.LatentViolation:          "latent_violations",
	signals.ProviderTightened:        "provider_changes",
	signals.CacheBroken:              "cache",

	analyzer.ToolError:                     "slowest_tools",
	analyzer.OddID(analyzer.EndedLimit):    "what_changed",
	analyzer.OddID(analyzer.EndedEmpty):    "what_changed",
	analyzer.OddID(analyzer.EndedRefused):  "what_changed",
	analyzer.OddID(analyzer.EndedFiltered): "what_changed",
}

// unusualQueries maps what is measured to the query that lists the calls with the most of it, or what is new.
var unusualQueries = map[string]string{
	"duration": "slowest_calls", "first_token": "slowest_calls", "input_tokens": "usage", "output_tokens": "usage", "calls": "what_changed",
	"history": "usage", "cost": "usage", "spend": "usage", "tool_errors": "slowest_tools",
	"cache": "cache",
}

// Command returns a command of llmtap, quoted for a POSIX shell.
func Command(x alerts.Access, args ...string) string {
	if x.URL != "" {
		args = append(args, "--url", x.URL)
	}
	words := []string{"llmtap"}
	for _, a := range args {
		words = append(words, quote(a))
	}
	return strings.Join(words, " ")
}

// Commands returns the commands that investigate a, quoted for a POSIX shell: they print the example's call and
// conversation, and query the failures with the labels of the alert since the start of the window. Ids that Slack
// or a shell could change are omitted.
func Commands(x alerts.Access, a *alerts.Alert) []string {
	var out []string
	add := func(args ...string) { out = append(out, Command(x, args...)) }
	if ex := a.Evidence.Example; ex != nil {
		for _, id := range []string{ex.Exchange, ex.Conversation} {
			if usable(id) {
				add("show", id)
			}
		}
	}
	unusual := unusualQueries[a.Labels["measure"]]
	if a.Evidence.Failed == 0 && unusual == "" || !usable(a.Labels["service"]) {
		return out
	}
	query := []string{"query", "causes"}
	if a.Evidence.Failed == 0 {
		query[1] = unusual
	}
	if rules := a.Evidence.Rules; len(rules) > 0 {
		if name := queries[rules[0]]; name != "" {
			query[1] = name
		} else {
			query = []string{"query", "finding_examples", "--rule", rules[0]}
		}
	}
	filters := []string{"service", "stage", "environment"}
	if query[1] != "open_tool_calls" && query[1] != "slowest_tools" { // tool calls are stored without their model
		filters = append(filters, "provider", "model")
	}
	if query[1] == "causes" {
		filters = append(filters, "cause")
	}
	for _, name := range filters {
		if v := a.Labels[name]; usable(v) {
			query = append(query, "--"+name, v)
		}
	}
	query = append(query, "--since", a.StartsAt.Add(-a.Evidence.Window).UTC().Format(time.RFC3339))
	add(query...)
	return out
}

// usable reports whether a command may contain v: a person copies it from a message, and must see what it does.
func usable(v string) bool {
	return v != "" && len(v) <= MaxID && v[0] != '-' && utf8.ValidString(v) && !strings.ContainsFunc(v, func(r rune) bool { return r == '`' || !unicode.IsPrint(r) })
}

// quote quotes an argument of a shell command if necessary.
func quote(arg string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:/@-", r)
	}
	if arg != "" && !strings.ContainsFunc(arg, func(r rune) bool { return !safe(r) }) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
