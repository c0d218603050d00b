// Package check runs rules over a request. It defines a Rule, the Pass that a rule reads, and the pairing of tool calls and
// tool replies that rules share.
//
//	facts.Request ─> Pairing ─> Rule, Rule, … ─> []Violation
//
// The rules themselves are in package rules. Package judge gives a Violation its identity and root cause in a
// conversation.
package check
