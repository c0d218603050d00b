package rules

import (
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// Table renders All as a Markdown table: rule, what it finds, who answers 400, what to change.
func Table() string {
	var b strings.Builder
	b.WriteString("| rule | finds | known to reject it | fix |\n|---|---|---|---|\n")
	for _, r := range All {
		who := strings.Join(whoRejects(r), ", ")
		if who == "" {
			who = "-"
		}
		b.WriteString("| `" + r.ID + "` | " + r.Title() + " | " + who + " | " + r.Fix + " |\n")
	}
	return b.String()
}

// whoRejects names the targets that answer 400 to what r finds: the variants of chat completions, then those of other
// dialects, of which responses, anthropic and gemini stand for the maker's own API wherever it is served.
func whoRejects(r *check.Rule) (who []string) {
	rejects := func(d facts.Dialect) func(facts.Variant) bool {
		return func(v facts.Variant) bool {
			return r.Severity(facts.Target{Dialect: d, Variant: v}) == check.Reject
		}
	}
	for _, v := range facts.Variants[facts.OpenAIChat] {
		if rejects(facts.OpenAIChat)(v) {
			who = append(who, string(v))
		}
	}
	if !slices.Contains(who, string(facts.Ollama)) &&
		r.Severity(facts.Target{Dialect: facts.OpenAIChat, Variant: facts.Ollama, Native: true}) == check.Reject {
		who = append(who, "ollama (/api/chat)")
	}
	for _, d := range facts.Dialects[1:] {
		own, name := facts.Variants[d][:1], string(d) // the maker's own
		switch d {
		case facts.OpenAIResponses:
			own, name = openAIs, "responses"
		case facts.Anthropic:
			own = anthropics
		case facts.Gemini:
			own = facts.Variants[d]
		default:
		}
		all := !slices.ContainsFunc(own, func(v facts.Variant) bool { return !rejects(d)(v) })
		if all {
			who = append(who, name)
		}
		for _, v := range facts.Variants[d] {
			if rejects(d)(v) && (!all || !slices.Contains(own, v)) {
				who = append(who, string(v))
			}
		}
	}
	return who
}
