package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ToolNotDeclared finds calls of functions that the request does not declare.
var ToolNotDeclared = &check.Rule{
	ID:    "tool_not_declared",
	Order: 430,
	Cause: "tool_choice_invalid",
	Doc: `call of a function that is not among the tools

Providers accept it, but the model sees itself use a tool that it does not have: it calls it again, or invents its
result; Groq then refuses the new call, "attempted to call tool 'x' which was not in request.tools". Usual causes: the
set of tools changes within a session (another agent, another mode); a tool was renamed; the model invented the name and
the agent did not check it. Keep the tools of a session the same, or turn old calls into text.`,
	Fix:      "Keep the set of tools the same for a whole session, and answer a call of an unknown function with an error.",
	Severity: func(wire.Target) check.Severity { return check.Style },
	Run:      toolNotDeclared,
}

// toolNotDeclared reports the first call of each function.
func toolNotDeclared(p *check.Pass) {
	r := p.Request
	if r.Bare || r.Stored || r.OpenTools || r.Dropped > 0 || len(r.Tools) == 0 || len(p.Pairing.Calls) == 0 {
		return
	}
	tools := p.Set(len(r.Tools) + len(p.Pairing.Calls))
	for _, t := range r.Tools {
		tools.Add(t)
	}
	for i := range p.Pairing.Calls {
		c := &p.Pairing.Calls[i]
		if c.NameKind == facts.Absent {
			continue // also the calls of tools that are declared by a type instead of a name
		}
		if len(c.Name) > 0 && tools.Add(c.Name) {
			p.Report(c.Message, c.ID, c.Name, "", "message %d (assistant) calls %s, which is none of the %d tools of the request",
				c.Message, function(c.Call), r.ToolCount)
		}
	}
}
