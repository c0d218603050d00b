package analyzer

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/wire"
)

// pairingRules find what is wrong whoever reads it: calls and replies that do not belong together. A provider that takes
// them is lenient, and the model reads nonsense. What the other rules find in a request that was accepted is a matter of
// one provider's schema, and of concern only where that provider itself rejects it.
var pairingRules = map[string]bool{
	"orphan_tool_reply": true, "unknown_tool_call_id": true, "missing_tool_call_id": true, "missing_tool_reply": true,
	"duplicate_tool_reply": true, "late_tool_reply": true, "tool_reply_before_call": true,
}

func mayBeLatent(v *check.Violation) bool {
	return v.Predicted == check.Reject || v.Predicted == check.Lenient && pairingRules[v.Rule.ID]
}

// targetName is how a target is named to people: dialect/variant.
func targetName(d wire.Dialect, v wire.Variant) string { return string(d) + "/" + string(v) }

// rejecters notes with each new defect of the request in a.req which variants of its dialect reject it: those that the
// agent can be sent to without a change of code.
func (a *Analyzer) rejecters(o *open, before *check.Before) {
	for i := 0; i < len(o.found); {
		end, fresh := i, false
		for ; end < len(o.found) && o.found[end].Rule == o.found[i].Rule; end++ {
			f := &o.found[end]
			fresh = fresh || f.instance.RejectedBy == nil && mayBeLatent(&f.Violation)
		}
		if fresh {
			a.rejectersOf(o, before, o.found[i:end])
		}
		i = end
	}
}

// place tells the violations of one rule in one request apart.
type place struct {
	message        int
	callID, detail string
}

// rejectersOf runs the rule of the defects list for each variant, because what it takes a defect for may depend on it.
func (a *Analyzer) rejectersOf(o *open, before *check.Before, list []found) {
	at := make(map[place]*found, len(list))
	for i := range list {
		f := &list[i]
		if f.instance.RejectedBy != nil || !mayBeLatent(&f.Violation) {
			continue
		}
		f.instance.RejectedBy = []string{}
		if f.Predicted == check.Reject {
			f.instance.RejectedBy = append(f.instance.RejectedBy, targetName(o.target.Dialect, o.target.Variant))
		}
		at[place{f.Message, f.ToolCallID, f.Detail}] = f
	}
	for _, variant := range o.target.Dialect.Variants() {
		if variant == o.target.Variant || variant == wire.OtherVariant {
			continue
		}
		t := o.target
		t.Variant = variant
		for _, v := range a.checker.CheckRule(list[0].Rule, &a.req, t, before) {
			if f := at[place{v.Message, v.ToolCallID, v.Detail}]; f != nil && v.Predicted == check.Reject {
				if in := f.instance; !slices.Contains(in.RejectedBy, targetName(t.Dialect, variant)) {
					in.RejectedBy = append(in.RejectedBy, targetName(t.Dialect, variant))
				}
			}
		}
	}
	for _, f := range at {
		slices.Sort(f.instance.RejectedBy)
	}
}

// latent tells of each defect that an accepted exchange shows and others would have refused.
func (a *Analyzer) latent(o *open) {
	for i := range o.found {
		f := &o.found[i]
		in := f.instance
		if in.Latent || len(in.RejectedBy) == 0 || !mayBeLatent(&f.Violation) {
			continue
		}
		in.Latent = true
		here := targetName(o.target.Dialect, o.target.Variant)
		s := signal{
			id: LatentViolation, detail: f.Rule.ID, message: f.Message, callID: f.ToolCallID, tool: f.ToolName, key: hex.EncodeToString(f.id[:]),
			summary: "accepted, though " + f.Summary, rejectedBy: in.RejectedBy, fix: in.Root.Fix,
			evidence: fmt.Sprintf("%s answered %d; rejected by %s", here, o.row.Status, strings.Join(in.RejectedBy, ", ")),
		}
		if s.fix == "" {
			s.fix = f.Rule.Fix
		}
		o.signals = append(o.signals, s)
	}
}

// watch finds the signals of an exchange that is over.
func (a *Analyzer) watch(o *open, proof *found, accepted bool, need uint64) {
	switch {
	case o.row.Failed:
		a.watchFailure(o)
	case accepted:
		a.latent(o)
	}
	a.stormed(o, accepted, need)
	a.poisoned(o, proof, accepted)
}
