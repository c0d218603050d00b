package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ReasoningItemUnpaired finds reasoning items without the item that followed them, and items without their reasoning item.
var ReasoningItemUnpaired = &check.Rule{
	ID:    "reasoning_item_unpaired",
	Order: 400,
	Cause: "reasoning_item_unpaired",
	Doc: `reasoning item without the item that followed it in the answer

A reasoning item (rs_…) and the message or call after it belong together: "Item 'rs_…' of type 'reasoning' was provided
without its required following item", "Item 'fc_…' of type 'function_call' was provided without its required 'reasoning'
item". A message sent back without its id does not count, unless store is false. Usual causes: only calls and
messages are stored; the history was trimmed between the two; items were put into another order; a text was changed.
Keep all items of an answer together and in their order, or drop the ids and the reasoning of all.`,
	Fix:      "Keep all output items of an answer together and in order when storing and trimming, reasoning items included.",
	Severity: by{wire.OpenAIResponses: openAIs}.reject,
	Run:      reasoningItemUnpaired,
}

func reasoningItemUnpaired(p *check.Pass) {
	if p.Target.Dialect != wire.OpenAIResponses || p.Request.Stored || p.Request.Dropped > 0 {
		return
	}
	severity := by{wire.OpenAIResponses: openAIs}.reject(p.Target)
	if modelIs(p, "o3-mini") {
		severity = check.Lenient // o3-mini has been observed to accept both defects
	}
	open := -1 // index of a reasoning item that has an id but no follower yet
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		switch {
		case m.Item == facts.ItemReasoning:
			if open = -1; len(m.ID) > 0 { // only the last of consecutive reasoning items needs a follower
				open = i
			}
			continue
		case open >= 0 && (replyWord(p, m.Replies) == "function_call_output" && m.Item == facts.ItemReply || m.Item == facts.ItemMessage && m.Role != facts.RoleAssistant):
			p.ReportAs(severity, open, nil, nil, "no_following_item", "%s, %s, is followed by %s instead of its own item",
				at(p, open), name(p.Request.Messages[open].ID), at(p, i))
		case open >= 0 && m.Item == facts.ItemMessage && len(m.ID) == 0 && !p.Request.Unstored && !p.Request.Bare:
			// The provider finds the follower by its id, but only among stored items.
			p.ReportAs(severity, open, nil, nil, "follower_without_id", "%s, %s, is followed by %s without the id that it had in the answer",
				at(p, open), name(p.Request.Messages[open].ID), at(p, i))
		}
		open = -1
	}
	if open >= 0 {
		p.ReportAs(severity, open, nil, nil, "no_following_item", "%s, %s, ends the input without the item that followed it",
			at(p, open), name(p.Request.Messages[open].ID))
	}
	reasoningLost(p)
}

// reasoningLost reports a copy of the last answer that has its item id but lacks the preceding reasoning items.
func reasoningLost(p *check.Pass) {
	b := p.Before
	if b == nil || b.Copy < 0 || b.Copy >= len(p.Request.Messages) || len(b.Signed) == 0 {
		return
	}
	m := &p.Request.Messages[b.Copy]
	if len(m.ID) == 0 || m.Item != facts.ItemCall && m.Item != facts.ItemMessage {
		return
	}
	for _, s := range b.Signed[:min(len(b.Signed), maxSigned)] {
		if s.ID == "" || reasoningItem(p, s.ID) >= 0 {
			return
		}
	}
	p.Report(b.Copy, nil, nil, "no_reasoning_item", "%s, %s, is sent without its reasoning item %s",
		at(p, b.Copy), name(m.ID), name([]byte(b.Signed[0].ID)))
}
