package judge

import (
	"net/http"
	"slices"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// openServers contains the servers whose source shows what they accept.
var openServers = map[wire.Variant]bool{wire.Ollama: true, wire.VLLM: true, wire.SGLang: true, wire.LlamaCPP: true}

// refusedOpaquely reports whether the target, whose rules are not known to the last, refused the request with a text.
func refusedOpaquely(in cause.Input) bool {
	return (in.Status == http.StatusBadRequest || in.Status == http.StatusUnprocessableEntity) && len(in.Text) > 0 && !openServers[in.Variant]
}

// Explain returns the cause of a failed exchange whose request has these findings; it sets in.Rules. What the provider answered
// outranks what the rules predicted of it: a finding that explains the failure is refused (Finding.Refused), also if its rule was
// predicted to be lenient.
//
//	text names the rule of a finding                  ──> both
//	text names nothing, and the request violates
//	a rule that its target is known to enforce        ──> inferred
//	or rules that it tolerated before                 ──> inferred
//	or a single rule that other targets enforce       ──> inferred, for 400 and 422 with a text, unless openServers
func Explain(in cause.Input, findings []Finding) cause.Cause {
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
	if c.Known == cause.Both || c.Known == cause.Inferred {
		for i := range findings {
			if f := &findings[i]; f.Predicted == check.Lenient && (f.Rule.ID == c.Rule || cause.OfRule(f.Rule.ID) == c.ID) {
				f.Predicted, f.Tolerated, f.Refused = check.Reject, 0, true
			}
		}
	}
	return c
}
