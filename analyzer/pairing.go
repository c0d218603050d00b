package analyzer

import "github.com/llmtap/llmtap/analyzer/facts"

// Pairing matches the tool replies of a request to its calls.
type Pairing struct{}

func (p *Pairing) reset(r *facts.Request) {}
