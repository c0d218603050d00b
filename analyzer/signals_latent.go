package analyzer

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/analyzer/judge"
)

// latent tells of each defect that an accepted exchange shows and others would have refused.
func (a *Analyzer) latent(o *open) {
	for i := range o.found {
		f := &o.found[i]
		in := f.Instance
		if in.Latent || len(in.RejectedBy) == 0 || !f.Latent() {
			continue
		}
		in.Latent = true
		here := judge.TargetName(o.target.Dialect, o.target.Variant)
		s := signal{
			id: LatentViolation, detail: f.Rule.ID, message: f.Message, callID: f.ToolCallID, tool: f.ToolName, key: hex.EncodeToString(f.ID[:]),
			summary: "accepted, though " + f.Summary, rejectedBy: in.RejectedBy, fix: f.Fix(),
			evidence: fmt.Sprintf("%s answered %d; rejected by %s", here, o.row.Status, strings.Join(in.RejectedBy, ", ")),
		}
		o.signals = append(o.signals, s)
	}
}

// watch finds the signals of an exchange that is over.
func (a *Analyzer) watch(o *open, proof *judge.Finding, accepted bool, need uint64) {
	switch {
	case o.row.Failed:
		a.watchFailure(o)
	case accepted:
		a.latent(o)
	}
	a.stormed(o, accepted, need)
	a.poisoned(o, proof, accepted)
}
