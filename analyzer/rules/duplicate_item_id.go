package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// DuplicateItemID finds items of a Responses input that share an id.
var DuplicateItemID = &check.Rule{
	ID:    "duplicate_item_id",
	Order: 450,
	Cause: "duplicate_item_id",
	Doc: `the same item twice in one input

Ids of items (fc_…, rs_…, msg_…) are unique: "Duplicate item found with id fc_…. Remove duplicate items from your input
and try again". Usual causes: a resumed run appends its items again; an approval and the result both store the call;
the client derives ids from values that repeat. Messages with the same client-made id were seen accepted with store
false, and seen refused. Store each item once, by its id.`,
	Fix:      "Store every output item once, keyed by its id, and leave out ids that are not the provider's own.",
	Severity: by{wire.OpenAIResponses: openAIs}.reject,
	Run:      duplicateItemID,
}

func duplicateItemID(p *check.Pass) {
	if p.Target.Dialect != wire.OpenAIResponses {
		return
	}
	ids := 0
	for i := range p.Request.Messages {
		if len(p.Request.Messages[i].ID) > 0 {
			ids++
		}
	}
	if ids < 2 {
		return
	}
	seen := p.Set(ids)
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		if len(m.ID) > 0 && m.Item != facts.ItemReference && !seen.Add(m.ID) {
			severity := by{wire.OpenAIResponses: openAIs}.reject(p.Target)
			if m.Item == facts.ItemMessage && p.Request.Unstored {
				severity = check.Lenient
			}
			p.ReportAs(severity, i, nil, nil, "", "%s has the id %s of an item before it", at(p, i), name(m.ID))
		}
	}
}
