package show

import (
	"context"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/dashboards/stored"
)

// A Finding is a stored violation or signal, compared with what the model said.
type Finding struct {
	stored.Finding
	Comparison *Comparison `json:"comparison,omitempty"` // nil if the rule needs none or the bodies are not stored
}

var findingsOf = rows.Statement(`SELECT rule_id, severity, predicted, status, first_seen, exchange_id, message_index, tool_call_id, tool_name, summary,
		root_cause, confidence, evidence, fix, first_version, last_clean_version, clean_calls, code, answer_code
	FROM findings FINAL WHERE conversation_id = {id:String} ORDER BY first_seen, message_index, finding_id LIMIT 10000`)

// readFindings returns the findings of a conversation in the order of first_seen.
func readFindings(ctx context.Context, q rows.Querier, conversation string) ([]Finding, error) {
	found, err := rows.Read(ctx, q, "findings", findingsOf, map[string]string{"id": conversation})
	if err != nil {
		return nil, err
	}
	all := make([]Finding, len(found))
	for i, r := range found {
		all[i] = Finding{Finding: stored.Finding{
			Rule: r.Text("rule_id"), Severity: r.Text("severity"), Predicted: r.Text("predicted"), Status: r.Int("status"), FirstSeen: r.Time("first_seen"),
			Exchange: r.Text("exchange_id"), Message: r.Int("message_index"), ToolCallID: r.Text("tool_call_id"), ToolName: r.Text("tool_name"),
			Summary: r.Text("summary"), RootCause: r.Text("root_cause"), Confidence: r.Text("confidence"), Evidence: r.Text("evidence"), Fix: r.Text("fix"),
			FirstVersion: r.Text("first_version"), LastClean: r.Text("last_clean_version"), CleanCalls: r.Int("clean_calls"), Code: r.Text("code"), AnswerCode: r.Text("answer_code"),
		}}
	}
	return all, nil
}
