package rules

import (
	"slices"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// rejectedBy is the severity of a defect of chat histories that only these variants were seen to reject. All others
// are said to accept it, or nobody knows.
func rejectedBy(variants ...facts.Variant) func(facts.Target) analyzer.Severity {
	return func(t facts.Target) analyzer.Severity {
		if t.Dialect == facts.OpenAIChat && slices.Contains(variants, t.Variant) {
			return analyzer.Reject
		}
		return analyzer.Lenient
	}
}
