package judge

import (
	"slices"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// pairingRules are the rules about calls and replies that do not belong together. Such violations are wrong for every
// target: a provider that accepts them is lenient, and the model reads nonsense. All other rules concern the schema of
// one provider, so in an accepted request their violations matter only if that provider itself rejects them.
var pairingRules = map[string]bool{
	"orphan_tool_reply": true, "unknown_tool_call_id": true, "missing_tool_call_id": true, "missing_tool_reply": true,
	"duplicate_tool_reply": true, "late_tool_reply": true, "tool_reply_before_call": true,
}

// Latent reports whether the violation matters even in an accepted request.
func (f *Finding) Latent() bool {
	return f.Predicted == check.Reject || f.Predicted == check.Lenient && pairingRules[f.Rule.ID]
}

// TargetName returns the name of a target for humans: dialect/variant.
func TargetName(d wire.Dialect, v wire.Variant) string { return string(d) + "/" + string(v) }

// FindRejecters sets Instance.RejectedBy of each new latent defect in the last request to the targets that reject it:
// the variants of its dialect, to which the agent can switch without a code change.
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

// violationKey identifies a violation of one rule in one request.
type violationKey struct {
	message        int
	callID, detail string
}

// findRejecters applies the rule of the findings for each variant, because a rule may depend on the variant.
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
