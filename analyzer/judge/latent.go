package judge

import (
	"slices"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/wire"
)

// pairingRules find calls and replies that do not belong together, which is wrong for every target: a provider that
// accepts them is lenient, and the model reads nonsense. The other rules are about the schema of one provider, so their
// violations matter in an accepted request only where that provider itself rejects them.
var pairingRules = map[string]bool{
	"orphan_tool_reply": true, "unknown_tool_call_id": true, "missing_tool_call_id": true, "missing_tool_reply": true,
	"duplicate_tool_reply": true, "late_tool_reply": true, "tool_reply_before_call": true,
}

// Latent reports whether the violation matters even in an accepted request.
func (f *Finding) Latent() bool {
	return f.Predicted == check.Reject || f.Predicted == check.Lenient && pairingRules[f.Rule.ID]
}

// TargetName names a target for humans: dialect/variant.
func TargetName(d wire.Dialect, v wire.Variant) string { return string(d) + "/" + string(v) }

// FindRejecters sets Instance.RejectedBy of each new defect of the last request: the variants of its dialect that reject
// the defect, which are the targets that the agent can switch to without a change of code.
func (j *Judge) FindRejecters(r *Request, findings []Finding) {
	for i := 0; i < len(findings); {
		end, fresh := i, false
		for ; end < len(findings) && findings[end].Rule == findings[i].Rule; end++ {
			f := &findings[end]
			fresh = fresh || f.Instance.RejectedBy == nil && f.Latent()
		}
		if fresh {
			j.findRejecters(r, findings[i:end])
		}
		i = end
	}
}

// violationKey distinguishes the violations of one rule in one request.
type violationKey struct {
	message        int
	callID, detail string
}

// findRejecters runs the rule of the findings for each variant, because a rule may depend on the variant.
func (j *Judge) findRejecters(r *Request, findings []Finding) {
	t := r.Target
	byKey := make(map[violationKey]*Finding, len(findings))
	for i := range findings {
		f := &findings[i]
		if f.Instance.RejectedBy != nil || !f.Latent() {
			continue
		}
		f.Instance.RejectedBy = []string{}
		if f.Predicted == check.Reject {
			f.Instance.RejectedBy = append(f.Instance.RejectedBy, TargetName(t.Dialect, t.Variant))
		}
		byKey[violationKey{f.Message, f.ToolCallID, f.Detail}] = f
	}
	for _, variant := range t.Dialect.Variants() {
		if variant == r.Target.Variant || variant == wire.OtherVariant {
			continue
		}
		t.Variant = variant
		name := TargetName(t.Dialect, variant)
		for _, v := range j.checker.CheckRule(findings[0].Rule, r.Facts, t, &j.before) {
			f := byKey[violationKey{v.Message, v.ToolCallID, v.Detail}]
			if f != nil && v.Predicted == check.Reject && !slices.Contains(f.Instance.RejectedBy, name) {
				f.Instance.RejectedBy = append(f.Instance.RejectedBy, name)
			}
		}
	}
	for _, f := range byKey {
		slices.Sort(f.Instance.RejectedBy)
	}
}
