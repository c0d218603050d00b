package judge

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// openServers contains the servers whose source shows what they accept.
var openServers = map[wire.Variant]bool{wire.Ollama: true, wire.VLLM: true, wire.SGLang: true, wire.LlamaCPP: true}

// refusedOpaquely reports whether the target, whose rules are not known to the last, refused the request with a text.
func refusedOpaquely(in cause.Input) bool {
	return (in.Status == http.StatusBadRequest || in.Status == http.StatusUnprocessableEntity) && len(in.Text) > 0 && !openServers[in.Variant]
}

// unpaired contains the causes whose texts name ids of calls or replies that lack the other.
var unpaired = [...]string{"missing_tool_reply", "orphan_tool_reply", "unknown_tool_call_id"}

// Explain returns the cause of a failed exchange whose request has these findings; it sets in.Rules. What the provider answered
// outranks what the rules predicted of it: a finding that explains the failure is refused (Finding.Refused), also if its rule was
// predicted to be lenient.
//
//	text names the rule of a finding                  ──> both
//	text names nothing, and the request violates
//	a rule that its target is known to enforce        ──> inferred
//	or rules that it tolerated before                 ──> inferred
//	or a single rule that other targets enforce       ──> inferred, for 400 and 422 with a text, unless openServers
//	text names calls that the request pairs correctly ──> conflict; paired is Turn.Paired or session.PairedIn, or nil
func Explain(in cause.Input, findings []Finding, paired func(text []byte) (session.Pair, bool)) cause.Cause {
	var rejected, tolerated, lenient []string
	for i := range findings {
		f := &findings[i]
		rules := &rejected
		switch {
		case f.Tolerated > 0:
			rules = &tolerated
		case f.Predicted == check.Lenient:
			rules = &lenient
		case f.Predicted != check.Reject:
			continue
		}
		if !slices.Contains(*rules, f.Rule.ID) {
			*rules = append(*rules, f.Rule.ID)
		}
	}
	in.Rules = rejected
	c := cause.Classify(in)
	for i, rules := range [...][]string{tolerated, lenient} {
		if len(rules) == 0 || c.Known == cause.Both {
			continue
		}
		in.Rules = rules
		d := cause.Classify(in)
		// Nothing else explains the failure: the target has become stricter, or the only violation is the reason.
		inferred := c.Known == cause.None && d.Known == cause.Inferred && (i == 0 || len(rules) == 1 && refusedOpaquely(in))
		if d.Known == cause.Both || inferred {
			c = d
		}
	}
	if paired != nil && (c.Known == cause.Stated || c.Known == cause.Guessed) && slices.Contains(unpaired[:], c.ID) {
		if p, ok := paired(in.Text); ok {
			deny(&c, &p)
		}
	}
	if c.Known == cause.Both || c.Known == cause.Inferred {
		for i := range findings {
			if f := &findings[i]; f.Predicted == check.Lenient && (f.Rule.ID == c.Rule || cause.OfRule(f.Rule.ID) == c.ID) {
				f.Predicted, f.Tolerated, f.Refused = check.Reject, 0, true
			}
		}
	}
	return c
}

// deny sets that the request contradicts c: it contains p, which the text calls incomplete.
func deny(c *cause.Cause, p *session.Pair) {
	c.Known = cause.Conflict
	c.Denial = fmt.Sprintf("The call %s is in message %d of the request, and its result in message %d.", p.ID, p.Call, p.Reply)
	switch {
	case p.Mixed:
		c.Denial += " Another block follows a call in that message."
		c.Fix = "Put all calls of an assistant message at its end: move the blocks after them before the first call, or leave them out."
	case p.Split:
		c.Denial += " The results of that message are in several messages."
		c.Fix = "Put all results for one assistant message into the one user message after it."
	default:
		c.Fix = "Compare the request with what arrived at the provider: a gateway may have changed it, or left out a message."
	}
}
