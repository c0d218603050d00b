package show

import (
	"context"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
)

// A Finding is a stored violation or signal.
type Finding struct {
	Rule       string    `json:"rule_id"`
	Severity   string    `json:"severity"`
	Predicted  string    `json:"predicted"`
	Status     int       `json:"status"`
	FirstSeen  time.Time `json:"first_seen"`
	Exchange   string    `json:"exchange_id"`   // the first exchange with the finding
	Message    int       `json:"message_index"` // -1 for the request as a whole
	ToolCallID string    `json:"tool_call_id,omitempty"`
	ToolName   string    `json:"tool_name,omitempty"`
	Summary    string    `json:"summary"`
	RootCause  string    `json:"root_cause,omitempty"`
	Confidence string    `json:"confidence,omitempty"`
	Evidence   string    `json:"evidence,omitempty"`
	Fix        string    `json:"fix,omitempty"`

	FirstVersion string `json:"first_version,omitempty"`      // first version of the service with the defect, in any conversation
	LastClean    string `json:"last_clean_version,omitempty"` // newest other version with calls before FirstVersion

	Comparison *Comparison `json:"comparison,omitempty"` // nil if the rule needs none or the bodies are not stored
}

// readFindings returns the findings of a conversation in the order of first_seen.
func readFindings(ctx context.Context, q rows.Querier, conversation string) ([]Finding, error) {
	found, err := rows.Read(ctx, q, "findings", `SELECT rule_id, severity, predicted, status, first_seen, exchange_id, message_index, tool_call_id, tool_name, summary,
			root_cause, confidence, evidence, fix, first_version, last_clean_version
		FROM findings_final WHERE conversation_id = {id:String} ORDER BY first_seen, message_index, finding_id LIMIT 10000`, map[string]string{"id": conversation})
	if err != nil {
		return nil, err
	}
	all := make([]Finding, len(found))
	for i, r := range found {
		all[i] = Finding{
			Rule: r.Text("rule_id"), Severity: r.Text("severity"), Predicted: r.Text("predicted"), Status: r.Int("status"), FirstSeen: r.Time("first_seen"),
			Exchange: r.Text("exchange_id"), Message: r.Int("message_index"), ToolCallID: r.Text("tool_call_id"), ToolName: r.Text("tool_name"),
			Summary: r.Text("summary"), RootCause: r.Text("root_cause"), Confidence: r.Text("confidence"), Evidence: r.Text("evidence"), Fix: r.Text("fix"),
			FirstVersion: r.Text("first_version"), LastClean: r.Text("last_clean_version"),
		}
	}
	return all, nil
}
