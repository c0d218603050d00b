// Package check applies rules to a request. It defines the Rule, the Pass that a rule reads, and the pairing of tool
// calls and tool replies, which is shared by the rules.
//
//	facts.Request ─> Pairing ─> Rule, Rule, … ─> []Violation
//
// The rules themselves are in package rules. Package judge determines the identity and root cause of a Violation in a
// conversation.
package check
