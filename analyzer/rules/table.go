package rules

import (
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Table renders All as a Markdown table: rule, defect, rejecting targets, fix.
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

// whoRejects returns the targets that answer 400 to the defect: the variants of chat completions, then those of the other
// dialects. The names responses, anthropic and gemini stand for the maker's own API on all platforms that serve it.
func whoRejects(r *check.Rule) (who []string) {
	rejects := func(d wire.Dialect) func(wire.Variant) bool {
		return func(v wire.Variant) bool {
			return r.Severity(wire.Target{Dialect: d, Variant: v}) == check.Reject
		}
	}
	for _, v := range wire.OpenAIChat.Variants() {
		if rejects(wire.OpenAIChat)(v) {
			who = append(who, string(v))
		}
	}
	if !slices.Contains(who, string(wire.Ollama)) &&
		r.Severity(wire.Target{Dialect: wire.OpenAIChat, Variant: wire.Ollama, Native: true}) == check.Reject {
		who = append(who, "ollama (/api/chat)")
	}
	for _, d := range wire.Dialects[1:] {
		own, name := d.Variants()[:1], string(d) // the variants of the maker's own API
		switch d {
		case wire.OpenAIResponses:
			own, name = openAIs, "responses"
		case wire.Anthropic:
			own = anthropics
		case wire.Gemini:
			own = d.Variants()
		default:
		}
		all := !slices.ContainsFunc(own, func(v wire.Variant) bool { return !rejects(d)(v) })
		if all {
			who = append(who, name)
		}
		for _, v := range d.Variants() {
			if rejects(d)(v) && (!all || !slices.Contains(own, v)) {
				who = append(who, string(v))
			}
		}
	}
	return who
}
