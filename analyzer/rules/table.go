package rules

import (
	"strings"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// variants are the judges of chat histories, in the order of the table's last column.
var variants = []facts.Variant{
	facts.OpenAI, facts.Azure, facts.DeepSeek, facts.GeminiOpenAI, facts.Mistral, facts.Groq, facts.XAI, facts.Together,
	facts.Fireworks, facts.OpenRouter, facts.Kimi, facts.GLM, facts.Qwen, facts.MiniMax, facts.Ollama, facts.VLLM,
	facts.SGLang, facts.LlamaCPP, facts.LiteLLM, facts.OtherVariant,
}

// Table renders All as a Markdown table: rule, what it finds, who answers 400, what to change.
func Table() string {
	var b strings.Builder
	b.WriteString("| rule | finds | known to reject it | fix |\n|---|---|---|---|\n")
	for _, r := range All {
		var by []string
		for _, v := range variants {
			if r.Severity(facts.Target{Dialect: facts.OpenAIChat, Variant: v}) == analyzer.Reject {
				by = append(by, string(v))
			}
		}
		b.WriteString("| `" + r.ID + "` | " + r.Title() + " | " + strings.Join(by, ", ") + " | " + r.Fix + " |\n")
	}
	return b.String()
}
