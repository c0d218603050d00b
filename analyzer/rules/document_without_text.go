package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// DocumentWithoutText finds Bedrock messages with a document and no text.
var DocumentWithoutText = &check.Rule{
	ID:    "document_without_text",
	Order: 132,
	Cause: "missing_required_field",
	Doc: `message with a document and no text

Converse answers "A text block must be included when using documents.": a document block needs a text block in the same
message, for all models. A document in a tool result needs none. Usual cause: the user attached a file without a prompt.
Send a text with the document, if only its name. A blank text is no help, because Bedrock refuses it, too.`,
	Fix:      "Put a text block into each message that has a document block.",
	Severity: by{wire.Bedrock: nil}.reject,
	Run:      documentWithoutText,
}

// Sources: docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-call.html, maximhq/bifrost#5817,
// archestra-ai/archestra#4220, ag-ui-protocol/ag-ui#1978.
func documentWithoutText(p *check.Pass) {
	if p.Target.Dialect != wire.Bedrock {
		return
	}
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		if m.Parts&facts.PartFile == 0 || m.Parts&facts.PartText != 0 {
			continue
		}
		severity := check.Reject
		if m.Parts&facts.PartOther != 0 || sameAuthor(p, i, i-1) || sameAuthor(p, i, i+1) {
			// The text may be in a guardContent block or in the other message of the turn; whether Bedrock counts it is unknown.
			severity = check.Lenient
		}
		p.ReportAs(severity, i, nil, nil, "", "%s has a document and no text", at(p, i))
	}
}

// sameAuthor reports whether message j exists and has the role of message i.
func sameAuthor(p *check.Pass, i, j int) bool {
	return j >= 0 && j < len(p.Request.Messages) && p.Request.Messages[j].Role == p.Request.Messages[i].Role
}
