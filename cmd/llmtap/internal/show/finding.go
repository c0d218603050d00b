package show

import (
	"context"
	"time"
)

// A Finding is a stored violation or signal.
type Finding struct {
	Rule       string    `json:"rule_id"`
	Severity   string    `json:"severity"`
	Predicted  string    `json:"predicted"`
	Status     int       `json:"status"`
	FirstSeen  time.Time `json:"first_seen"`
	Exchange   string    `json:"exchange_id"`   // that showed it first
	Message    int       `json:"message_index"` // -1 for the request as a whole
	ToolCallID string    `json:"tool_call_id,omitempty"`
	ToolName   string    `json:"tool_name,omitempty"`
	Summary    string    `json:"summary"`
	RootCause  string    `json:"root_cause,omitempty"`
	Confidence string    `json:"confidence,omitempty"`
	Evidence   string    `json:"evidence,omitempty"`
	Fix        string    `json:"fix,omitempty"`

	FirstVersion string `json:"first_version,omitempty"`      // of the service that showed the defect, in any conversation
	LastClean    string `json:"last_clean_version,omitempty"` // the newest other version before
}

// findings reads those of a conversation in the order in which they were seen.
func findings(ctx context.Context, q Querier, conversation string) ([]Finding, error) {
	found, err := ask(ctx, q, "findings", `SELECT rule_id, severity, predicted, status, first_seen, exchange_id, message_index, tool_call_id, tool_name, summary,
			root_cause, confidence, evidence, fix, first_version, last_clean_version
		FROM findings_final WHERE conversation_id = {id:String} ORDER BY first_seen, message_index, finding_id LIMIT 10000`, "id", conversation)
	if err != nil {
		return nil, err
	}
	all := make([]Finding, len(found))
	for i, r := range found {
		all[i] = Finding{
			Rule: r.text("rule_id"), Severity: r.text("severity"), Predicted: r.text("predicted"), Status: r.number("status"), FirstSeen: r.time("first_seen"),
			Exchange: r.text("exchange_id"), Message: r.number("message_index"), ToolCallID: r.text("tool_call_id"), ToolName: r.text("tool_name"),
			Summary: r.text("summary"), RootCause: r.text("root_cause"), Confidence: r.text("confidence"), Evidence: r.text("evidence"), Fix: r.text("fix"),
			FirstVersion: r.text("first_version"), LastClean: r.text("last_clean_version"),
		}
	}
	return all, nil
}

// verdict is what a severity means to whoever sent the request.
func (f *Finding) verdict() string {
	switch {
	case f.Severity == "signal":
		return "signal"
	case f.Predicted == "reject" && f.Severity != "reject":
		return "was accepted, would usually be rejected"
	case f.Severity == "reject" && f.Status >= 400:
		return "rejected"
	case f.Severity == "reject":
		return "would be rejected"
	case f.Severity == "lenient":
		return "accepted here, rejected elsewhere"
	default:
		return f.Severity
	}
}
